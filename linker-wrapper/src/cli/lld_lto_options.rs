//! The options of ld.lld that concern its link-time optimization, which fatlink does in its place.
//!
//! ld.lld gets objects here, and it would accept these options without a word and without an effect. Each is carried out as ld.lld does,
//! or rejected by its name. All other options are left to ld.lld, which rejects those that it does not know.

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Sets the optimization level.
    Level,
    /// Sets the level of code generation.
    Generation,
    /// Names the passes that run.
    Passes,
    /// Prints the passes that run.
    PrintPasses,
    /// Names the processor, which the images do already.
    Processor,
    /// Is an option of LLVM: this text, and the value.
    Llvm(&'static str),
    /// Sets the number of jobs.
    Jobs,
    /// Sets the number of parts that the program is cut into.
    Parts,
    /// Keeps intermediate files.
    SaveTemps,
    /// References a symbol.
    Root,
    /// References a symbol by its role, which ld.lld has to know, too.
    RoleRoot,
    /// Prints who defines and who references a symbol.
    Trace,
    /// Has no effect on the result of a full link.
    Nothing,
    /// Has no effect with this value, and is rejected with any other.
    Only(&'static str, &'static str),
    /// Is rejected, with the reason.
    Refused(&'static str),
}

/// How an option takes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// None.
    Flag,
    /// In the same word.
    Joined,
    /// Behind a `=`, or in the next word.
    Value,
}

use Effect::{
    Generation, Jobs, Level, Llvm, Nothing, Only, Parts, Passes, PrintPasses, Processor, Refused, RoleRoot, Root,
    SaveTemps, Trace,
};
use Form::{Flag, Joined, Value};

const IMAGE: &str = "the image has to be a code object";
/// Why there are no profiles.
pub const PROFILE: &str = "device links neither read nor write profiles";
const REMARKS: &str = "remarks are recorded as YAML";
const SECTIONS: &str = "the sections of basic blocks stay as LLVM makes them";
const THIN: &str =
    "device code is linked as a whole; --offload-cache= keeps results and --offload-distributor= runs jobs elsewhere";
const VTABLES: &str = "device links do not resolve virtual calls by the types of the whole program";
const EARLY: &str = "functions are inlined before ld.lld runs, so it would replace some of the uses only";

/// Names without the dashes, form and effect. The longest name that fits counts.
const OPTIONS: &[(&[&str], Form, Effect)] = &[
    (&["lto-O", "plugin-opt=O"], Joined, Level),
    (&["lto-CGO"], Joined, Generation),
    (&["lto-newpm-passes"], Value, Passes),
    (&["lto-debug-pass-manager", "plugin-opt=debug-pass-manager"], Flag, PrintPasses),
    (&["plugin-opt=mcpu="], Joined, Processor),
    (&["mllvm"], Value, Llvm("")),
    (&["plugin-opt=-"], Joined, Llvm("-")),
    (&["opt-remarks-filename", "plugin-opt=opt-remarks-filename"], Value, Llvm("-pass-remarks-output=")),
    (&["opt-remarks-passes", "plugin-opt=opt-remarks-passes"], Value, Llvm("-pass-remarks-filter=")),
    (&["opt-remarks-format", "plugin-opt=opt-remarks-format"], Value, Only("yaml", REMARKS)),
    (&["opt-remarks-with-hotness", "plugin-opt=opt-remarks-with-hotness"], Flag, Llvm("-pass-remarks-with-hotness")),
    (
        &["opt-remarks-hotness-threshold", "plugin-opt=opt-remarks-hotness-threshold"],
        Value,
        Llvm("-pass-remarks-hotness-threshold="),
    ),
    (&["thinlto-jobs", "plugin-opt=jobs"], Value, Jobs),
    (&["lto-partitions", "plugin-opt=lto-partitions"], Value, Parts),
    (&["save-temps", "plugin-opt=save-temps"], Flag, SaveTemps),
    (&["save-temps="], Joined, SaveTemps),
    (&["undefined", "u"], Value, Root),
    (&["entry", "e", "init", "fini"], Value, RoleRoot),
    (&["trace-symbol", "y"], Value, Trace),
    // What ld.lld accepts without an effect, or what changes nothing in its output.
    (&["plugin"], Value, Nothing),
    (&["plugin-opt=thinlto", "plugin-opt=disable-verify"], Flag, Nothing),
    (&["plugin-opt=-fresolution=", "plugin-opt=-pass-through="], Joined, Nothing),
    (&["lto=full", "lto=thin", "lto-pgo-warn-mismatch", "no-lto-pgo-warn-mismatch"], Flag, Nothing),
    (&["no-lto-basic-block-address-map", "no-lto-unique-basic-block-section-names"], Flag, Nothing),
    (&["no-lto-validate-all-vtables-have-type-infos", "no-lto-whole-program-visibility"], Flag, Nothing),
    (&["lto-basic-block-sections"], Value, Only("none", SECTIONS)),
    // What cannot be done.
    (&["lto-emit-asm", "plugin-opt=emit-asm", "lto-emit-llvm", "plugin-opt=emit-llvm"], Flag, Refused(IMAGE)),
    (&["lto-obj-path", "plugin-opt=obj-path"], Value, Refused("--save-temps keeps the objects")),
    (&["lto-aa-pipeline"], Value, Refused("the analyses of aliases are those of LLVM's own pipeline")),
    (&["load-pass-plugin"], Value, Refused("this program loads no plug-ins of LLVM")),
    (&["lto-basic-block-address-map", "lto-unique-basic-block-section-names"], Flag, Refused(SECTIONS)),
    (&["lto-sample-profile", "plugin-opt=sample-profile"], Value, Refused(PROFILE)),
    (&["lto-cs-profile-file", "plugin-opt=cs-profile-path"], Value, Refused(PROFILE)),
    (&["lto-cs-profile-generate", "plugin-opt=cs-profile-generate"], Flag, Refused(PROFILE)),
    (&["lto-whole-program-visibility", "lto-validate-all-vtables-have-type-infos"], Flag, Refused(VTABLES)),
    (&["lto-known-safe-vtables"], Value, Refused(VTABLES)),
    (&["plugin-opt=dwo_dir"], Value, Refused("debug information stays in the image")),
    (&["plugin-opt=stats-file"], Value, Refused("--offload-stats and -mllvm=-stats print statistics")),
    (&["thinlto-", "plugin-opt=thinlto-"], Joined, Refused(THIN)),
    (&["undefined-glob"], Value, Refused("name each symbol with --undefined=")),
    (&["defsym", "wrap"], Value, Refused(EARLY)),
    // Options of later releases.
    (&["lto-", "no-lto-"], Joined, Refused("this release does not know the option")),
];

