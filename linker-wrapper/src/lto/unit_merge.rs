//! Merges the bitcode units of one target into one, for the links that take the output of a relocatable link.

use std::collections::HashMap;

use llvm_passes::Module;
use llvm_passes::merged_unit;
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::resolve::{self, UnitSymbols};
use llvm_passes::session::Session;
use llvm_passes::unit::Unit;
use offload_bundle::offload_binary::{ImageToWrite, OffloadImage};
use rayon::prelude::*;

use crate::device::symbol_errors::{self, SourceCompiler};
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::lto::llvm_messages;
use crate::machines;
use crate::plan::link_context::LinkContext;
use crate::profile::span;

/// Images of one offload kind, triple and target, in link order: bitcode, or a single one of another form.
pub struct Group<'a> {
    images: Vec<&'a FoundImage<'a>>,
}

/// A device image for the output of a relocatable link.
pub struct MergedImage<'a> {
    /// The image of the inputs that it stands for, or the first of several.
    pub first: &'a FoundImage<'a>,
    /// The merged unit; `None` of an image that is no bitcode and stays as it is.
    pub unit: Option<Vec<u8>>,
}

/// Groups images, in the order of the first of each group.
pub fn group<'a>(images: &'a [FoundImage<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut places: HashMap<(u16, &str, &str), usize> = HashMap::new();
    for found in images {
        let OffloadImage { offload_kinds, .. } = &found.image;
        let target = (offload_kinds.0, found.image.triple(), found.image.arch());
        let known = Some(found).filter(|found| is_merged(found)).and_then(|_| places.get(&target).copied());
        match known {
            Some(place) => groups[place].images.push(found),
            None => {
                if is_merged(found) {
                    places.insert(target, groups.len());
                }
                groups.push(Group { images: vec![found] });
            }
        }
    }
    groups
}

/// Whether an image is merged with others: bitcode, but not what becomes SPIR-V, which this LLVM does not know.
fn is_merged(found: &FoundImage<'_>) -> bool {
    found.unit.is_some() && !found.image.triple().starts_with("spirv")
}

/// Merges the units of all groups; the results are in their order.
///
/// # Errors
/// Two strong definitions of a symbol, and errors of LLVM.
pub fn merge<'a>(groups: &[Group<'a>], context: &LinkContext<'_>) -> Result<Vec<MergedImage<'a>>, Errors> {
    let merged: Vec<Result<MergedImage<'a>, Errors>> = groups.par_iter().map(|group| group.merge(context)).collect();
    collect(merged)
}

impl<'a> Group<'a> {
    fn merge(&self, context: &LinkContext<'_>) -> Result<MergedImage<'a>, Errors> {
        let first = self.images[0];
        if !is_merged(first) {
            return Ok(MergedImage { first, unit: None });
        }
        let units: Vec<&Unit<'_>> = self.images.iter().filter_map(|found| found.unit.as_ref()).collect();
        let (triple, arch) = (first.image.triple(), first.image.arch());
        let _merging = span::traced("Merge units", || format!("{triple} {arch}"));
        let named = units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() });
        let named: Vec<NamedBitcode<'_>> = named.collect();
        let session = Session::new();
        let modules = pipeline::read_units(&session, &named).map_err(Errors::from_iter)?;
        let promoted = self.promoted(&modules, &named)?;
        let bitcode = merged_unit::merge(&session, modules, &named, &promoted, &format!("{triple} {arch}"))?;
        llvm_messages::print(context, arch, &session.take_messages());
        Ok(MergedImage { first, unit: Some(bitcode) })
    }

    /// Resolves the symbols. Returns the linkonce definitions, with their units, that prevail over later weak ones.
    fn promoted(&self, modules: &[Module<'_>], units: &[NamedBitcode<'_>]) -> Result<Vec<(usize, String)>, Errors> {
        let first = &self.images[0].image;
        machines::check_modules(modules, units)?;
        let symbols = |module: &Module<'_>| UnitSymbols { symbols: pipeline::symbols_of(module) };
        let symbols: Vec<UnitSymbols> = modules.iter().map(symbols).collect();
        let mut resolution = resolve::resolve(&symbols, &|_| true);
        // The link of the program defines them.
        resolution.undefined.clear();
        let origins: Vec<_> = self.images.iter().map(|found| (&found.origin, SourceCompiler::Clang)).collect();
        symbol_errors::unresolved(&resolution, &first.arch(), &origins, &|_, _| Vec::new())?;
        Ok(resolution.linkonce_over_weak.into_iter().map(|(name, unit)| (unit, name)).collect())
    }
}

impl MergedImage<'_> {
    /// The image as its offload binary.
    pub fn to_write(&self) -> ImageToWrite<'_> {
        let OffloadImage { image_kind, offload_kinds, flags, ref strings, image, .. } = self.first.image;
        let image = self.unit.as_deref().unwrap_or(image);
        ImageToWrite { image_kind, offload_kinds, flags, strings: strings.clone(), image }
    }

    /// The image as later links find it in the output.
    pub fn found(&self) -> FoundImage<'_> {
        let OffloadImage { image_kind, offload_kinds, flags, ref strings, image_offset, .. } = self.first.image;
        let image = self.to_write().image;
        let image = OffloadImage { image_kind, offload_kinds, flags, strings: strings.clone(), image, image_offset };
        FoundImage::new(self.first.input, self.first.origin.clone(), image)
    }
}

#[cfg(test)]
mod tests {
    use offload_bundle::offload_binary::{ImageKind, OffloadKinds};

    use super::*;
    use crate::host::embedded_images::Origin;

    fn found<'a>(kind: OffloadKinds, arch: &'a str, image: &'a [u8]) -> FoundImage<'a> {
        let strings = vec![("triple", "nvptx64-nvidia-cuda"), ("arch", arch)];
        let (image_kind, offload_kinds) = (ImageKind::Bitcode, kind);
        let image = OffloadImage { image_kind, offload_kinds, flags: 0, strings, image, image_offset: 0 };
        FoundImage::new(0, Origin { file: "a.o".into(), offset: Some(64), is_one_of_several: false }, image)
    }

    #[test]
    fn bitcode_of_one_target_is_merged_and_everything_else_stays_apart() {
        const BITCODE: &[u8] = b"BC\xc0\xde";
        let images = [
            found(OffloadKinds::CUDA, "sm_90", BITCODE),
            found(OffloadKinds::CUDA, "sm_90", b"a cubin"),
            found(OffloadKinds::CUDA, "sm_80", BITCODE),
            found(OffloadKinds::CUDA, "sm_90", BITCODE),
            found(OffloadKinds::OPENMP, "sm_90", BITCODE),
            found(OffloadKinds::CUDA, "sm_90", b"a cubin"),
        ];
        let sizes: Vec<usize> = group(&images).iter().map(|group| group.images.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1, 1]);
    }
}
