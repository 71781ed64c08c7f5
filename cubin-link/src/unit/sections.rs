//! What a section of a relocatable cubin is, by its type and its name.

use object::elf::{SHT_NOTE, SHT_NULL, SHT_PROGBITS, SHT_RELA, SHT_STRTAB, SHT_SYMTAB};

/// Types of sections of CUDA (`SHT_LOPROC` and up), with the names that cuobjdump prints.
const CUDA_INFO: u32 = 0x7000_0000;
const CUDA_CALLGRAPH: u32 = 0x7000_0001;
const CUDA_PROTOTYPE: u32 = 0x7000_0002;
pub(super) const CUDA_GLOBAL: u32 = 0x7000_0007;
const CUDA_GLOBAL_INIT: u32 = 0x7000_0008;
pub(super) const CUDA_SHARED: u32 = 0x7000_000a;
/// Bank 0; the next ones follow, up to bank 17.
const CUDA_CONSTANT_B0: u32 = 0x7000_0064;
const CONSTANT_BANKS: u32 = 18;
const CUDA_COMPAT_INFO: u32 = 0x7000_0086;

/// What a section holds. A number is that of another section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Nothing,
    Strings,
    Symbols,
    /// `.debug_frame`.
    Frames,
    /// `.note.nv.tkinfo`: which tools made it.
    ToolNote,
    /// `.note.nv.cuinfo`: for which virtual architecture and by which release.
    ReleaseNote,
    /// `.nv.compat`.
    Compatibility,
    /// `.nv.info`: attributes of all functions.
    Attributes,
    /// `.nv.info.NAME`: attributes of the function in this section.
    FunctionAttributes(usize),
    /// `.nv.callgraph`.
    Calls,
    /// `.nv.prototype`.
    Prototypes,
    /// `.rela.NAME`: relocations of this section.
    Relocations(usize),
    /// `.nv.constantN`, a bank of constants of all functions.
    Constants(u8),
    /// `.nv.constantN.NAME`: a bank of the function in this section.
    FunctionConstants(u8, usize),
    /// `.text.NAME`.
    Code,
    /// `.nv.global.init`.
    Initialized,
    /// `.nv.global`.
    Zeroed,
    /// `.nv.shared.NAME`: shared variables of the kernel in this section.
    KernelShared(usize),
    /// `.nv_debug.shared`: shared variables of device functions.
    FunctionShared,
}

/// What a section is; `None` if this linker does not know it.
///
/// `info` is `sh_info`, for many sections the number of the section that they are about.
pub(super) fn kind(name: &str, section_type: u32, info: usize) -> Option<Kind> {
    let is_type = |known: object::elf::SectionType| section_type == known.0;
    if is_type(SHT_NULL) {
        return Some(Kind::Nothing);
    }
    if is_type(SHT_STRTAB) && matches!(name, ".strtab" | ".shstrtab") {
        return Some(Kind::Strings);
    }
    if is_type(SHT_SYMTAB) && name == ".symtab" {
        return Some(Kind::Symbols);
    }
    if is_type(SHT_NOTE) {
        return match name {
            ".note.nv.tkinfo" => Some(Kind::ToolNote),
            ".note.nv.cuinfo" => Some(Kind::ReleaseNote),
            _ => None,
        };
    }
    if is_type(SHT_RELA) {
        return name.starts_with(".rela.").then_some(Kind::Relocations(info));
    }
    if is_type(SHT_PROGBITS) {
        return match name {
            ".debug_frame" => Some(Kind::Frames),
            _ => name.starts_with(".text.").then_some(Kind::Code),
        };
    }
    cuda_kind(name, section_type, info)
}

fn cuda_kind(name: &str, section_type: u32, info: usize) -> Option<Kind> {
    let is = |known: &str, kind: Kind| (name == known).then_some(kind);
    match section_type {
        CUDA_INFO if name == ".nv.info" => Some(Kind::Attributes),
        CUDA_INFO => name.starts_with(".nv.info.").then_some(Kind::FunctionAttributes(info)),
        CUDA_CALLGRAPH => is(".nv.callgraph", Kind::Calls),
        CUDA_PROTOTYPE => is(".nv.prototype", Kind::Prototypes),
        CUDA_COMPAT_INFO => is(".nv.compat", Kind::Compatibility),
        CUDA_GLOBAL => is(".nv.global", Kind::Zeroed),
        CUDA_GLOBAL_INIT => is(".nv.global.init", Kind::Initialized),
        CUDA_SHARED if name == ".nv_debug.shared" => Some(Kind::FunctionShared),
        CUDA_SHARED => name.starts_with(".nv.shared.").then_some(Kind::KernelShared(info)),
        _ => constants(name, section_type.checked_sub(CUDA_CONSTANT_B0)?, info),
    }
}

fn constants(name: &str, bank: u32, info: usize) -> Option<Kind> {
    if bank >= CONSTANT_BANKS {
        return None;
    }
    let rest = name.strip_prefix(".nv.constant")?.strip_prefix(&bank.to_string())?;
    let bank = u8::try_from(bank).ok()?;
    match rest.strip_prefix('.') {
        Some(function) if !function.is_empty() && info != 0 => Some(Kind::FunctionConstants(bank, info)),
        None if rest.is_empty() => Some(Kind::Constants(bank)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_and_name_agree() {
        assert_eq!(kind(".text.k", 1, 0), Some(Kind::Code));
        assert_eq!(kind(".nv.info.k", 0x7000_0000, 7), Some(Kind::FunctionAttributes(7)));
        assert_eq!(kind(".nv.constant3", 0x7000_0067, 0), Some(Kind::Constants(3)));
        assert_eq!(kind(".nv.constant0.k", 0x7000_0064, 9), Some(Kind::FunctionConstants(0, 9)));
        assert_eq!(kind(".nv.constant3", 0x7000_0066, 0), None);
        assert_eq!(kind(".nv.constant17", 0x7000_0075, 0), Some(Kind::Constants(17)));
        assert_eq!(kind(".nv.constant1", 0x7000_0075, 0), None);
        for unknown in
            [(".debug_line", 1), (".nv.merc.info", 0x7000_0000), (".nv.shared", 0x7000_000a), (".x", 0x7fff_ffff)]
        {
            assert_eq!(kind(unknown.0, unknown.1, 0), None, "{unknown:?}");
        }
    }
}
