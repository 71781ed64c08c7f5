//! Groups the images for AMD GPUs by target, as LLVM's linker wrapper does: which target ids are targets of their own, and which code is
//! linked for several.

use offload_bundle::amdgpu::{FeatureSetting, TargetId};

use crate::cli::values::LlvmRules;

/// Code for every processor of its triple.
const GENERIC: &str = "generic";

/// An image, as the grouping sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its triple.
    pub triple: &'a str,
    /// Its target id, or `generic`.
    pub arch: &'a str,
    /// It is in an archive, and not one of `--whole-archive`.
    pub in_archive: bool,
}

/// A target, with the indices of its images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'a> {
    /// The triple of the images.
    pub triple: &'a str,
    /// The target id that opened the group.
    pub arch: &'a str,
    /// The images by index, in link order.
    pub images: Vec<usize>,
}

/// Groups the images. `extracted` are the targets that `--should-extract=` takes out of archives.
///
/// An archive may have code for more targets than the program. Its members join the targets of the objects; they open targets of their own
/// only if these are to be extracted, or if no object has device code at all.
pub fn group<'a>(candidates: &[Candidate<'a>], extracted: &[String], rules: LlvmRules) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    let (members, mut objects): (Vec<_>, Vec<_>) =
        candidates.iter().enumerate().partition(|(_, candidate)| candidate.in_archive);
    if rules == LlvmRules::Llvm23 {
        objects.sort_by_key(|(_, candidate)| std::cmp::Reverse(candidate.arch.matches(':').count()));
    }
    let only_members = objects.is_empty();
    for (index, object) in objects {
        add(&mut groups, index, object, true, rules);
    }
    for (index, member) in members {
        let may_open = only_members || extracted.iter().any(|arch| arch == member.arch);
        add(&mut groups, index, member, may_open, rules);
    }
    for group in &mut groups {
        group.images.sort_unstable();
    }
    groups
}

fn add<'a>(groups: &mut Vec<Group<'a>>, index: usize, candidate: &Candidate<'a>, may_open: bool, rules: LlvmRules) {
    let Candidate { triple, arch, .. } = *candidate;
    let mut has_own = false;
    let mut has_joined = false;
    for group in groups.iter_mut().filter(|group| group.triple == triple) {
        let is_own = group.arch == arch;
        if is_own || are_compatible(group.arch, arch) {
            group.images.push(index);
            has_own |= is_own;
            has_joined = true;
        }
    }
    let opens = match rules {
        LlvmRules::Llvm22 => !has_own && may_open,
        LlvmRules::Llvm23 => !has_joined && may_open,
    };
    if opens {
        groups.push(Group { triple, arch, images: vec![index] });
    }
}

/// Whether code of two different target ids is linked together.
fn are_compatible(one: &str, other: &str) -> bool {
    if one == GENERIC || other == GENERIC {
        return true;
    }
    match (one.parse::<TargetId>(), other.parse::<TargetId>()) {
        (Ok(one), Ok(other)) => one.links_with(&other),
        _ => false,
    }
}

/// The targets of AMD's GPUs among those that `--should-extract=` names for which there is no code, in an archive or elsewhere.
pub fn without_code<'e>(candidates: &[Candidate<'_>], extracted: &'e [String]) -> Vec<&'e str> {
    let is_amd = |arch: &str| arch.starts_with("gfx");
    let has_code = |arch: &str| candidates.iter().any(|found| found.arch == arch || are_compatible(found.arch, arch));
    extracted.iter().map(String::as_str).filter(|arch| is_amd(arch) && !has_code(arch)).collect()
}

