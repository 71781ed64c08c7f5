//! Whether code for NVIDIA's GPUs is sound: whole, for its target, and with its kernels.

use offload_bundle::arch::{ArchFeature, GpuArch};
use offload_bundle::cubin::{self, SymbolBinding, SymbolKind};
use offload_bundle::ptx;

use crate::machines::flaw::{Flaw, require_kernels, require_some};
use crate::machines::nvptx::codegen::Form;

/// Checks code of any form.
///
/// # Errors
/// What is wrong with it.
pub fn check(form: Form, bytes: &[u8], arch: GpuArch, kernels: &[String]) -> Result<(), Flaw> {
    match form {
        Form::Cubin => check_cubin(bytes, arch, kernels),
        Form::Ptx => check_ptx(bytes, arch, kernels),
        // Only NVIDIA's linkers read it, and no job makes it.
        Form::LtoIr => require_some(bytes),
    }
}

/// Checks a cubin, relocatable or finished.
///
/// # Errors
/// What is wrong with it.
pub fn check_cubin(bytes: &[u8], arch: GpuArch, kernels: &[String]) -> Result<(), Flaw> {
    require_some(bytes)?;
    let cubin = cubin::parse(bytes).map_err(|error| Flaw::Damaged(error.to_string()))?;
    require_arch(cubin.arch(), arch)?;
    let found = cubin.symbols().iter().filter(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel);
    require_kernels(found.map(|symbol| symbol.name.as_str()), kernels)
}

/// Checks PTX.
///
/// # Errors
/// What is wrong with it.
pub fn check_ptx(text: &[u8], arch: GpuArch, kernels: &[String]) -> Result<(), Flaw> {
    require_some(text)?;
    if !ptx::is_ptx(text) {
        return Err(Flaw::Damaged("it does not begin as PTX".to_owned()));
    }
    // Compilers of PTX take that of earlier targets, too.
    match ptx::target(text) {
        Some(found) if found.number > arch.number => return Err(Flaw::OtherTarget(found.to_string())),
        _ => {}
    }
    let outline = ptx::outline(text);
    if !outline.is_whole {
        return Err(Flaw::Damaged("the text ends inside a statement".to_owned()));
    }
    require_kernels(outline.kernels.iter().map(String::as_str), kernels)
}

/// The kernels of a cubin that other code and the host see; none if it is damaged.
pub fn kernels_of_cubin(bytes: &[u8]) -> Vec<String> {
    let Ok(cubin) = cubin::parse(bytes) else { return Vec::new() };
    let visible = cubin
        .symbols()
        .iter()
        .filter(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel && symbol.binding != SymbolBinding::Local);
    visible.map(|symbol| symbol.name.clone()).collect()
}

/// Cubins do not record all suffixes of a target, but none is recorded that the target does not have.
fn require_arch(found: GpuArch, arch: GpuArch) -> Result<(), Flaw> {
    let has_suffix = found.feature != ArchFeature::Plain && arch.feature == ArchFeature::Plain;
    if found.number != arch.number || has_suffix {
        return Err(Flaw::OtherTarget(found.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::samples::cubin;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn cubins_are_whole_for_their_target_and_have_their_kernels() {
        let (sound, arch) = (cubin(&["one", "two"]), GpuArch::plain(90));
        assert_eq!(check_cubin(&sound, arch, &names(&["two", "one"])), Ok(()));
        assert_eq!(kernels_of_cubin(&sound), ["one", "two"]);
        assert_eq!(check_cubin(&[], arch, &[]), Err(Flaw::Empty));
        assert_eq!(check_cubin(&sound, arch, &names(&["three"])), Err(Flaw::NoKernel("three".to_owned())));
        assert_eq!(check_cubin(&sound, GpuArch::plain(80), &[]), Err(Flaw::OtherTarget("sm_90".to_owned())));
        for end in 1..sound.len() {
            assert!(matches!(check_cubin(&sound[..end], arch, &[]), Err(Flaw::Damaged(_))), "{end}");
        }
    }

    #[test]
    fn ptx_is_whole_and_has_its_kernels() {
        let text = b".version 8.0\n.target sm_90\n.visible .entry one() { ret; }\n.visible .entry two() { ret; }\n";
        let arch = GpuArch::plain(90);
        assert_eq!(check_ptx(text, arch, &names(&["one", "two"])), Ok(()));
        assert_eq!(check_ptx(text, GpuArch::plain(100), &[]), Ok(()));
        assert_eq!(check_ptx(b"", arch, &[]), Err(Flaw::Empty));
        assert_eq!(check_ptx(text, GpuArch::plain(80), &[]), Err(Flaw::OtherTarget("sm_90".to_owned())));
        assert!(matches!(check_ptx(b"\0\0", arch, &[]), Err(Flaw::Damaged(_))));
        for end in 1..text.len() - 1 {
            assert!(check_ptx(&text[..end], arch, &names(&["one", "two"])).is_err(), "{end}");
        }
    }
}
