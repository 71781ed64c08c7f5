//! Parses `--image`, and reads the file that it names.

use std::path::{Path, PathBuf};
use std::result::Result as StdResult;

use offload_bundle::offload_binary::{ImageKind, OffloadKinds};
use offload_bundle::{GpuArch, cubin, ltoir, ptx};

use crate::error::{Error, Result};
use crate::image_error::{ImageError, SpecError};
use crate::input;

/// A parsed `key=value,key=value`: `file` is present, and no key is repeated.
#[derive(Debug, Clone)]
pub struct ImageSpec {
    pairs: Vec<(String, String)>,
    file: PathBuf,
}

/// The kinds of images that can be added to a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FatbinImageKind {
    Cubin,
    Ptx,
    LtoIr,
    /// Has no architecture, since it runs on all GPUs.
    TileIr,
    /// A host object, whose entries record their own targets.
    Relocatable,
}

/// An image for a fatbin.
pub struct FatbinImage {
    pub file: PathBuf,
    pub kind: FatbinImageKind,
    pub arch: GpuArch,
    pub bytes: Vec<u8>,
}

/// An image for an offload binary.
pub struct PlainImage {
    pub image_kind: ImageKind,
    pub offload_kinds: OffloadKinds,
    pub strings: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

/// An image for HIP's bundle.
pub struct BundledImage {
    /// Identifies the entry: `hipv4-amdgcn-amd-amdhsa--gfx90a`.
    pub id: String,
    pub bytes: Vec<u8>,
}

/// Parses a specification. As with fatbinary, a file name cannot contain a comma.
pub fn parse(text: &str) -> StdResult<ImageSpec, SpecError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| SpecError::NotAPair(pair.to_owned()))?;
        if value.is_empty() {
            return Err(SpecError::NoValue(key.to_owned()));
        }
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(SpecError::RepeatedKey(key.to_owned()));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    let file = pairs.iter().find(|(key, _)| key == "file").map(|(_, value)| PathBuf::from(value));
    let file = file.ok_or(SpecError::NoFile)?;
    pairs.retain(|(key, _)| key != "file");
    Ok(ImageSpec { pairs, file })
}

impl ImageSpec {
    fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn error(&self, source: ImageError) -> Error {
        Error::ImageSpec { file: self.file.clone(), source }
    }
}

impl FatbinImage {
    /// Reads the file, and derives from it the kind and the architecture that the specification omits.
    pub fn read(spec: &ImageSpec) -> Result<Self> {
        if let Some((key, _)) =
            spec.pairs.iter().find(|(key, _)| !matches!(key.as_str(), "kind" | "arch" | "sm" | "code"))
        {
            return Err(spec.error(ImageError::FatbinKey(key.clone())));
        }
        let (kind, arch) = match spec.get("code") {
            Some(code) => by_code(code, spec.get("arch")).map(|(kind, arch)| (Some(kind), Some(arch))),
            None => by_kind(spec),
        }
        .map_err(|error| spec.error(error))?;
        let bytes = input::bytes(&spec.file)?;
        let kind = kind.or_else(|| kind_of(&bytes)).ok_or_else(|| spec.error(ImageError::UnknownContents))?;
        let arch = arch.or_else(|| arch_of(kind, &bytes)).ok_or_else(|| spec.error(ImageError::MissingArch))?;
        Ok(Self { file: spec.file.clone(), kind, arch, bytes })
    }
}

/// Parses `kind=ptx,arch=sm_90`, both optional.
fn by_kind(spec: &ImageSpec) -> StdResult<(Option<FatbinImageKind>, Option<GpuArch>), ImageError> {
    let kind = match spec.get("kind") {
        None => None,
        Some("cubin" | "elf" | "sass") => Some(FatbinImageKind::Cubin),
        Some("ptx") => Some(FatbinImageKind::Ptx),
        Some("ltoir" | "nvvm" | "lto") => Some(FatbinImageKind::LtoIr),
        Some("tileir") => Some(FatbinImageKind::TileIr),
        Some("reloc") => Some(FatbinImageKind::Relocatable),
        Some(other) => return Err(ImageError::FatbinKind(other.to_owned())),
    };
    let arch = spec.get("arch").or(spec.get("sm")).map(arch).transpose()?;
    Ok((kind, arch))
}

/// Parses nvcc's pair `arch=compute_90,code=sm_90`, of which `code` determines the architecture of the image.
fn by_code(code: &str, virtual_arch: Option<&str>) -> StdResult<(FatbinImageKind, GpuArch), ImageError> {
    if let Some(text) = virtual_arch {
        arch(text)?;
    }
    let kind = match code.split_once('_').map(|(word, _)| word) {
        Some("sm") => FatbinImageKind::Cubin,
        Some("compute") => FatbinImageKind::Ptx,
        Some("lto") => FatbinImageKind::LtoIr,
        _ => return Err(ImageError::Code(code.to_owned())),
    };
    Ok((kind, arch(code)?))
}

