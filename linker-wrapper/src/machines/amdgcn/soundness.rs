//! Whether code for AMD's GPUs is sound: whole, for its target, and with its kernels.

use std::collections::BTreeSet;

use offload_bundle::amdgpu::{self, Code, TargetId};
use offload_bundle::elf_sections::require_whole;

use crate::machines::flaw::{Flaw, require_kernels, require_some};

/// Checks an object or, if it is `linked`, a code object. An empty name stands for any processor.
///
/// # Errors
/// What is wrong with it.
pub fn check(bytes: &[u8], processor: &str, linked: bool, kernels: &[String]) -> Result<(), Flaw> {
    require_some(bytes)?;
    let damaged = |error: offload_bundle::FormatError| Flaw::Damaged(error.to_string());
    let header = amdgpu::header(bytes).map_err(damaged)?;
    require_whole(bytes).map_err(damaged)?;
    if header.relocatable == linked {
        let what = if linked { "it is not linked" } else { "it is no relocatable object" };
        return Err(Flaw::Damaged(what.to_owned()));
    }
    match header.target {
        Some(TargetId { processor: found, .. }) if !processor.is_empty() && found != processor => {
            return Err(Flaw::OtherTarget(found));
        }
        _ => {}
    }
    require_kernels(Code::parse(bytes).map_err(damaged)?.visible_kernels(), kernels)
}

/// The kernels of objects that others see; those that are damaged have none.
pub fn kernels_of<'o>(objects: impl Iterator<Item = &'o [u8]>) -> Vec<String> {
    let mut all = BTreeSet::new();
    for object in objects {
        if let Ok(code) = Code::parse(object) {
            all.extend(code.visible_kernels().into_iter().map(str::to_owned));
        }
    }
    all.into_iter().collect()
}

/// Checks SPIR-V: its first word, and that its instructions end with it.
///
/// # Errors
/// What is wrong with it.
pub fn check_spirv(bytes: &[u8]) -> Result<(), Flaw> {
    const MAGIC: u32 = 0x0723_0203;
    const HEADER: usize = 5;
    require_some(bytes)?;
    let (words, rest) = bytes.as_chunks::<4>();
    if words.first().is_none_or(|word| u32::from_le_bytes(*word) != MAGIC) {
        return Err(Flaw::Damaged("it does not begin as SPIR-V".to_owned()));
    }
    let mut at = HEADER;
    while let Some([_, _, low, high]) = words.get(at) {
        // The upper half of an instruction's first word is its length in words.
        at += usize::from(u16::from_le_bytes([*low, *high])).max(1);
    }
    if at != words.len() || !rest.is_empty() {
        return Err(Flaw::Damaged("it ends inside an instruction".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::samples::amd_object;

    #[test]
    fn objects_are_whole_for_their_processor_and_have_their_kernels() {
        let (sound, names) = (amd_object(&["one", "two"]), |name: &str| vec![name.to_owned()]);
        assert_eq!(check(&sound, "gfx90a", false, &names("two")), Ok(()));
        assert_eq!(check(&sound, "", false, &[]), Ok(()));
        assert_eq!(kernels_of([&*sound].into_iter()), ["one", "two"]);
        assert_eq!(check(&[], "gfx90a", false, &[]), Err(Flaw::Empty));
        assert_eq!(check(&sound, "gfx90a", false, &names("three")), Err(Flaw::NoKernel("three".to_owned())));
        assert_eq!(check(&sound, "gfx1100", false, &[]), Err(Flaw::OtherTarget("gfx90a".to_owned())));
        assert!(matches!(check(&sound, "gfx90a", true, &[]), Err(Flaw::Damaged(_))));
        for end in 1..sound.len() {
            assert!(matches!(check(&sound[..end], "gfx90a", false, &[]), Err(Flaw::Damaged(_))), "{end}");
        }
    }

    #[test]
    fn spirv_ends_with_an_instruction() {
        let words = [0x0723_0203, 0x0001_0600, 0, 9, 0, 0x0002_0011, 4, 0x0003_000e, 2, 2];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        assert_eq!(check_spirv(&bytes), Ok(()));
        for end in (0..bytes.len()).filter(|end| ![5 * 4, 7 * 4].contains(end)) {
            assert!(check_spirv(&bytes[..end]).is_err(), "{end}");
        }
        assert_eq!(check_spirv(&[]), Err(Flaw::Empty));
        assert!(check_spirv(b"translated").is_err());
    }
}
