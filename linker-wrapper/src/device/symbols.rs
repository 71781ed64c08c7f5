//! The device symbols of images that are not being linked yet, to find out which of them are wanted.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::{Strength, Symbol, SymbolKind};
use llvm_passes::unit::Unit;
use offload_bundle::cubin::{self, CubinSymbol, Memory, SymbolBinding, SymbolKind as CubinSymbolKind};
use offload_bundle::{ltoir, ptx};

use crate::diag::error::Errors;
use crate::host::embedded_images::{FoundImage, Origin};

/// Symbols of all images, each read once.
pub struct Cache<'i, 'a> {
    images: &'i [FoundImage<'a>],
    /// Of images that are not bitcode, whose units keep their own.
    symbols: HashMap<usize, Vec<Symbol>>,
    /// Symbols, by target, of code that is linked in any case.
    others: HashMap<String, Vec<Symbol>>,
}

impl<'i, 'a> Cache<'i, 'a> {
    /// Nothing is read yet. `others` are symbols, by target, of code that is linked in any case.
    pub fn new(images: &'i [FoundImage<'a>], others: HashMap<String, Vec<Symbol>>) -> Self {
        Cache { images, symbols: HashMap::new(), others }
    }

    /// The files that are not selected and are the first to define a device symbol that a selected one of the same target
    /// references and none defines, each with such a symbol.
    ///
    /// # Errors
    /// Unreadable images.
    pub fn referenced_inputs(&mut self, selected: &[bool]) -> Result<Vec<(usize, String)>, Errors> {
        let mut wanted = self.wanted(selected)?;
        let mut files = Vec::new();
        for index in 0..self.images.len() {
            let file = self.images[index].input;
            if wanted.is_empty() || selected[file] {
                continue;
            }
            let target = target_of(&self.images[index]);
            let defined = self.of(index)?.iter().filter(|symbol| symbol.strength.is_definition());
            // All are struck off, so that a second file is not taken for the same name.
            let mut offered = defined.filter(|symbol| wanted.remove(&(target.clone(), symbol.name.clone())));
            let first = offered.next().map(|symbol| symbol.name.clone());
            offered.for_each(drop);
            files.extend(first.map(|symbol| (file, symbol)));
        }
        Ok(files)
    }

    /// (target, name) that selected images want and do not define.
    fn wanted(&mut self, selected: &[bool]) -> Result<HashSet<(String, String)>, Errors> {
        let mut wanted = HashSet::new();
        let mut defined = HashSet::new();
        let mut note = |target: &str, symbols: &[Symbol]| {
            for symbol in symbols {
                let list = match symbol.strength {
                    Strength::Undefined => &mut wanted,
                    Strength::WeakUndefined => continue,
                    _ => &mut defined,
                };
                list.insert((target.to_owned(), symbol.name.clone()));
            }
        };
        self.others.iter().for_each(|(target, symbols)| note(target, symbols));
        for index in 0..self.images.len() {
            if selected[self.images[index].input] {
                note(&target_of(&self.images[index]), self.of(index)?);
            }
        }
        wanted.retain(|name| !defined.contains(name));
        Ok(wanted)
    }

    fn of(&mut self, index: usize) -> Result<&[Symbol], Errors> {
        let found = &self.images[index];
        if let Some(unit) = &found.unit {
            return Ok(unit.symbols()?);
        }
        if let std::collections::hash_map::Entry::Vacant(entry) = self.symbols.entry(index) {
            entry.insert(of_code(&found.origin, found.image.image)?);
        }
        Ok(&self.symbols[&index])
    }
}

fn target_of(found: &FoundImage<'_>) -> String {
    format!("{} {}", found.image.triple(), found.image.arch())
}

/// The visible symbols of device code of any form but bitcode. `origin` is what messages call it.
///
/// # Errors
/// Unreadable code.
fn of_code(origin: &Origin, bytes: &[u8]) -> Result<Vec<Symbol>, Errors> {
    if cubin::is_cubin(bytes) {
        return Ok(of_cubin(origin, bytes)?.symbols);
    }
    if ptx::is_ptx(bytes) {
        return Ok(of_ptx(bytes).symbols);
    }
    if ltoir::version(bytes).is_some() {
        // Nothing is known of its inside.
        return Ok(Vec::new());
    }
    of_host_code(origin, bytes)
}

/// The visible symbols of a device image. Those of bitcode are read from its open unit.
///
/// # Errors
/// Unreadable code.
pub fn of_image<'u>(unit: Option<&'u Unit<'_>>, origin: &Origin, bytes: &[u8]) -> Result<Cow<'u, [Symbol]>, Errors> {
    match unit {
        Some(unit) => Ok(Cow::Borrowed(unit.symbols()?)),
        None => of_code(origin, bytes).map(Cow::Owned),
    }
}

/// The visible symbols of PTX.
pub fn of_ptx(bytes: &[u8]) -> UnitSymbols {
    UnitSymbols { symbols: ptx::symbols(bytes).iter().filter_map(symbol_of_cubin).collect() }
}

/// Device code for the host's own kind of processor (OpenMP).
fn of_host_code(origin: &Origin, bytes: &[u8]) -> Result<Vec<Symbol>, Errors> {
    let symbols = offload_bundle::host_object::host_symbols(bytes, false)
        .map_err(|error| Errors::one(format_args!("{origin}: damaged device image: {error}; rebuild the file")))?;
    let symbol = |symbol: offload_bundle::host_object::HostSymbol<'_>| Symbol {
        name: String::from_utf8_lossy(symbol.name).into_owned(),
        strength: match (symbol.defined, symbol.weak) {
            (true, false) => Strength::Strong,
            (true, true) => Strength::Weak,
            (false, false) => Strength::Undefined,
            (false, true) => Strength::WeakUndefined,
        },
        kind: SymbolKind::Function,
    };
    Ok(symbols.into_iter().map(symbol).collect())
}

/// The visible symbols of a cubin.
///
/// # Errors
/// It is damaged.
pub fn of_cubin(origin: &Origin, bytes: &[u8]) -> Result<UnitSymbols, Errors> {
    let cubin = cubin::parse(bytes).map_err(|error| {
        let place =
            Origin { offset: origin.offset.map(|offset| offset.saturating_add(error.offset)), ..origin.clone() };
        Errors::one(format_args!("{place}: damaged cubin: {}; rebuild the file", error.kind))
    })?;
    Ok(UnitSymbols { symbols: cubin.symbols().iter().filter_map(symbol_of_cubin).collect() })
}

fn symbol_of_cubin(symbol: &CubinSymbol) -> Option<Symbol> {
    let strength = match (symbol.binding, symbol.defined) {
        (SymbolBinding::Local, _) => return None,
        (SymbolBinding::Global, true) => Strength::Strong,
        (SymbolBinding::Weak, true) => Strength::Weak,
        (SymbolBinding::Global, false) => Strength::Undefined,
        (SymbolBinding::Weak, false) => Strength::WeakUndefined,
    };
    let kind = match symbol.kind {
        CubinSymbolKind::Kernel => SymbolKind::Kernel,
        CubinSymbolKind::Function => SymbolKind::Function,
        CubinSymbolKind::Object => SymbolKind::Variable,
        CubinSymbolKind::Other => return None,
    };
    // `extern __shared__`: its size comes with the launch, nobody defines it.
    let dynamic_shared = !symbol.defined && symbol.memory == Some(Memory::Shared);
    (!dynamic_shared).then(|| Symbol { name: symbol.name.clone(), strength, kind })
}
