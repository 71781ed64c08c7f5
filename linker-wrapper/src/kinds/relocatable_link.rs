//! What is particular to CUDA's relocatable device links (`--dlink -r`): what they can link, and the id of their result.

use md5::{Digest, Md5};

use crate::diag::error::Errors;
use crate::kinds::error::Error;
use crate::kinds::interface::Setup;
use crate::machines::nvptx::image_policy::Entry;

/// Rejects what a relocatable device link cannot do: code of clang, whose host objects would not find its result, and PTX, which
/// no linker keeps relocatable.
///
/// # Errors
/// One for each object of clang. PTX in the image, or no machine code.
pub fn require(setup: &Setup<'_>, sass: &[Entry], ptx: &[Entry]) -> Result<(), Errors> {
    let others = setup.images.iter().filter(|found| found.foreign.is_none());
    let mut errors: Errors = others.map(|found| Error::RelocatableOther { file: found.origin.file.clone() }).collect();
    if !ptx.is_empty() {
        errors.extend(Error::RelocatablePtx { option: "--offload-ptx" });
    } else if sass.is_empty() {
        errors.extend(Error::RelocatablePtx { option: "--offload-sass=none" });
    }
    errors.or(())
}

/// The id of the result of a relocatable device link, in the form of nvcc's ids. It depends only on those of the units, so that the same
/// link gives the same bytes.
pub fn id<'u>(ids: impl Iterator<Item = &'u str>) -> String {
    let digest = ids.fold(Md5::new(), |digest, id| digest.chain_update(id).chain_update([0])).finalize();
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, second) = hex.split_at(8);
    format!("_{first}_9_prelinked_{second}")
}

#[cfg(test)]
mod tests {
    use offload_bundle::host_object::module_name;

    use super::*;

    #[test]
    fn ids_have_the_form_of_nvccs() {
        let one = id(["_1_4_a_cu_x", "_2_4_b_cu_y"].into_iter());
        assert_eq!(module_name(&one), "prelinked");
        assert_eq!(one, id(["_1_4_a_cu_x", "_2_4_b_cu_y"].into_iter()));
        assert_ne!(one, id(["_1_4_a_cu_x_2_4_b_cu_y"].into_iter()));
    }
}
