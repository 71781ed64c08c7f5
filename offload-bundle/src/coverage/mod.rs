//! What the CUDA driver makes of a fatbin: which entry it runs on which GPU, and what is wrong with the choice it is given.
//!
//! NVIDIA does not document how the driver chooses. The rules of [`outcome`] are those that a driver of branch 580 was seen to follow on
//! a GPU of sm_90, with fatbins in which every entry's kernel stored its own number (`tests/driver-truth/` has them, with what ran). 27
//! simple ones gave the rules; of 26 mixes, damaged and mislabelled ones among them, they then foretold 23, and learned from the other 3.
//! The rules for other GPUs are those of the CUDA programming guide, as [`GpuArch`](crate::GpuArch) has them; those for other drivers come
//! from the release notes.
//!
//! 1. [`inspect`] looks into every entry once: what its image says of itself, and whether it is sound.
//! 2. [`outcome`] answers for one GPU and driver.
//!    In a program of nvcc's `-rdc` the driver may link the objects again, where nothing that was linked fits: `relink` tells what of.
//! 3. [`check`] asks [`outcome`] for all GPUs and lists what somebody who ships the fatbin should know.
//! 4. [`containers`] finds the fatbins of a file, and which of them were linked of which; [`ExplainReport`] and [`CheckReport`] are what the program prints.
//!
//! Nothing here reads files, or needs a GPU.

mod check;
mod check_link;
mod code;
mod containers;
mod driver;
mod findings;
mod links;
mod needs;
mod relink;
mod report;
mod select;
#[cfg(test)]
mod testing;
mod text;

pub use check::{CheckOptions, check};
pub use check_link::forgotten_link;
pub use code::{Code, Content, LinkSymbols, Twins, inspect};
pub use containers::{ContainerPlace, FoundContainer, Role, containers};
pub use driver::{Driver, Jit, Runtime, UnknownDriver};
pub use findings::{Finding, FindingCode, Severity};
pub use needs::{DriverNeeds, EntryNeed, driver_needs, too_new_for};
pub use report::{
    CheckReport, CheckedContainer, ContainerReport, ExplainReport, GpuReport, PartReport, PassedOverReport, RoleReport,
};
pub use select::{LinkPart, Outcome, PassedOver, Verdict, WhyNot, outcome};
