//! The kernels that the program cannot launch and that are compiled all the same, for the plan.

use std::collections::{BTreeMap, BTreeSet};

use llvm_passes::partition::Partition;

use crate::device::symbol_errors::named;

/// Returns them, each with the reason as a sentence without a full stop. `dead` are all that the program cannot launch,
/// `visible` the names that stay visible in the linked code, `by_code` the kernels that other bitcode refers to, each with what refers to it, `other_code` what
/// code is that is no bitcode.
pub fn reasons(
    dead: &BTreeSet<String>,
    visible: &BTreeSet<String>,
    by_code: BTreeMap<String, String>,
    partitions: &[Partition],
    other_code: &str,
) -> BTreeMap<String, String> {
    let is_dead = |kernel: &&String| dead.contains(*kernel);
    let other = visible.iter().filter(is_dead).map(|kernel| (kernel, format!("{other_code} refers to it")));
    let code = by_code.iter().map(|(kernel, user)| (kernel, format!("device code refers to it, in {}", named(user))));
    let all = partitions.iter().flat_map(|partition| &partition.kernels).filter(is_dead);
    let together = all.map(|kernel| (kernel, "live kernels are in one partition with it".to_owned()));
    // Of several reasons the first one counts.
    together.chain(code).chain(other).map(|(kernel, reason)| (kernel.clone(), reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_first_reason() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let dead = names(&["a", "b", "c", "d"]);
        let by_code = BTreeMap::from([("a".to_owned(), "f".to_owned()), ("b".to_owned(), "g".to_owned())]);
        let kernels = ["b", "c", "live"].map(str::to_owned).to_vec();
        let partition = Partition { kernels, ..Partition::default() };
        let found = reasons(&dead, &names(&["a", "live"]), by_code, &[partition], "machine code");
        assert_eq!(found.len(), 3);
        assert_eq!(found["a"], "machine code refers to it");
        assert_eq!(found["b"], "device code refers to it, in 'g'");
        assert_eq!(found["c"], "live kernels are in one partition with it");
    }
}
