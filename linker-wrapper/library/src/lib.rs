//! Links the device code of CUDA, HIP and OpenMP programs, as the program `fatlink` does, for compilers, build systems and frameworks.
//!
//! A [`Link`] describes what is linked, a [`Linker`] runs it. The result, [`Linked`], has the image, the host object that registers it, and
//! what the link said. Inputs are bytes or files.
//!
//! ```no_run
//! use fatlink::{Link, Linker, Ptx};
//!
//! let linker = Linker::at("/opt/fatlink/bin/fatlink").cuda("/usr/local/cuda");
//! let link = Link::new().file("/build/kernel.o").file("/build/solver.o").ptx(Ptx::Newest);
//! match linker.run(&link) {
//!     Ok(linked) => std::fs::write("/build/device.o", linked.registration.unwrap_or_default())?,
//!     Err(error) => {
//!         for diagnostic in error.diagnostics() {
//!             eprintln!("{diagnostic} (in {:?})", diagnostic.file);
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What a link does to its process
//!
//! Nothing. It reads no argument, no variable of the environment and no file that the caller did not name, it does not depend on the current
//! folder, installs no handler of a signal, and prints nothing. Each link runs in a process of the program, which must be of the same release;
//! its temporary files are in a folder of its own. Both are gone when the link returns, also if it was cancelled ([`Cancellation`]). Any number
//! of threads can run links at the same time: they share no state.
//!
//! The same inputs give the same bytes as the program's own links.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // a library does not print

mod cancellation;
mod command_line;
mod diagnostic;
mod error;
mod event;
mod folder;
mod link;
mod linked;
mod linker;
mod packed;
mod pool;
mod unit;
mod worker;

pub use cancellation::Cancellation;
pub use diagnostic::{Diagnostic, Severity};
pub use error::Error;
pub use event::Event;
pub use link::{Link, Ptx};
pub use linked::Linked;
pub use linker::Linker;
pub use packed::{HostMachine, Images, object_of};
