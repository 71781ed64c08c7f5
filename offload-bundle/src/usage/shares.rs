//! Which bytes of a cubin or code object belong to which function.

use std::collections::{HashMap, HashSet};

use super::{CubinPart, REST, add, part_of, shares};
use crate::FormatError;
use crate::amdgpu;
use crate::cubin::{self, SymbolKind};

/// The bytes of a cubin or code object by function. All parts together add up to its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionShares {
    /// Functions with bytes of their own, in the order in which their sections begin.
    pub functions: Vec<FunctionShare>,
    /// What belongs to no single function, the largest part first.
    pub rest: Vec<CubinPart>,
}

impl FunctionShares {
    /// All bytes.
    pub fn total(&self) -> u64 {
        let of_functions = self.functions.iter().flat_map(|function| &function.parts);
        of_functions.chain(&self.rest).map(|part| part.bytes).sum()
    }
}

/// The bytes of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionShare {
    /// Mangled.
    pub name: String,
    /// What they are, in the order in which the sections begin.
    pub parts: Vec<CubinPart>,
}

/// Divides the bytes of a cubin or code object among its functions; `None` for data of another kind.
///
/// # Errors
/// A damaged cubin or code object.
pub fn function_shares(data: &[u8]) -> Result<Option<FunctionShares>, FormatError> {
    let size = data.len() as u64;
    if cubin::is_cubin(data) {
        let cubin = cubin::parse(data)?;
        let is_function = |kind| matches!(kind, SymbolKind::Kernel | SymbolKind::Function);
        let functions = cubin.symbols().iter().filter(|symbol| symbol.defined && is_function(symbol.kind));
        let functions: HashSet<&str> = functions.map(|symbol| symbol.name.as_str()).collect();
        return Ok(Some(of_sections(cubin.section_sizes(), &functions, size)));
    }
    if !amdgpu::is_code(data) {
        return Ok(None);
    }
    let code = amdgpu::Code::parse(data)?;
    let mut rest = shares(code.section_sizes().into_iter(), size);
    let mut functions = Vec::new();
    let machine_code = rest.iter_mut().find(|part| part.name == "code");
    if let Some(machine_code) = machine_code {
        for kernel in code.kernels()? {
            // Kernels of a damaged object may share their bytes.
            let bytes = kernel.code_size.min(machine_code.bytes);
            machine_code.bytes -= bytes;
            let parts = vec![CubinPart { name: "code", bytes }];
            functions.push(FunctionShare { name: kernel.metadata.name.clone(), parts });
        }
    }
    rest.retain(|part| part.bytes > 0);
    Ok(Some(FunctionShares { functions, rest }))
}

/// Divides the sections of a cubin: `.text.F`, `.nv.info.F`, `.nv.constant0.F` and the like belong to the function F.
fn of_sections<'n>(
    sections: impl Iterator<Item = (&'n str, u64)>,
    functions: &HashSet<&str>,
    size: u64,
) -> FunctionShares {
    let mut left = size;
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut found = FunctionShares::default();
    for (section, bytes) in sections {
        // Sections of a damaged cubin may share their bytes.
        let bytes = bytes.min(left);
        if bytes == 0 {
            continue;
        }
        left -= bytes;
        let kind = part_of(section).unwrap_or(REST);
        let Some(owner) = owner(section, functions) else {
            add(&mut found.rest, kind, bytes);
            continue;
        };
        let place = *places.entry(owner).or_insert(found.functions.len());
        if place == found.functions.len() {
            found.functions.push(FunctionShare { name: owner.to_owned(), parts: Vec::new() });
        }
        if let Some(function) = found.functions.get_mut(place) {
            add(&mut function.parts, kind, bytes);
        }
    }
    add(&mut found.rest, REST, left);
    found.rest.retain(|part| part.bytes > 0);
    found.rest.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    found
}

/// The function whose name follows one of the dots of a section's name. Names of functions may contain dots themselves.
fn owner<'n>(section: &'n str, functions: &HashSet<&str>) -> Option<&'n str> {
    let dots = section.match_indices('.').skip(1);
    dots.filter_map(|(at, _)| section.get(at + 1..)).find(|name| functions.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuArch, samples};

    #[test]
    fn all_bytes_of_a_cubin_have_an_owner_or_none() {
        let data = samples::cubin(GpuArch::plain(90), false);
        let shares = function_shares(&data).expect("a sound cubin").expect("a cubin");
        assert_eq!(shares.total(), data.len() as u64);
        let first = shares.functions.iter().find(|function| function.name == "first").expect("the kernel");
        assert!(first.parts.contains(&CubinPart { name: "code", bytes: 16 }), "{first:?}");
        assert_eq!(function_shares(b"neither").expect("no damage"), None);
    }

    #[test]
    fn sections_belong_to_the_function_that_they_name() {
        let functions = HashSet::from(["f", "g.part.0", "0"]);
        let sections =
            [(".text.f", 10), (".nv.constant0.g.part.0", 20), (".nv.info.f", 3), (".strtab", 5), (".text.f", 999)];
        let shares = of_sections(sections.into_iter(), &functions, 50);
        let part = |name, bytes| CubinPart { name, bytes };
        let named = |name: &str, parts| FunctionShare { name: name.to_owned(), parts };
        // The last section goes beyond the end of the file.
        let f = named("f", vec![part("code", 22), part("attributes", 3)]);
        assert_eq!(shares.functions, [f, named("g.part.0", vec![part("constants", 20)])]);
        assert_eq!((shares.rest.as_slice(), shares.total()), (&[part("symbols", 5)][..], 50));
    }
}
