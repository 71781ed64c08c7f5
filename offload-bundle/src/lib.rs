//! Reads, writes and edits the containers of offloaded device code: LLVM's offload binaries, NVIDIA's fatbins and cubins, HIP's bundles,
//! and the objects, libraries and programs that carry them.
//!
//! The crate works on bytes alone. It needs no LLVM, no CUDA toolkit and no GPU, opens no files, starts no processes, contains no `unsafe`
//! code, and uses no threads but rayon's, on which [`fatbin::FatbinBuilder`] and [`kept_results`] compress. The program `offload-bundle` is its command
//! line; fatlink links device code with it.
//!
//! # Example
//!
//! Put PTX for two GPUs into a fatbin, list its images, and predict what a GPU in between runs of it:
//!
//! ```
//! use offload_bundle::archive::reject_thin_members;
//! use offload_bundle::coverage::{self, Driver};
//! use offload_bundle::fatbin::{self, BuilderOptions, FatbinBuilder};
//! use offload_bundle::{GpuArch, listing};
//!
//! let mut builder = FatbinBuilder::new(BuilderOptions::default());
//! for number in [80, 90] {
//!     let ptx = format!(".version 8.0\n.target sm_{number}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
//!     builder.add_ptx(GpuArch::plain(number), ptx.into_bytes(), "kernel.cu", "")?;
//! }
//! let fatbin = builder.finish()?;
//!
//! let rows = listing::list(&fatbin, reject_thin_members)?;
//! let targets: Vec<&str> = rows.iter().map(|row| row.target.as_str()).collect();
//! assert_eq!(targets, ["sm_80", "sm_90"]);
//!
//! let codes = coverage::inspect(&fatbin::read(&fatbin)?);
//! let outcome = coverage::outcome(&codes, GpuArch::plain(86), Driver::NewEnough);
//! assert_eq!(outcome.brief(), "ptx 80");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` has small programs: `list_images`, `extract_images`, `build_fatbin` and `explain_fatbin`.
//!
//! # Terms
//!
//! | term | meaning |
//! | --- | --- |
//! | image | device code of one form for one target: a cubin for `sm_90`, PTX, LTO-IR, bitcode |
//! | target | what an image is compiled for: `sm_90`, `gfx90a`, `x86_64` |
//! | offload binary | LLVM's container of images in a host object, section `.llvm.offloading` |
//! | fatbin, entry | NVIDIA's container, of which the driver chooses one entry: an image with its header |
//! | cubin | an ELF file with NVIDIA's machine code (SASS), relocatable or finished |
//! | offload entry | a record in a host object that names a kernel or variable which the host code refers to on the device |
//! | device link | the link of the device code of one target |
//!
//! # Modules
//!
//! Lower layers come first; none uses one behind it.
//!
//! 1. [`arch`] holds the rules of NVIDIA's GPUs: which runs which code, and which PTX version and CUDA release it takes. Its
//!    [`arch::table`] has one row per GPU and release. [`amdgpu`] reads the names and headers of code for AMD's GPUs. [`printable`]
//!    escapes what files call themselves, and [`demangle`](mod@demangle) reads the names of C++ as `llvm-cxxfilt` does.
//! 2. [`archive`] reads archives. [`offload_binary`] and [`hip_bundle`] read and write the containers of LLVM and of HIP,
//!    [`kept_results`] that of results which fatlink keeps for later links. [`user_cache`] says where these are kept besides.
//! 3. [`host_object`] determines the kind of a file, and finds the sections with device code and the offload entries of a host object.
//!    [`elf_edit`] edits ELF files in place.
//! 4. [`cubin`] reads NVIDIA's machine code: its target, its symbols, the resources of its kernels. [`ptx`] and [`ltoir`] read the forms
//!    that still have to be compiled; [`ptx::join`] joins several PTX modules into one.
//! 5. [`fatbin`] builds fatbins, byte for byte as NVIDIA's `fatbinary` and nvFatbin do, and reads them.
//! 6. [`audit`] compares what a program registers with its images. [`coverage`] predicts what the driver runs of a fatbin on each GPU, and reports its faults.
//! 7. [`listing`] lists the images of any file, and [`selection`] selects among them. [`difference`] compares two files image by image,
//!    [`usage`] reports the resources that kernels take, and [`expansion`] adds up what the headers say that images grow to.
//! 8. [`strip`] drops images from linked programs, libraries and objects, [`recompress`] stores them in another form; [`annotate`] writes a string into the offload binaries of
//!    compiled objects.
//!
//! # Untrusted input
//!
//! Every reader accepts arbitrary bytes. It returns what is there or a [`FormatError`] with what is wrong and where; it does not panic, and
//! it allocates nothing because of a number in the data alone. Images are borrowed from the data, since they may be large.
//! `damaged_input_tests.rs` and the fuzz targets test this for all readers; the tests in `tests/` compare the bytes that are written with
//! those of the real tools.
#![forbid(unsafe_code)]

pub mod amdgpu;
pub mod annotate;
pub mod arch;
pub mod archive;
mod archive_edit;
pub mod audit;
mod bytes;
mod compression;
pub mod coverage;
pub mod cubin;
#[cfg(test)]
mod damaged_input_tests;
pub mod demangle;
pub mod difference;
pub mod elf_edit;
pub mod elf_sections;
mod error;
pub mod expansion;
pub mod fatbin;
mod file_kind;
pub mod hip_bundle;
pub mod host_object;
pub mod kept_results;
pub mod listing;
pub mod ltoir;
pub mod offload_binary;
pub mod printable;
pub mod ptx;
pub mod recompress;
#[cfg(test)]
mod samples;
pub mod selection;
pub mod strip;
pub mod summary;
pub mod usage;
pub mod user_cache;

pub use arch::{ArchFeature, CudaRelease, GpuArch, PtxVersion};
pub use compression::CompressionError;
pub use error::{EditError, FileError, FormatError, FormatErrorKind};
