//! Entries for tests, without bytes.

use super::code::{Code, Content, Twins, recount};
use crate::FormatError;
use crate::arch::{CudaRelease, GpuArch, PtxVersion};
use crate::fatbin::{Compression, EntryKind};

fn arch(name: &str) -> GpuArch {
    format!("sm_{name}").parse().expect("an architecture")
}

fn code(kind: EntryKind, label: &str, content: Content) -> Code {
    Code {
        number: 0,
        kind,
        arch: arch(label),
        labelled_version: None,
        compression: Compression::None,
        is_concatenated: false,
        stored_size: 0,
        content,
        digest: 0,
        shape: 0,
        twins: Twins { place: 1, count: 1 },
    }
}

/// Machine code of CUDA 13.0.
pub(super) fn sass(label: &str) -> Code {
    sass_of(label.trim_end_matches('f'), label)
}

/// Machine code for one GPU under the label of another.
pub(super) fn sass_of(own: &str, label: &str) -> Code {
    let toolkit = Some(CudaRelease::new(13, 0));
    code(
        EntryKind::Elf,
        label,
        Content::Sass { arch: arch(own), toolkit, virtual_arch: None, linked: false, unknown_section: None },
    )
}

/// PTX 9.0.
pub(super) fn ptx(label: &str) -> Code {
    ptx_of("9.0", label, label)
}

/// PTX of a version for one GPU under the label of another.
pub(super) fn ptx_of(version: &str, target: &str, label: &str) -> Code {
    let (major, minor) = version.split_once('.').expect("a version");
    let version = PtxVersion { major: major.parse().expect("a number"), minor: minor.parse().expect("a number") };
    let content = Content::Ptx { version, target: Some(arch(target)) };
    Code { labelled_version: Some(version), ..code(EntryKind::Ptx, label, content) }
}

/// LTO-IR.
pub(super) fn lto(label: &str) -> Code {
    code(EntryKind::LtoIr, label, Content::LtoIr)
}

/// The same with a damaged image.
pub(super) fn damaged(code: Code, crashes: bool) -> Code {
    let error = FormatError::damaged(0x60, "damaged");
    Code { content: if crashes { Content::Crashing(error) } else { Content::Damaged(error) }, ..code }
}

/// The same with compressed bytes that are not what the compression makes.
pub(super) fn undecompressable(code: Code) -> Code {
    let content = Content::Undecompressable(FormatError::damaged(0x60, "damaged"));
    Code { compression: Compression::Zstd, content, ..code }
}

/// The entries of one fatbin; every image is another.
pub(super) fn set<const N: usize>(mut codes: [Code; N]) -> [Code; N] {
    for (index, code) in codes.iter_mut().enumerate() {
        (code.number, code.digest) = (index + 1, index as u64);
    }
    recount(&mut codes);
    codes
}