/// Parses `sm_90a`, `compute_90a`, `lto_90a` or `90a`.
fn arch(text: &str) -> StdResult<GpuArch, ImageError> {
    let bare = ["sm_", "compute_", "lto_"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    format!("sm_{bare}").parse().map_err(|source| ImageError::Arch { text: text.to_owned(), source })
}

fn kind_of(bytes: &[u8]) -> Option<FatbinImageKind> {
    if cubin::is_cubin(bytes) {
        return Some(FatbinImageKind::Cubin);
    }
    if ltoir::version(bytes).is_some() {
        return Some(FatbinImageKind::LtoIr);
    }
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(".version")).then_some(FatbinImageKind::Ptx)
}

fn arch_of(kind: FatbinImageKind, bytes: &[u8]) -> Option<GpuArch> {
    match kind {
        FatbinImageKind::Cubin => cubin::parse(bytes).ok().map(|cubin| cubin.arch()),
        FatbinImageKind::Ptx => ptx::target(bytes),
        FatbinImageKind::LtoIr => None,
        // The builder ignores the architecture of these kinds.
        FatbinImageKind::TileIr | FatbinImageKind::Relocatable => Some(GpuArch::plain(80)),
    }
}

impl PlainImage {
    /// Reads the file, whose extension determines the kind of image.
    pub fn read(spec: &ImageSpec) -> Result<Self> {
        let kinds = match spec.get("kind") {
            None => OffloadKinds::default(),
            Some("cuda") => OffloadKinds::CUDA,
            Some("openmp") => OffloadKinds::OPENMP,
            Some("hip") => OffloadKinds::HIP,
            Some("sycl") => OffloadKinds::SYCL,
            Some(other) => return Err(spec.error(ImageError::OffloadKind(other.to_owned()))),
        };
        let mut strings: Vec<_> = spec.pairs.iter().filter(|(key, _)| key != "kind").cloned().collect();
        // The keys of every image come first, in the order of llvm-offload-binary's hash table.
        strings.sort_by_key(|(key, _)| ["arch", "triple"].iter().position(|first| first == key).unwrap_or(2));
        let bytes = input::bytes(&spec.file)?;
        Ok(Self { image_kind: image_kind(&spec.file), offload_kinds: kinds, strings, bytes })
    }
}

fn image_kind(file: &Path) -> ImageKind {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("o") => ImageKind::Object,
        Some("bc") => ImageKind::Bitcode,
        Some("cubin") => ImageKind::Cubin,
        Some("fatbin") => ImageKind::Fatbin,
        Some("s") => ImageKind::Ptx,
        Some("spv") => ImageKind::Spirv,
        _ => ImageKind::None,
    }
}

impl BundledImage {
    /// Reads the file. The kind defaults to hipv4, the triple to amdgcn-amd-amdhsa.
    pub fn read(spec: &ImageSpec) -> Result<Self> {
        if let Some((key, _)) = spec.pairs.iter().find(|(key, _)| !matches!(key.as_str(), "kind" | "triple" | "arch")) {
            return Err(spec.error(ImageError::BundleKey(key.clone())));
        }
        let kind = spec.get("kind").unwrap_or("hipv4");
        if !matches!(kind, "hip" | "hipv4" | "openmp") {
            return Err(spec.error(ImageError::BundleKind(kind.to_owned())));
        }
        let arch = spec.get("arch").ok_or_else(|| spec.error(ImageError::MissingBundleArch))?;
        let id = format!("{kind}-{}--{arch}", spec.get("triple").unwrap_or("amdgcn-amd-amdhsa"));
        Ok(Self { id, bytes: input::bytes(&spec.file)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_specifications() {
        let key = |key: &str| key.to_owned();
        for (text, error) in [
            ("", SpecError::NotAPair(key(""))),
            ("file=a,kind", SpecError::NotAPair(key("kind"))),
            ("file=a,kind=", SpecError::NoValue(key("kind"))),
            ("file=a,file=b", SpecError::RepeatedKey(key("file"))),
            ("kind=ptx", SpecError::NoFile),
        ] {
            assert_eq!(parse(text).err(), Some(error), "{text}");
        }
    }

    #[test]
    fn codes_of_nvcc() {
        for (code, kind) in [
            ("sm_90a", FatbinImageKind::Cubin),
            ("compute_90a", FatbinImageKind::Ptx),
            ("lto_90a", FatbinImageKind::LtoIr),
        ] {
            assert_eq!(
                by_code(code, Some("compute_80")).ok(),
                Some((kind, "sm_90a".parse().expect("a GPU"))),
                "{code}"
            );
        }
        assert_eq!(by_code("90", None), Err(ImageError::Code("90".to_owned())));
        let is_arch = |error| matches!(error, Err(ImageError::Arch { text, .. }) if text == "gfx90a");
        assert!(is_arch(by_code("sm_90", Some("gfx90a"))));
    }
}
