//! The inputs of a link without host code: files of device code for one target id of AMD's GPUs.

use llvm_passes::amdgpu::TRIPLE;
use llvm_passes::bitcode;
use offload_bundle::amdgpu;
use offload_bundle::offload_binary::{ImageKind, OffloadImage, OffloadKinds};

use crate::device::error::Error;
use crate::device::line_parts;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::{InputFile, InputFiles};

/// The code of these files, as images for this target id.
///
/// # Errors
/// One for each file that is neither bitcode nor an object.
pub fn images<'a>(inputs: &'a InputFiles, target: &'a str) -> Result<Vec<FoundImage<'a>>, Errors> {
    let files = inputs.files().iter().enumerate();
    let images = files.map(|(index, file)| Ok(image(index, file, inputs.bytes(file), target)?));
    Ok(collect(images)?.into_iter().flatten().collect())
}

/// The image that a file is. Empty files are none: clang's bundler writes them for objects without device code.
fn image<'a>(index: usize, file: &InputFile, data: &'a [u8], target: &'a str) -> Result<Option<FoundImage<'a>>, Error> {
    let is_object = || amdgpu::header(data).is_ok_and(|header| header.relocatable);
    let image_kind = match () {
        () if data.is_empty() => return Ok(None),
        () if bitcode::is_bitcode(data) => ImageKind::Bitcode,
        () if is_object() => ImageKind::Object,
        () => return Err(Error::NoCodeOfTarget { file: file.name.clone(), target: target.to_owned() }),
    };
    let image = OffloadImage {
        image_kind,
        offload_kinds: OffloadKinds::HIP,
        flags: 0,
        strings: vec![("triple", TRIPLE), ("arch", target)],
        image: data,
        image_offset: 0,
    };
    Ok(Some(FoundImage::new(index, line_parts::origin(file), image)))
}
