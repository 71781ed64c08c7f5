//! The inputs of a link, in the forms that the program reads.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite, OffloadKinds};
use offload_bundle::{cubin, fatbin, ptx};

use crate::error::Error;
use crate::folder::OWN;

/// An input.
#[derive(Debug, Clone)]
pub enum Input {
    /// A file of the caller's.
    File {
        /// Its path.
        path: PathBuf,
        /// All members of an archive are linked.
        whole: bool,
    },
    /// Bytes.
    Bytes {
        /// What diagnostics call them.
        name: String,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A library that is searched in the folders of libraries.
    Library(String),
}

/// Puts device code without a container into offload binaries, which the program takes like host objects: there they have a kind and a
/// target. `None` if the bytes are something else, which the program reads itself.
///
/// Bitcode does not say what it is for; it is for each of `targets`. Without any, it is a host object that clang compiled with `-flto`.
///
/// # Errors
/// Damaged code. `name` is for the error.
pub fn contained(name: &str, bytes: &[u8], targets: &[String]) -> Result<Option<Vec<u8>>, Error> {
    let damaged =
        |error: &dyn std::fmt::Display| Error::Argument { what: format!("{name}: {error}; rebuild the file") };
    let one = |kind, arch: &str| Ok(Some(container(kind, arch, bytes)));
    if cubin::is_cubin(bytes) {
        let arch = cubin::parse(bytes).map_err(|error| damaged(&error))?.arch();
        return one(ImageKind::Cubin, &arch.to_string());
    }
    if ptx::is_ptx(bytes) {
        let arch = ptx::target(bytes).ok_or_else(|| damaged(&"PTX without a .target that is known"))?;
        return one(ImageKind::Ptx, &arch.to_string());
    }
    match host_object::file_kind(bytes) {
        FileKind::Bitcode if !targets.is_empty() => {
            Ok(Some(targets.iter().flat_map(|target| container(ImageKind::Bitcode, target, bytes)).collect()))
        }
        FileKind::Fatbin => of_fatbin(bytes).map(Some).map_err(|error| damaged(&error)),
        _ => Ok(None),
    }
}

/// Whether a file that begins so is no bare device code: an archive, an offload binary, or an ELF file that is no cubin. At least 20 bytes
/// are needed to tell.
pub fn is_never_bare(start: &[u8]) -> bool {
    /// `EM_CUDA`, at the offset of `e_machine`.
    const CUDA_MACHINE: [u8; 2] = [190, 0];
    match host_object::file_kind(start) {
        FileKind::Archive | FileKind::ThinArchive | FileKind::OffloadBinary => true,
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable => {
            start.get(18..20) != Some(&CUDA_MACHINE)
        }
        _ => false,
    }
}

/// The cubins and PTX of a fatbin.
fn of_fatbin(bytes: &[u8]) -> Result<Vec<u8>, offload_bundle::FormatError> {
    let mut all = Vec::new();
    for entry in fatbin::read(bytes)? {
        let kind = match entry.kind {
            fatbin::EntryKind::Elf => ImageKind::Cubin,
            fatbin::EntryKind::Ptx => ImageKind::Ptx,
            _ => continue,
        };
        all.extend(container(kind, &entry.arch.to_string(), &entry.payload()?));
    }
    Ok(all)
}

/// An offload binary with one image.
fn container(image_kind: ImageKind, arch: &str, image: &[u8]) -> Vec<u8> {
    let (offload_kinds, triple) = platform(arch);
    let strings = vec![("triple", triple), ("arch", arch)];
    offload_binary::write(&ImageToWrite { image_kind, offload_kinds, flags: 0, strings, image })
}

/// The programming model and the triple that code for a target is of.
fn platform(target: &str) -> (OffloadKinds, &'static str) {
    if target.starts_with("gfx") {
        (OffloadKinds::HIP, "amdgcn-amd-amdhsa")
    } else {
        (OffloadKinds::CUDA, "nvptx64-nvidia-cuda")
    }
}

/// Whether a name can be that of a GPU. The program knows those that exist.
pub fn is_target(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-:".contains(c);
    let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("gfx"));
    number.is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_part))
}

