//! The entries of a bundle, as the runtime sees them.

use crate::amdgpu::{self, CodeHeader, TargetId};
use crate::hip_bundle::{self, BundleEntry, BundleId};
use crate::host_object::{self, FileKind};

/// An entry of a bundle with an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledCode {
    /// Its number among those with an image, from 1.
    pub number: usize,
    /// Its id, as recorded.
    pub id: String,
    /// What it is for, if the id is one that HIP's runtime understands.
    pub target: Option<TargetId>,
    /// What its image is.
    pub form: Form,
    /// Bytes of its image.
    pub size: u64,
}

/// What an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A code object.
    CodeObject(CodeHeader),
    /// SPIR-V.
    Spirv,
    /// Nothing that the runtime loads, with the reason.
    Unusable(String),
}

impl BundledCode {
    /// The entries of a bundle; those without an image, such as the host's, do not count.
    pub fn of_bundle(entries: &[BundleEntry<'_>]) -> Vec<Self> {
        let with_image = entries.iter().filter(|entry| !entry.image.is_empty());
        with_image.zip(1..).map(|(entry, number)| Self::new(entry, number)).collect()
    }

    fn new(entry: &BundleEntry<'_>, number: usize) -> Self {
        let id = BundleId::parse(entry.id).filter(|id| id.is_hip() || id.kind == "hcc");
        Self {
            number,
            id: entry.id.to_owned(),
            target: id.and_then(|id| id.target.parse().ok()),
            form: Form::of(entry.image),
            size: entry.image.len() as u64,
        }
    }

    /// `code gfx90a:xnack+`, `spirv amdgcnspirv`; the id of what is not for HIP.
    pub fn name(&self) -> String {
        let form = match &self.form {
            Form::CodeObject(_) => "code",
            Form::Spirv => "spirv",
            Form::Unusable(_) => "other",
        };
        match &self.target {
            Some(target) => format!("{form} {target}"),
            None => format!("{form} {}", self.id),
        }
    }
}

impl Form {
    fn of(image: &[u8]) -> Self {
        if hip_bundle::is_spirv(image) {
            return Form::Spirv;
        }
        if amdgpu::is_code(image) {
            return match amdgpu::header(image) {
                Ok(header) => Form::CodeObject(header),
                Err(error) => Form::Unusable(format!("its header cannot be read: {error}")),
            };
        }
        Form::Unusable(match host_object::file_kind(image) {
            FileKind::Bitcode => "it is LLVM bitcode, which nothing has compiled".to_owned(),
            _ => "it is no code object".to_owned(),
        })
    }
}
