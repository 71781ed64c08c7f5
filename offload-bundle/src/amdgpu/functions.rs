//! The functions of a code object, and what its kernels take, to compare two of them.

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::{Code, Kernel};
use crate::FormatError;
use crate::bytes::slice;

/// What a kernel takes of a GPU, each number with its name in reports.
pub type Resources = [(&'static str, u32); 7];

impl<'d> Code<'d> {
    /// The machine code of each function with a symbol, kernels included.
    pub fn functions(&self) -> BTreeMap<&str, &'d [u8]> {
        let symbols = self.elf().symbols().chain(self.elf().dynamic_symbols());
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        let code = |symbol: object::read::elf::ElfSymbol64<'d, '_, object::LittleEndian>| {
            let section = self.elf().section_by_index(symbol.section_index()?).ok()?;
            let (offset, size) = section.file_range()?;
            let within = symbol.address().checked_sub(section.address())?;
            // A function of a damaged file may go beyond its section.
            let len = symbol.size().min(size.checked_sub(within)?);
            let bytes = slice(self.data(), offset.checked_add(within)?, len, "a function").ok()?;
            Some((symbol.name().ok()?, bytes))
        };
        functions.filter_map(code).collect()
    }

    /// What each kernel takes, by name.
    ///
    /// # Errors
    /// Those of [`Code::kernels`].
    pub fn resources(&self) -> Result<BTreeMap<String, Resources>, FormatError> {
        Ok(self.kernels()?.iter().map(|kernel| (kernel.metadata.name.clone(), resources(kernel))).collect())
    }
}

fn resources(kernel: &Kernel) -> Resources {
    let metadata = &kernel.metadata;
    [
        ("registers", metadata.total_vgprs),
        ("accumulation registers", metadata.registers.agprs),
        ("scalar registers", metadata.registers.sgprs),
        ("stack", metadata.private_segment),
        ("shared", metadata.group_segment),
        ("parameters", metadata.arguments),
        ("lanes", metadata.wavefront),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn code_and_resources_by_name() {
        let data = samples::amd_code(8, &[7; 32]);
        let code = Code::parse(&data).unwrap();
        assert_eq!(code.functions(), BTreeMap::from([("first", &[7; 32][..])]));
        let resources = code.resources().unwrap();
        assert_eq!(
            resources["first"][..3],
            [("registers", 8), ("accumulation registers", 2), ("scalar registers", 12)]
        );
        assert_eq!(resources["first"][3..5], [("stack", 16), ("shared", 256)]);
    }
}
