//! What is known of attributes that differ between cubins of equal code: whether a GPU runs one as it would run the other.
//!
//! An attribute that has no row here makes two cubins different.

use super::Cubin;
use super::difference::{AttributeDifference, AttributeTable, code_difference};
use crate::arch::GpuArch;

/// A cubin that a GPU would run in place of another, of which it differs in an attribute.
#[derive(Debug, Clone, Copy)]
struct Replacement<'d> {
    /// From the one that is replaced to the one that runs instead.
    difference: &'d AttributeDifference,
    /// What they were compiled for.
    replaced: GpuArch,
    instead: GpuArch,
    gpu: GpuArch,
}

/// What is known of an attribute.
#[derive(Debug)]
pub struct KnownAttribute {
    table: AttributeTable,
    number: u8,
    /// Why a GPU runs one cubin as the other, where it does.
    pub why: &'static str,
    /// How that is known.
    pub source: &'static str,
    /// Whether it does.
    holds: fn(&Replacement<'_>) -> bool,
}

/// One row for each attribute.
const KNOWN: [KnownAttribute; 3] = [
    KnownAttribute {
        table: AttributeTable::Info,
        number: 0x35,
        why: "it lists a workaround for a fault of other GPUs, and this GPU runs code with it as well",
        source: "ptxas 12.8, 13.0 and 13.3 write it for sm_80, 86, 87 and 88, and not for sm_75, 89 and later; a GPU runs machine code of earlier ones of its major version (CUDA C++ Programming Guide, binary compatibility)",
        // Code without the workaround may fail where the compiler deemed it necessary.
        holds: |this| {
            let is_added = this.difference.left.is_empty() && !this.difference.right.is_empty();
            is_added && this.gpu.major() == this.instead.major()
        },
    },
    KnownAttribute {
        table: AttributeTable::Compat,
        number: 0x09,
        why: "it is the suffix of the target: equal code needs nothing that the plain target lacks",
        source: "ptxas 13.0 and 13.3 write 1 for sm_90a, 100a, 103a, 110a, 120a and 121a, and 0 for others",
        holds: |this| {
            let is_dropped = this.replaced.suffix() == "a" && this.instead.suffix() == "";
            is_dropped && is_of_same_number(this)
        },
    },
    KnownAttribute {
        table: AttributeTable::Compat,
        number: 0x0b,
        why: "it is about finalizing the code for another GPU of the family, and both are compiled for this GPU",
        source: "its name (CAN_FASTPATH_FINALIZE); ptxas 13.0 writes 0x50 for sm_120, 120a and 120f, ptxas 13.3 also 0x10 for sm_120a; it was not tried on a GPU of sm_120",
        holds: is_of_same_number,
    },
];

fn is_of_same_number(this: &Replacement<'_>) -> bool {
    this.gpu.number == this.replaced.number && this.gpu.number == this.instead.number
}

/// Whether a GPU runs the second cubin as it would run the first.
pub fn runs_alike(replaced: &Cubin<'_>, instead: &Cubin<'_>, gpu: GpuArch) -> bool {
    let difference = code_difference(replaced, instead);
    difference.is_in_attributes_alone()
        && attributes_run_alike(&difference.attributes, (replaced.arch(), instead.arch()), replaced.finalizable(), gpu)
}

/// The same for cubins that differ in these attributes alone, from the first to the second: of these architectures, and whether the driver may
/// finalize them.
pub(crate) fn attributes_run_alike(
    differing: &[AttributeDifference],
    (replaced, instead): (GpuArch, GpuArch),
    finalizable: bool,
    gpu: GpuArch,
) -> bool {
    // Of what the driver finalizes for another GPU, the code is not known.
    let is_final = !finalizable || (replaced.number == gpu.number && instead.number == gpu.number);
    is_final && differing.iter().all(|one| KnownAttribute::of(one, replaced, instead, gpu).is_some())
}

impl KnownAttribute {
    /// What is known of the attribute that differs, if `gpu` runs `instead` as it would run `replaced`, from which it differs so. `None` if it may
    /// not.
    pub fn of(
        difference: &AttributeDifference,
        replaced: GpuArch,
        instead: GpuArch,
        gpu: GpuArch,
    ) -> Option<&'static Self> {
        let known = KNOWN.iter().find(|row| (row.table, row.number) == (difference.table, difference.number))?;
        (known.holds)(&Replacement { difference, replaced, instead, gpu }).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(table: AttributeTable, number: u8, left: &[u8], right: &[u8]) -> AttributeDifference {
        AttributeDifference { table, number, left: left.to_vec(), right: right.to_vec(), sections: 1 }
    }

    fn holds(difference: &AttributeDifference, [replaced, instead, gpu]: [&str; 3]) -> bool {
        let arch = |name: &str| format!("sm_{name}").parse().expect("an architecture");
        KnownAttribute::of(difference, arch(replaced), arch(instead), arch(gpu)).is_some()
    }

    #[test]
    fn a_workaround_may_be_added_and_never_lost() {
        let added = difference(AttributeTable::Info, 0x35, b"", b"\x01\x35\0\0");
        assert!(holds(&added, ["89", "86", "89"]));
        assert!(!holds(&added.reversed(), ["86", "80", "86"]));
        let other = difference(AttributeTable::Info, 0x35, b"\x01\x35\0\0", b"\x01\x35\x01\0");
        assert!(!holds(&other, ["86", "80", "86"]));
    }

    #[test]
    fn a_suffix_may_go_where_the_gpu_is_the_one_of_both_targets() {
        let suffix = difference(AttributeTable::Compat, 9, b"\x02\x09\x01\0", b"\x02\x09\0\0");
        assert!(holds(&suffix, ["120a", "120", "120"]));
        assert!(!holds(&suffix, ["120", "120a", "120"]) && !holds(&suffix, ["121a", "120", "121"]));
    }

    #[test]
    fn finalization_matters_to_other_gpus() {
        let finalization = difference(AttributeTable::Compat, 0x0b, b"\x50", b"\x10");
        assert!(holds(&finalization, ["120a", "120", "120"]) && !holds(&finalization, ["121", "120", "121"]));
    }

    #[test]
    fn what_is_not_known_differs() {
        assert!(!holds(&difference(AttributeTable::Info, 0x1c, b"a", b"b"), ["89", "86", "89"]));
        // The same number in the other table.
        assert!(!holds(&difference(AttributeTable::Compat, 0x35, b"", b"b"), ["89", "86", "89"]));
    }
}
