//! The code of files and archive members that the line gives to the device link, and which members are linked: those that define a device
//! symbol that is undefined without them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;

use llvm_passes::symbols::{Strength, Symbol};
use llvm_passes::unit::{CachedFacts, Unit};

use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::Origin;
use crate::host::input_files::{InputFile, Place};

/// One image that a file holds.
pub struct LineImage<'f> {
    /// Its form.
    pub code: Code,
    bytes: Cow<'f, [u8]>,
    /// The bitcode as a unit that is opened once, if it is bitcode.
    pub unit: Option<Unit<'f>>,
}

impl<'f> LineImage<'f> {
    /// Wraps code of which nothing is read yet.
    pub fn new(origin: &Origin, code: Code, bytes: Cow<'f, [u8]>, facts: Option<&'f dyn CachedFacts>) -> Self {
        let unit = match &bytes {
            // Bitcode is always borrowed: containers that compress their entries hold none.
            Cow::Borrowed(bitcode) if code == Code::Bitcode => {
                Some(Unit::new(origin.to_string(), bitcode).with_cached(facts))
            }
            _ => None,
        };
        LineImage { code, bytes, unit }
    }
}

/// The code of one file or member for one target.
pub struct Part<'f> {
    /// The file.
    pub file: &'f InputFile,
    /// What it holds.
    pub images: Vec<LineImage<'f>>,
}

impl Part<'_> {
    /// Whether the part is a member that is linked only if it is needed.
    pub fn is_lazy(&self) -> bool {
        self.file.place != Place::Line
    }

    /// The symbols of all its images.
    ///
    /// # Errors
    /// Unreadable code.
    pub fn symbols(&self) -> Result<Vec<Symbol>, Errors> {
        let origin = origin(self.file);
        let images = self.images.iter();
        let symbols =
            images.map(|image| Ok(symbols::of_image(image.unit.as_ref(), &origin, &image.bytes)?.into_owned()));
        collect(symbols).map(|symbols| symbols.into_iter().flatten().collect())
    }
}

/// Adds the code behind the images of a target. `roots` are further symbols that members are selected for.
///
/// # Errors
/// Unreadable code.
pub fn add<'a, A>(target: &mut TargetImages<'a, A>, parts: &'a [Part<'a>], roots: &[String]) -> Result<(), Errors> {
    let selected = select(target, parts, roots)?;
    for part in parts.iter().zip(selected).filter(|(_, selected)| *selected).map(|(part, _)| part) {
        let origin = origin(part.file);
        let images = part.images.iter().map(|image| DeviceImage {
            origin: origin.clone(),
            from_host: false,
            code: image.code,
            bytes: &image.bytes,
            unit: image.unit.as_ref(),
            rdc: None,
        });
        target.images.extend(images);
    }
    Ok(())
}

/// Selects all files, and to a fixed point the members that define undefined symbols.
fn select<A>(target: &TargetImages<'_, A>, parts: &[Part<'_>], roots: &[String]) -> Result<Vec<bool>, Errors> {
    let mut selected: Vec<bool> = parts.iter().map(|part| !part.is_lazy() && !part.images.is_empty()).collect();
    let candidates = |part: &Part<'_>| part.is_lazy() && !part.images.is_empty();
    if !parts.iter().any(candidates) {
        return Ok(selected);
    }
    let symbols = collect(parts.iter().map(Part::symbols))?;
    let mut state = State { referenced: roots.iter().cloned().collect(), defined: HashSet::new() };
    for image in &target.images {
        state.add(&symbols::of_image(image.unit, &image.origin, image.bytes)?);
    }
    let on_line = selected.iter().zip(&symbols).filter(|(selected, _)| **selected);
    on_line.for_each(|(_, symbols)| state.add(symbols));
    loop {
        let is_needed =
            |index: &usize| !selected[*index] && candidates(&parts[*index]) && state.lacks_any(&symbols[*index]);
        let Some(index) = (0..parts.len()).find(is_needed) else { return Ok(selected) };
        selected[index] = true;
        state.add(&symbols[index]);
    }
}

/// The device symbols of the selected code.
struct State {
    referenced: HashSet<String>,
    defined: HashSet<String>,
}

impl State {
    fn add(&mut self, symbols: &[Symbol]) {
        for symbol in symbols {
            match symbol.strength {
                Strength::Undefined => self.referenced.insert(symbol.name.clone()),
                Strength::WeakUndefined => false,
                _ => self.defined.insert(symbol.name.clone()),
            };
        }
    }

    /// Whether any of these symbols is a definition that resolves an undefined symbol.
    fn lacks_any(&self, symbols: &[Symbol]) -> bool {
        let defines = symbols.iter().filter(|symbol| symbol.strength.is_definition());
        defines.map(|symbol| &symbol.name).any(|name| self.referenced.contains(name) && !self.defined.contains(name))
    }
}

/// Where the code of a file is.
pub fn origin(file: &InputFile) -> Origin {
    Origin { file: file.name.clone(), offset: Some(file.base()), is_one_of_several: false }
}

/// Finds the archive of a library in these folders.
pub fn locate(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let file = name.strip_prefix(':').map_or_else(|| format!("lib{name}.a"), str::to_owned);
    folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file())
}
