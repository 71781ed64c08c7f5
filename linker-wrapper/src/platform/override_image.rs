//! `--override-image=KIND=FILE`: somebody else has linked the device code. The inputs are not looked into; the
//! file is bundled and registered.

use std::path::Path;

use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::host_object::{self, FileKind};

use crate::diag::error::Errors;
use crate::platform::openmp_host;
use crate::platform::openmp_host::Bundle;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// The image, ready to be wrapped.
pub enum Overriding {
    /// Machine code of an NVIDIA GPU, from where it is: it may be large.
    Cuda(GpuArch, Mapped),
    /// A shared image for the host's own kind of processor.
    OpenMp(Bundle),
}

/// Reads the file, with its stamp. What it is made for is read from it.
///
/// # Errors
/// The file cannot be read, is no image of that kind, or the kind is none that can be wrapped.
pub fn read(kind: &str, file: &Path) -> Result<(Overriding, Stamp), Errors> {
    let shown = file.display();
    let (content, stamp) =
        Mapped::open_stamped(file).map_err(|error| Errors::one(format_args!("cannot read {shown}: {error}")))?;
    let bytes = content.bytes();
    let overriding = match kind {
        "cuda" => {
            let arch = cubin::parse(bytes).map(|cubin| cubin.arch());
            let arch = arch
                .map_err(|error| Errors::one(format_args!("{shown}: {error}; --override-image=cuda= takes a cubin")))?;
            Overriding::Cuda(arch, content)
        }
        "openmp" if host_object::file_kind(bytes) == FileKind::ElfShared => {
            Overriding::OpenMp(openmp_host::bundle(vec![("x86_64-unknown-linux-gnu", "", bytes.to_vec())]))
        }
        "openmp" => {
            return Err(Errors::one(format_args!(
                "{shown}: --override-image=openmp= takes an ELF shared object for x86-64"
            )));
        }
        _ => {
            return Err(Errors::one(format_args!(
                "--override-image={kind}=: this version wraps the kinds cuda and openmp"
            )));
        }
    };
    Ok((overriding, stamp))
}
