//! Predicts what HIP's runtime does with a bundle: which entry each of AMD's GPUs runs.
//!
//! The rules are those of LLVM's documentation (AMDGPU's target ids, generic processors and code object versions, and clang's of the
//! bundler) and of the published source of ROCm 7's runtime and loader. **No GPU was seen to follow them.**
//!
//! 1. The runtime chooses by the ids of the entries, and in the order of the bundle: code for the GPU's processor whose features have the
//!    GPU's settings or none, then code for its generic processor, by the same rule, then SPIR-V, which it compiles for the GPU. Versions before
//!    ROCm 6.4 know the first of these alone.
//! 2. The loader then checks the header of the code object: its processor and features, its version, and the version of generic code.
//!    What it rejects is not replaced by another entry.
//! 3. If nothing fits, launching a kernel is `hipErrorNoBinaryForGpu`. Versions of ROCm 7 report `hipErrorInvalidImage` or
//!    `hipErrorInvalidDeviceFunction` in its place.

mod bundles;
pub(super) mod check;
mod code;
mod gpu;
pub(super) mod report;
mod select;

pub use bundles::{FoundBundle, hip_bundles};
pub use code::{BundledCode, Form};
pub use gpu::{AmdGpu, UnknownAmdGpu};
pub use select::{HipOutcome, HipVerdict, hip_outcome};