/// An option that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'w> {
    /// What becomes of it.
    pub effect: Effect,
    /// Its value; none if that is in the next word.
    pub value: Option<&'w str>,
}

/// Finds the option that a word is, or begins. `None` for one that ld.lld handles itself.
pub fn find(word: &str) -> Option<Found<'_>> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let all = OPTIONS.iter().flat_map(|(names, form, effect)| names.iter().map(move |own| (*own, *form, *effect)));
    let fitting = all.filter_map(|(own, form, effect)| {
        let behind = name.strip_prefix(own)?;
        let value = match form {
            Flag if behind.is_empty() => Some(""),
            Joined => Some(behind),
            Value if behind.is_empty() => None,
            Value => Some(behind.strip_prefix('=')?),
            Flag => return None,
        };
        Some((own.len(), Found { effect, value }))
    });
    let longest = fitting.max_by_key(|(length, _)| *length).map(|(_, found)| found);
    longest.or_else(|| short_root(word))
}

/// `-uNAME` and `-yNAME`.
fn short_root(word: &str) -> Option<Found<'_>> {
    // -unresolved-symbols=
    let root = word.strip_prefix("-u").filter(|name| !name.starts_with("nresolved-"));
    let (value, effect) = root.map(|name| (name, Root)).or_else(|| Some((word.strip_prefix("-y")?, Trace)))?;
    Some(Found { effect, value: Some(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(word: &str) -> Option<Effect> {
        find(word).map(|found| found.effect)
    }

    #[test]
    fn the_longest_name_counts() {
        assert_eq!(find("--lto-O1"), Some(Found { effect: Level, value: Some("1") }));
        assert_eq!(find("-lto-obj-path=x").map(|found| found.value), Some(Some("x")));
        assert_eq!(effect("--lto-CGO0"), Some(Generation));
        assert_eq!(effect("--plugin-opt=thinlto"), Some(Nothing));
        assert_eq!(effect("--plugin-opt=thinlto-index-only"), Some(Refused(THIN)));
        assert_eq!(effect("--thinlto-jobs=3"), Some(Jobs));
        assert!(matches!(effect("--lto-later"), Some(Refused(_))));
    }

    #[test]
    fn values_are_in_the_word_or_in_the_next_one() {
        for word in ["-mllvm", "--mllvm", "--undefined", "-u", "--lto-newpm-passes", "-y"] {
            assert_eq!(find(word).expect(word).value, None, "{word}");
        }
        for word in ["-mllvm=-x", "--mllvm=-x", "--lto-newpm-passes=-x", "-u-x", "-y-x", "-opt-remarks-filename=-x"] {
            assert_eq!(find(word).expect(word).value, Some("-x"), "{word}");
        }
        assert_eq!(find("--plugin-opt=-inline-threshold=1").expect("LLVM's").value, Some("inline-threshold=1"));
    }

    #[test]
    fn other_options_are_those_of_ld_lld() {
        for word in [
            "-Map=x",
            "--print-map",
            "-l",
            "-lto.a",
            "x.a",
            "-O1",
            "-unresolved-symbols=x",
            "--plugin-opt=x",
            "-z",
            "--entry-x",
        ] {
            assert_eq!(find(word), None, "{word}");
        }
    }
}
