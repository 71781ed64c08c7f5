//! Predicts what the CUDA driver does with a fatbin: which entry it runs on which GPU, and which faults the fatbin has; and what HIP's
//! runtime does with a bundle (`hip`).
//!
//! NVIDIA does not document how the driver chooses. The rules of [`outcome`] are those that a driver of branch 580 was seen to follow on
//! a GPU of sm_90, with fatbins in which every entry's kernel stored its own number (`tests/driver-truth/` has them, with what ran). 27
//! simple ones gave the rules; of 26 mixes, damaged and mislabelled ones included, the rules predicted 23, and were corrected by the other 3.
//! The rules for other GPUs are those of the CUDA programming guide, as [`GpuArch`](crate::GpuArch) has them; those for other drivers come
//! from the release notes.
//!
//! 1. [`inspect`] reads every entry once: what its image records, and whether it is sound.
//! 2. [`outcome`] predicts what one driver does on one GPU. In a program of `nvcc -rdc` the driver may link the objects again if no
//!    linked entry fits: `relink` predicts the result.
//! 3. [`check`] predicts the outcome for all GPUs and reports faults of the fatbin.
//! 4. [`containers`] finds the fatbins of a file, and which objects were linked into which; [`ExplainReport`] and [`CheckReport`] hold
//!    what the program prints.
//!
//! Nothing here reads files or needs a GPU.

mod check;
mod check_link;
mod code;
mod containers;
mod driver;
mod equal;
mod findings;
pub mod gate;
mod gpu_words;
mod groups;
mod hip;
mod links;
mod needed;
mod needs;
mod relink;
mod report;
mod select;
mod shared_kernels;
#[cfg(test)]
mod testing;
mod text;
mod uneven_targets;

pub use check::{CheckOptions, check};
pub use check_link::{check_host_code, forgotten_link, registers_device_code};
pub use code::{Code, Content, LinkSymbols, Twins, inspect, inspect_for_audit};
pub use containers::{ContainerPlace, FoundContainer, Role, compared_containers, containers};
pub use driver::{Driver, Jit, Runtime, UnknownDriver};
pub(crate) use equal::changed_choices;
pub use equal::{Droppable, EqualImages, Instead, check_equal, droppable, equal_images};
pub use findings::{Finding, FindingCode, Severity};
pub use gpu_words::{Gpu, GpuWord};
pub(crate) use groups::{grouped, ranges};
pub use hip::{
    AmdGpu, BundledCode, Form, FoundBundle, HipOutcome, HipVerdict, UnknownAmdGpu, hip_bundles, hip_outcome,
};
pub(crate) use needed::same_outcomes;
pub use needed::{Gpus, NeededEntries, needed_entries, served_gpus};
pub use needs::{DriverNeeds, EntryNeed, driver_needs, too_new_for};
pub use report::{
    Basis, CheckReport, CheckedContainer, ContainerReport, ExplainReport, GpuReport, PartReport, PassedOverReport,
    Platform, RoleReport,
};
pub use select::{LinkPart, Outcome, PassedOver, Verdict, WhyNot, outcome};
pub use shared_kernels::shared_kernels;
pub use text::{Detail, OfFile, check_text, explain_text, places_by_file};
pub use uneven_targets::uneven_targets;
