//! The gate: whether files run on each of some GPUs with each of some drivers, before they ship.
//!
//! 1. [`Requirement`] says on which GPUs and with which drivers, [`Claims`] what else is said of the files.
//! 2. [`FileCode`] reads a file, and [`FileGate`] has a cell for each GPU and driver, by the rules of [`outcome`](super::outcome()) and
//!    [`hip_outcome`](super::hip_outcome). What is not known fails.
//! 3. A cell says what it stands on ([`Rung`]); assembling PTX and loading modules make it stand on more.
//! 4. [`GateReport`] judges files together that one process needs.

mod assembly;
mod cell;
mod claims;
mod content;
mod fate;
mod judge;
mod known_drivers;
mod loading;
mod report;
mod requirement;
mod sum;
#[cfg(test)]
mod tests;
mod text;

pub use assembly::{Assembled, PtxJob, PtxText};
pub use cell::{Cell, CellVerdict};
pub use claims::{Claims, cuda_of_name};
pub use content::Shipped;
pub use judge::{FileCode, FileGate};
pub use loading::{LoadedModules, ModuleToLoad};
pub use report::{GateFinding, GateReport, SetCell};
pub use requirement::{JitRule, KernelClaim, KernelRule, Requirement, Rung};