/// Whether a target is a GPU of NVIDIA.
pub fn is_of_nvidia(target: &str) -> bool {
    target.starts_with("sm_")
}

/// The file name that the unit of this index gets in the private folder: its own name where that is possible, because messages and
/// intermediate files of the program have it.
pub fn file_name<'n>(index: usize, name: &'n str, taken: &[Cow<'_, str>]) -> Cow<'n, str> {
    let mut parts = Path::new(name).components();
    let is_plain = parts.clone().all(|part| matches!(part, Component::Normal(_))) && !name.ends_with('/');
    let is_own = parts.next().is_none_or(|first| first.as_os_str() == NUMBERED) || name.starts_with(OWN);
    // A word that begins so is no file for the program.
    let is_word = name.starts_with(['-', '@']) || name.contains(['\0', '\n']);
    // One may not be the folder of the other.
    let clashes = |other: &Cow<'_, str>| Path::new(&**other).starts_with(name) || Path::new(name).starts_with(&**other);
    if is_plain && !is_own && !is_word && name.len() < LONGEST && !taken.iter().any(clashes) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("{NUMBERED}/{index}"))
}

/// The folder of the units that cannot have their own names.
const NUMBERED: &str = ".unit";

/// The longest name that a file gets, far below the limits of file systems.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_where_that_is_possible() {
        let taken = [Cow::Borrowed("a.o"), Cow::Borrowed("folder/b.o")];
        for name in ["c.o", "x/y/z.o", "folder/c.o", "ü.o", ".o"] {
            assert_eq!(file_name(3, name, &taken), name);
        }
        let long = "x".repeat(LONGEST);
        let others = [
            "a.o",
            "a.o/b",
            "folder",
            "/etc/passwd",
            "../a",
            "a/../b",
            "-o",
            "@f",
            "",
            "a\0",
            ".fatlink.image",
            ".unit/0",
            "a/",
            &long,
        ];
        for name in others {
            assert_eq!(file_name(3, name, &taken), ".unit/3", "{name}");
        }
    }

    #[test]
    fn bare_code_gets_its_own_target() {
        let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n";
        let found = contained("a.ptx", ptx, &[]).unwrap().unwrap();
        let images = offload_binary::read_all(&found).unwrap();
        assert_eq!((images[0].image_kind, images[0].arch(), images[0].image), (ImageKind::Ptx, "sm_80", &ptx[..]));
        assert_eq!((images[0].triple(), images[0].offload_kinds), ("nvptx64-nvidia-cuda", OffloadKinds::CUDA));
    }

    #[test]
    fn bitcode_is_for_each_target() {
        let bitcode = b"BC\xc0\xde....";
        let targets = ["sm_90", "gfx90a"].map(str::to_owned);
        let found = contained("a.bc", bitcode, &targets).unwrap().unwrap();
        let images = offload_binary::read_all(&found).unwrap();
        let all: Vec<_> = images.iter().map(|image| (image.arch(), image.offload_kinds)).collect();
        assert_eq!(all, [("sm_90", OffloadKinds::CUDA), ("gfx90a", OffloadKinds::HIP)]);
        assert_eq!(contained("a.bc", bitcode, &[]).unwrap(), None);
        assert_eq!(contained("a.o", b"\x7fELF", &targets).unwrap(), None);
    }

    #[test]
    fn damaged_code_is_named() {
        let error = contained("a.ptx", b".version 8.0\n.target sm_1234567\n", &[]).unwrap_err();
        assert!(error.to_string().starts_with("a.ptx: PTX without a .target"), "{error}");
        let damaged = contained("a.fatbin", &[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0xff], &[]).unwrap_err();
        assert!(damaged.to_string().starts_with("a.fatbin: "), "{damaged}");
    }
}
