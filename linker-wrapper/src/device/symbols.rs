//! Reads the symbols of device images, and finds the images that define symbols which the selected ones reference.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::{Strength, Symbol, SymbolKind};
use llvm_passes::unit::Unit;
use offload_bundle::cubin::{self, CubinSymbol, Memory, SymbolBinding, SymbolKind as CubinSymbolKind};
use offload_bundle::ptx;

use crate::compilers::rdc_image::{self, RdcEntry, RdcForm, RdcImage};
use crate::device::error::Error;
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::Errors;
use crate::host::embedded_images::{FoundImage, Origin};
use crate::host::error::damaged;

/// The symbols of candidate images, each read at most once.
pub struct CandidateSymbols<'i, 'a> {
    images: &'i [FoundImage<'a>],
    /// Symbols by image, except for bitcode, whose units keep their own.
    symbols: HashMap<usize, Vec<Symbol>>,
    /// Symbols, by target, of code that is always linked.
    others: HashMap<String, Vec<Symbol>>,
}

impl<'i, 'a> CandidateSymbols<'i, 'a> {
    /// Creates the collection without reading any image. `others` are the symbols, by target, of code that is always linked.
    pub fn new(images: &'i [FoundImage<'a>], others: HashMap<String, Vec<Symbol>>) -> Self {
        CandidateSymbols { images, symbols: HashMap::new(), others }
    }

    /// Finds the unselected files that are the first to define a symbol which is undefined among the selected images of the same
    /// target. Returns each file with such a symbol.
    ///
    /// # Errors
    /// Unreadable images.
    pub fn referenced_inputs(&mut self, selected: &[bool]) -> Result<Vec<(usize, String)>, Errors> {
        let mut undefined = self.undefined(selected)?;
        let mut files = Vec::new();
        for index in 0..self.images.len() {
            let file = self.images[index].input;
            if undefined.is_empty() || selected[file] {
                continue;
            }
            let target = target_of(&self.images[index]);
            let defined = self.of(index)?.iter().filter(|symbol| symbol.strength.is_definition());
            // Removes all names that this file defines, so that no second file is selected for one of them.
            let mut resolved = defined.filter(|symbol| undefined.resolve(&target, &symbol.name));
            let first = resolved.next().map(|symbol| symbol.name.clone());
            resolved.for_each(drop);
            files.extend(first.map(|symbol| (file, symbol)));
        }
        Ok(files)
    }

    /// The targets and names of symbols that selected images reference and do not define.
    fn undefined(&mut self, selected: &[bool]) -> Result<Undefined, Errors> {
        let mut undefined = HashSet::new();
        let mut defined = HashSet::new();
        let mut note = |target: &str, symbols: &[Symbol]| {
            for symbol in symbols {
                let list = match symbol.strength {
                    Strength::Undefined => &mut undefined,
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
        undefined.retain(|name| !defined.contains(name));
        let of_any: HashSet<&str> =
            defined.iter().filter(|(target, _)| target == ANY_TARGET).map(|(_, name)| name.as_str()).collect();
        undefined.retain(|(_, name)| !of_any.contains(name.as_str()));
        if undefined.iter().any(|(target, _)| target == ANY_TARGET) {
            let all: HashSet<&str> = defined.iter().map(|(_, name)| name.as_str()).collect();
            undefined.retain(|(target, name)| target != ANY_TARGET || !all.contains(name.as_str()));
        }
        Ok(Undefined { names: undefined })
    }

    fn of(&mut self, index: usize) -> Result<&[Symbol], Errors> {
        let found = &self.images[index];
        if let Some(unit) = &found.unit {
            return Ok(unit.symbols()?);
        }
        if let std::collections::hash_map::Entry::Vacant(entry) = self.symbols.entry(index) {
            let symbols = match &found.foreign {
                Some(rdc) => of_rdc(&found.origin, rdc)?,
                None => of_code(&found.origin, found.image.image)?,
            };
            entry.insert(symbols);
        }
        Ok(&self.symbols[&index])
    }
}

/// Targets and names of undefined symbols. Units of nvcc are linked for every target and have [`ANY_TARGET`].
struct Undefined {
    names: HashSet<(String, String)>,
}

/// Stands for all targets.
const ANY_TARGET: &str = "";

impl Undefined {
    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Removes the references that a definition for this target resolves; returns whether there are any.
    fn resolve(&mut self, target: &str, name: &str) -> bool {
        let before = self.names.len();
        if target == ANY_TARGET {
            self.names.retain(|(_, undefined)| undefined != name);
        } else {
            self.names.remove(&(target.to_owned(), name.to_owned()));
            self.names.remove(&(ANY_TARGET.to_owned(), name.to_owned()));
        }
        self.names.len() < before
    }
}

/// The visible symbols of a unit of nvcc, read from machine code or else PTX. Only NVIDIA's linkers can read those of LTO-IR.
///
/// # Errors
/// Unreadable code.
pub fn of_rdc(origin: &Origin, rdc: &RdcImage<'_>) -> Result<Vec<Symbol>, Errors> {
    let readable = |form: RdcForm| rdc.entries().iter().find(|entry| entry.form() == form);
    let Some(entry) = readable(RdcForm::Cubin).or_else(|| readable(RdcForm::Ptx)) else { return Ok(Vec::new()) };
    let offset = origin.offset.unwrap_or_default();
    of_code(origin, entry.code().map_err(|error| damaged(&origin.file, offset, &error))?)
}

/// The visible symbols of a unit that has LTO-IR, read from machine code or PTX for the target of the LTO-IR; none if it has neither.
///
/// # Errors
/// Unreadable code.
pub fn of_same_target(origin: &Origin, rdc: &RdcImage<'_>) -> Result<Vec<Symbol>, Errors> {
    let entries = rdc.entries();
    let target = entries.iter().filter(|entry| entry.form() == RdcForm::LtoIr).map(RdcEntry::arch).max();
    let readable = entries.iter().find(|entry| entry.form() != RdcForm::LtoIr && Some(entry.arch()) == target);
    let Some(entry) = readable else { return Ok(Vec::new()) };
    let offset = origin.offset.unwrap_or_default();
    of_code(origin, entry.code().map_err(|error| damaged(&origin.file, offset, &error))?)
}

/// The target for which symbols are shared. Code of target ids with other features may be linked with it.
fn target_of(found: &FoundImage<'_>) -> String {
    if found.foreign.is_some() {
        return ANY_TARGET.to_owned();
    }
    let processor = found.image.arch().split(':').next().unwrap_or_default();
    format!("{} {processor}", found.image.triple())
}

/// Reads the visible symbols of device code of any form but bitcode. `origin` is its place for messages.
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
    if rdc_image::lto_ir_version(bytes).is_some() {
        // Only NVIDIA's linkers can read LTO-IR.
        return Ok(Vec::new());
    }
    of_host_code(origin, bytes)
}

/// Returns the visible symbols of a device image; those of bitcode come from its open unit.
///
/// # Errors
/// Unreadable code.
pub fn of_image<'u>(unit: Option<&'u Unit<'_>>, origin: &Origin, bytes: &[u8]) -> Result<Cow<'u, [Symbol]>, Errors> {
    match unit {
        Some(unit) => Ok(Cow::Borrowed(unit.symbols()?)),
        None => of_code(origin, bytes).map(Cow::Owned),
    }
}

/// Whether an image defines a kernel that others can see, or may define one.
pub fn has_kernels(image: &DeviceImage<'_>) -> bool {
    // Code objects of AMD have a descriptor for each kernel.
    let is_kernel = |symbol: &Symbol| symbol.kind == SymbolKind::Kernel || symbol.name.ends_with(".kd");
    let symbols = (image.code != Code::LtoIr).then(|| of_image(image.unit, &image.origin, image.bytes).ok()).flatten();
    symbols.is_none_or(|symbols| symbols.iter().any(|symbol| symbol.strength.is_definition() && is_kernel(symbol)))
}

/// Reads the visible symbols of PTX.
pub fn of_ptx(bytes: &[u8]) -> UnitSymbols {
    UnitSymbols { symbols: ptx::symbols(bytes).iter().filter_map(symbol_of_cubin).collect() }
}

/// Reads the visible symbols of an ELF object: device code for the host's own architecture (OpenMP).
fn of_host_code(origin: &Origin, bytes: &[u8]) -> Result<Vec<Symbol>, Errors> {
    let symbols = offload_bundle::host_object::host_symbols(bytes, false)
        .map_err(|source| Error::DamagedImage { origin: origin.clone(), source })?;
    let symbol = |symbol: offload_bundle::host_object::HostSymbol<'_>| Symbol {
        name: String::from_utf8_lossy(symbol.name).into_owned(),
        strength: match (symbol.defined, symbol.weak) {
            (true, false) => Strength::Strong,
            (true, true) => Strength::Weak,
            (false, false) => Strength::Undefined,
            (false, true) => Strength::WeakUndefined,
        },
        kind: SymbolKind::Function,
        size: 0,
    };
    Ok(symbols.into_iter().map(symbol).collect())
}

/// Reads the visible symbols of a cubin.
///
/// # Errors
/// A damaged cubin.
pub fn of_cubin(origin: &Origin, bytes: &[u8]) -> Result<UnitSymbols, Errors> {
    let cubin = cubin::parse(bytes).map_err(|error| {
        let place =
            Origin { offset: origin.offset.map(|offset| offset.saturating_add(error.offset)), ..origin.clone() };
        Error::DamagedCubin { place, what: error.kind }
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
    // Linkers of cubins compare sizes themselves.
    // The size of `extern __shared__` comes with the launch; it has no definition.
    let dynamic_shared = !symbol.defined && symbol.memory == Some(Memory::Shared);
    (!dynamic_shared).then(|| Symbol { name: symbol.name.clone(), strength, kind, size: 0 })
}
