//! Checks whether an image may become an entry, strictly or as nvFatbin does.

use super::encode::{Description, Store, ltoir_version, ptx_version};
use super::{BuilderOptions, EntryKind, FatbinError, Validation, cubin_header::CubinHeader, flag};
use crate::FormatError;
use crate::arch::{ArchFeature, GpuArch};
use crate::bytes::{u16_at, u32_at};
use crate::cubin;
use crate::ptx::header;

/// Parts of PTX options that NVIDIA's compilers use internally.
const INTERNAL_OPTIONS: [&str; 3] = ["-uumn", "-ext-desc-file", "-ext-desc-string"];

/// Describes the entry of a cubin, without the flags of the fatbin.
pub(super) fn cubin(
    image: &[u8],
    arch: GpuArch,
    identifier: &[u8],
    options: &BuilderOptions,
) -> Result<Description, FatbinError> {
    if image.is_empty() {
        return Err(FatbinError::EmptyInput);
    }
    match options.validation {
        Validation::Strict => sound_cubin(image, arch, identifier, options.is_64_bit),
        Validation::Nvidia => any_cubin(image, arch, identifier, options.is_64_bit),
    }
}

fn sound_cubin(image: &[u8], arch: GpuArch, identifier: &[u8], is_64_bit: bool) -> Result<Description, FatbinError> {
    let cubin = cubin::parse(image).map_err(FatbinError::ElfSizeMismatch)?;
    let own = cubin.arch();
    // Code for exactly one GPU under the label of several would be loaded on the others.
    let is_too_wide = own.feature == ArchFeature::Accelerated && arch.feature != ArchFeature::Accelerated;
    if own.number != arch.number || is_too_wide {
        return Err(FatbinError::ElfArchMismatch { image: own, wanted: arch });
    }
    if cubin.is_64_bit() != is_64_bit {
        return Err(wrong_pointers("cubin"));
    }
    Ok(Description::of_cubin(&cubin, arch, identifier))
}

fn wrong_pointers(what: &str) -> FatbinError {
    FatbinError::ElfSizeMismatch(FormatError::damaged(
        4,
        format!("{what} with pointers of another size than the host's"),
    ))
}

fn any_cubin(image: &[u8], arch: GpuArch, identifier: &[u8], is_64_bit: bool) -> Result<Description, FatbinError> {
    let header = CubinHeader::read(image);
    if header.is_64_bit != is_64_bit {
        return Err(wrong_pointers("image"));
    }
    if header.number != arch.number {
        return Err(FatbinError::ElfArchMismatch { image: GpuArch::plain(header.number), wanted: arch });
    }
    Ok(Description {
        kind: EntryKind::Elf,
        arch,
        code_version: (1, header.abi_version.into()),
        flags: if header.finalizable { flag::FINALIZABLE } else { 0 },
        identifier: identifier.to_vec(),
        block: header.compat_block(image),
    })
}

/// The version of PTX, as (major, minor).
pub(super) fn ptx(
    text: &[u8],
    arch: GpuArch,
    ptx_options: &[u8],
    options: &BuilderOptions,
) -> Result<(u16, u16), FatbinError> {
    // nvFatbin takes one byte, which can only be a NUL, for none.
    if text.len() < 2 {
        return Err(FatbinError::EmptyInput);
    }
    let version = ptx_version(text).ok_or(FatbinError::MissingPtxVersion)?;
    let is_in_options = |name: &&str| memchr::memmem::find(ptx_options, name.as_bytes()).is_some();
    if let Some(name) = INTERNAL_OPTIONS.iter().copied().find(|name| is_in_options(name)) {
        return Err(FatbinError::InternalPtxOption(name));
    }
    if options.validation == Validation::Strict {
        sound_ptx(text, arch, options.is_64_bit)?;
    }
    Ok(version)
}

fn sound_ptx(text: &[u8], arch: GpuArch, is_64_bit: bool) -> Result<(), FatbinError> {
    let header = header::read(text).ok_or(FatbinError::MissingPtxVersion)?;
    let target = header.target.ok_or(FatbinError::MissingPtxArch)?;
    // The driver chooses by the label: a plain label is for all later GPUs, so plain PTX must stand behind it.
    let fits = match (target.feature, arch.feature) {
        (ArchFeature::Plain, _) => arch.number >= target.number,
        (ArchFeature::Family, ArchFeature::Plain) => false,
        (ArchFeature::Family, _) => arch.can_jit_ptx_of(target),
        (ArchFeature::Accelerated, _) => arch == target,
    };
    if !fits {
        return Err(FatbinError::PtxArchMismatch { target, wanted: arch });
    }
    match header.address_size {
        Some(bits) if (bits == 64) != is_64_bit => Err(wrong_pointers("PTX")),
        _ => Ok(()),
    }
}

/// The version of LTO-IR, as (major, minor).
///
/// Of its header nvFatbin reads the u32 at 20, an offset that must lie inside, and only to compress it.
pub(super) fn ltoir(image: &[u8], options: &BuilderOptions) -> Result<(u16, u16), FatbinError> {
    match image.len() {
        0 => return Err(FatbinError::EmptyInput),
        1..8 => return Err(FatbinError::InvalidNvvm(FormatError::damaged(0, "LTO-IR of less than 8 bytes"))),
        _ => {}
    }
    let version = ltoir_version(image);
    let is_strict = options.validation == Validation::Strict;
    if is_strict && let Err(error) = version {
        return Err(FatbinError::InvalidNvvm(error));
    }
    if is_strict || options.store_of_code(EntryKind::LtoIr) != Store::Plain {
        let body = u32_at(image, 20, "the header of the LTO-IR").map_err(FatbinError::Internal)?;
        if u64::from(body) >= image.len() as u64 {
            return Err(FatbinError::Internal(FormatError::damaged(20, "LTO-IR that is cut off")));
        }
    }
    let at = |index: usize| image.get(index).copied().map_or(0, u16::from);
    Ok((at(4), at(5)))
}

/// The version of Tile IR: behind its magic of 8 bytes stand u8 major, u8 minor and u16 tag.
pub(super) fn tile_ir(image: &[u8]) -> Result<(u16, u16), FatbinError> {
    const MAGIC: &[u8] = b"\x7fTileIR\0";
    if image.is_empty() {
        return Err(FatbinError::EmptyInput);
    }
    if !image.starts_with(MAGIC) {
        return Err(FatbinError::Internal(FormatError::wrong_format(0, "no Tile IR (wrong magic)")));
    }
    // What nvFatbin 13.5 takes at the least.
    if image.len() < 14 {
        return Err(FatbinError::Internal(FormatError::damaged(0, "Tile IR of less than 14 bytes")));
    }
    let [major, minor] = [8, 9].map(|at| image.get(at).copied().map_or(0, u16::from));
    Ok((major << 8 | minor, u16_at(image, 10, "tag").map_err(FatbinError::Internal)?))
}