/// Two targets of one processor of which one has a setting that the other lacks, by their indices: both would fit the same GPUs, and code
/// without the setting gets it from what joins it. LLVM's bundler rejects them, too.
pub fn conflict(groups: &[Group<'_>]) -> Option<(usize, usize)> {
    let ids: Vec<(usize, TargetId)> =
        groups.iter().enumerate().filter_map(|(index, group)| Some((index, group.arch.parse().ok()?))).collect();
    let has = |setting| setting != FeatureSetting::Any;
    let differ = |one: &TargetId, other: &TargetId| {
        one.processor == other.processor
            && (has(one.xnack) != has(other.xnack) || has(one.sramecc) != has(other.sramecc))
    };
    let pairs = ids.iter().flat_map(|one| ids.iter().map(move |other| (one, other)));
    let mut pairs = pairs.filter(|((one, _), (other, _))| one < other && groups[*one].triple == groups[*other].triple);
    pairs.find(|((_, one), (_, other))| differ(one, other)).map(|((one, _), (other, _))| (*one, *other))
}

/// Sorts targets as LLVM's linker wrapper orders the images of a bundle: by triple and target id, the last first.
pub fn sort(groups: &mut [Group<'_>]) {
    groups.sort_by(|one, other| (other.triple, other.arch).cmp(&(one.triple, one.arch)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIPLE: &str = "amdgcn-amd-amdhsa";

    /// The groups of these target ids, those in parentheses in archives, as "ID: INDEX INDEX".
    fn grouped(archs: &[&str], extracted: &[&str], rules: LlvmRules) -> Vec<String> {
        let candidates = archs.iter().map(|arch| {
            let bare = arch.trim_matches(['(', ')']);
            Candidate { triple: TRIPLE, arch: bare, in_archive: bare != *arch }
        });
        let extracted: Vec<String> = extracted.iter().map(|arch| (*arch).to_owned()).collect();
        let groups = group(&candidates.collect::<Vec<_>>(), &extracted, rules);
        groups.iter().map(|group| format!("{}{:?}", group.arch, group.images)).collect()
    }

    #[test]
    fn llvm_22_opens_a_target_for_every_id_of_an_object() {
        let rules = LlvmRules::Llvm22;
        assert_eq!(grouped(&["gfx90a", "gfx908", "gfx90a"], &[], rules), ["gfx90a[0, 2]", "gfx908[1]"]);
        assert_eq!(grouped(&["gfx90a:xnack+", "gfx90a"], &[], rules), ["gfx90a:xnack+[0, 1]", "gfx90a[1]"]);
        // What comes later does not join what was there before.
        assert_eq!(grouped(&["gfx90a", "gfx90a:xnack+"], &[], rules), ["gfx90a[0, 1]", "gfx90a:xnack+[1]"]);
        assert_eq!(grouped(&["gfx90a:xnack+", "gfx90a:xnack-"], &[], rules), ["gfx90a:xnack+[0]", "gfx90a:xnack-[1]"]);
        assert_eq!(
            grouped(&["gfx90a", "gfx908", "generic"], &[], rules),
            ["gfx90a[0, 2]", "gfx908[1, 2]", "generic[2]"]
        );
    }

    #[test]
    fn targets_to_extract_need_code() {
        let candidates = [Candidate { triple: TRIPLE, arch: "gfx90a", in_archive: true }];
        let extracted = ["gfx90a", "gfx90a:xnack+", "gfx1100", "sm_90"].map(str::to_owned);
        assert_eq!(without_code(&candidates, &extracted), ["gfx1100"]);
    }

    #[test]
    fn targets_with_and_without_a_setting_conflict() {
        let found = |archs: &[&'static str]| {
            let group = |arch: &&'static str| Group { triple: TRIPLE, arch, images: Vec::new() };
            conflict(&archs.iter().map(group).collect::<Vec<_>>())
        };
        assert_eq!(found(&["gfx1100", "gfx90a", "gfx90a:xnack+"]), Some((1, 2)));
        assert_eq!(found(&["gfx90a:sramecc+", "gfx90a:xnack+"]), Some((0, 1)));
        assert_eq!(found(&["gfx90a:xnack-", "gfx90a:xnack+", "gfx908", "generic"]), None);
    }

    #[test]
    fn llvm_23_merges_code_without_a_setting_into_the_specific_targets() {
        let rules = LlvmRules::Llvm23;
        let ids = ["gfx90a", "gfx90a:xnack+", "gfx90a:xnack-"];
        assert_eq!(grouped(&ids, &[], rules), ["gfx90a:xnack+[0, 1]", "gfx90a:xnack-[0, 2]"]);
        assert_eq!(grouped(&["gfx90a", "gfx90a"], &[], rules), ["gfx90a[0, 1]"]);
    }

    #[test]
    fn archives_join_targets_and_open_only_those_to_extract() {
        let rules = LlvmRules::Llvm22;
        assert_eq!(grouped(&["gfx90a", "(gfx90a)", "(gfx1100)"], &[], rules), ["gfx90a[0, 1]"]);
        assert_eq!(grouped(&["gfx90a:xnack+", "(gfx90a)"], &[], rules), ["gfx90a:xnack+[0, 1]"]);
        assert_eq!(grouped(&["gfx90a", "(gfx1100)"], &["gfx1100"], rules), ["gfx90a[0]", "gfx1100[1]"]);
        assert_eq!(grouped(&["(gfx90a)", "(gfx1100)"], &[], rules), ["gfx90a[0]", "gfx1100[1]"]);
    }

    #[test]
    fn bundles_have_the_last_target_first() {
        let mut groups: Vec<_> = ["gfx1100", "gfx90a", "gfx90a:xnack-"]
            .map(|arch| Group { triple: TRIPLE, arch, images: Vec::new() })
            .into();
        sort(&mut groups);
        assert_eq!(groups.iter().map(|group| group.arch).collect::<Vec<_>>(), ["gfx90a:xnack-", "gfx90a", "gfx1100"]);
    }
}
