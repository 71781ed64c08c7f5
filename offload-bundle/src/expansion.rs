//! Adds up how large the compressed images of a file claim to be, before anything is decompressed.

use crate::archive::{self, MemberData};
use crate::fatbin;
use crate::hip_bundle;
use crate::host_object::{self, CarrierKind, FileKind, Search};
use crate::offload_binary;

/// How far the images of a file may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that all images together may take when they are decompressed.
    pub total: u64,
    /// The most bytes that one container or image may take, which is in memory at once.
    pub each: u64,
}

/// A limit that the images of a file exceed, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("with the container at offset {offset:#x}, {limit}")]
pub struct Excess {
    /// The limit.
    pub limit: Limit,
    /// The member of an archive in which it is exceeded.
    pub member: Option<String>,
    /// Offset in bytes, from the start of the file or member, of the container in which it is exceeded.
    pub offset: u64,
}

/// One of [`Limits`], in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// That of all images together.
    #[error("the images take over {0} bytes when they are decompressed")]
    Total(u64),
    /// That of one of them.
    #[error("one image takes over {0} bytes when it is decompressed")]
    Each(u64),
}

/// Checks the sizes that the headers of a file record for its compressed images, with those of images in compressed offload binaries.
///
/// Damaged containers pass: whatever reads them reports the damage. Members of thin archives are files of their own.
///
/// # Errors
/// The first limit that is exceeded.
pub fn check(data: &[u8], search: Search, limits: Limits) -> Result<(), Excess> {
    let mut sum = Sum { limits, total: 0, member: None, container: 0 };
    if host_object::file_kind(data) != FileKind::Archive {
        return sum.add_file(data, search);
    }
    for member in archive::members(data).unwrap_or_default() {
        if let MemberData::Inline(bytes) = member.data {
            sum.member = Some(member.name);
            sum.add_file(bytes, search)?;
        }
    }
    Ok(())
}

/// The bytes of the images seen so far.
struct Sum {
    limits: Limits,
    total: u64,
    /// What is being added, as in [`Excess`].
    member: Option<String>,
    container: u64,
}

impl Sum {
    fn add(&mut self, size: u64) -> Result<(), Excess> {
        self.total = self.total.saturating_add(size);
        let limit = match size > self.limits.each {
            true => Limit::Each(self.limits.each),
            false if self.total > self.limits.total => Limit::Total(self.limits.total),
            false => return Ok(()),
        };
        Err(Excess { limit, member: self.member.clone(), offset: self.container })
    }

    fn add_file(&mut self, data: &[u8], search: Search) -> Result<(), Excess> {
        self.container = 0;
        match host_object::file_kind(data) {
            FileKind::OffloadBinary => return self.add_offload_binaries(data),
            FileKind::Fatbin => return self.add_fatbins(data),
            _ if hip_bundle::is_bundle(data) => return self.add_bundles(data),
            _ => {}
        }
        for carrier in host_object::carriers(data).unwrap_or_default() {
            self.container = carrier.offset;
            match carrier.kind {
                CarrierKind::OffloadBinaries => self.add_offload_binaries(carrier.data)?,
                CarrierKind::Fatbins | CarrierKind::RelocatableFatbins => self.add_fatbins(carrier.data)?,
                CarrierKind::HipBundles => self.add_bundles(carrier.data)?,
            }
        }
        if search == Search::AllBytes {
            let scattered = host_object::scattered_fatbins(data).unwrap_or_default();
            for found in scattered {
                self.container = found.offset;
                self.add_fatbins(found.data)?;
            }
        }
        Ok(())
    }

    fn add_fatbins(&mut self, data: &[u8]) -> Result<(), Excess> {
        let mut concatenation = None;
        for entry in fatbin::read(data).unwrap_or_default() {
            match &entry.part {
                None => self.add(entry.uncompressed_size)?,
                // The images of a concatenation follow each other, and are decompressed as one.
                Some(part) if concatenation != Some(part.concatenation) => {
                    concatenation = Some(part.concatenation);
                    self.add(part.whole)?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn add_bundles(&mut self, data: &[u8]) -> Result<(), Excess> {
        let mut bundles = hip_bundle::bundles(data).unwrap_or_default().into_iter();
        bundles.try_for_each(|bundle| self.add(bundle.inflated_size()))
    }

    fn add_offload_binaries(&mut self, data: &[u8]) -> Result<(), Excess> {
        self.add(offload_binary::inflated_size(data).unwrap_or_default())?;
        let Ok(data) = offload_binary::inflate(data) else { return Ok(()) };
        let images = offload_binary::read_all(&data).unwrap_or_default();
        let fatbins = images.iter().filter(|image| image.image.starts_with(&fatbin::MAGIC));
        fatbins.map(|image| image.image).try_for_each(|image| self.add_fatbins(image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuArch;
    use crate::fatbin::{BuilderOptions, FatbinBuilder};
    use crate::hip_bundle::{CompressedMethod, CompressedVersion};
    use crate::offload_binary::{Form, ImageKind, ImageToWrite, OffloadKinds, Packing};

    /// A text of about 1 MB in a fatbin.
    fn fatbin() -> Vec<u8> {
        let mut text = b".version 8.0\n.target sm_80\n.address_size 64\n".to_vec();
        text.extend(b".global .u32 x;\n".repeat(62_500));
        let mut builder = FatbinBuilder::new(BuilderOptions::default());
        builder.add_ptx(GpuArch::plain(80), text, "a.cu", "").unwrap();
        builder.finish().unwrap()
    }

    fn exceeds(data: &[u8], limits: Limits) -> Option<Limit> {
        check(data, Search::Sections, limits).err().map(|excess| excess.limit)
    }

    #[test]
    fn images_of_each_container_count() {
        let fatbin = fatbin();
        let bundle = hip_bundle::write(&[("hip-amdgcn-amd-amdhsa--gfx90a", &[0; 1_000_000][..])], 4096);
        let bundle = hip_bundle::compress(&bundle, CompressedVersion::V3, CompressedMethod::Zstd(3)).unwrap();
        for (data, factor) in [(&fatbin, 1), (&[&fatbin[..], &fatbin].concat(), 2), (&bundle, 1)] {
            let few = Limits { total: factor * 999_000, each: 2_000_000 };
            assert!(data.len() < 300_000, "{}", data.len());
            assert_eq!(exceeds(data, few), Some(Limit::Total(few.total)));
            assert_eq!(exceeds(data, Limits { total: factor * 1_010_000, ..few }), None);
            assert_eq!(exceeds(data, Limits { total: u64::MAX, each: 999_000 }), Some(Limit::Each(999_000)));
        }
    }

    #[test]
    fn fatbins_in_compressed_offload_binaries_count_twice() {
        let fatbin = fatbin();
        let inside = ImageToWrite {
            image_kind: ImageKind::Fatbin,
            offload_kinds: OffloadKinds::CUDA,
            flags: 0,
            strings: vec![("arch", "sm_80")],
            image: &fatbin,
        };
        let data = offload_binary::write_all(&[inside], Form::Version3(Packing::Zstd(3))).unwrap();
        let limits = Limits { total: 1_000_000, each: 2_000_000 };
        assert_eq!(exceeds(&data, limits), Some(Limit::Total(limits.total)));
        assert_eq!(exceeds(&data, Limits { total: 1_000_000 + 2 * fatbin.len() as u64, ..limits }), None);
    }

    #[test]
    fn damaged_containers_pass() {
        let mut fatbin = fatbin();
        fatbin.truncate(100);
        assert_eq!(exceeds(&fatbin, Limits { total: 0, each: 0 }), None);
    }
}
