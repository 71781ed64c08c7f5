//! A translation unit's bitcode, opened once.
//!
//! A [`Unit`] provides everything that a link needs to know about bitcode before compiling it. LLVM parses the module, without
//! function bodies, when a value first requires it; the module then stays open for the other values. Each is computed at most
//! once:
//!
//! | value | method | parses |
//! | --- | --- | --- |
//! | content hash, producer | [`Unit::content_hash`], [`Unit::producer`] | nothing |
//! | symbol table | [`Unit::symbols`] | the module without bodies |
//! | how it was compiled | [`Unit::module_flags`] | the module without bodies |
//! | recorded command lines | [`Unit::command_lines_with`] | nothing, unless the bytes contain the option |
//! | reference graph | [`Unit::references`] | the module and its bodies |
//! | bodies, to compare kernels by | [`Unit::bodies`] | the module and its bodies |
//! | what a program for AMD GPUs is cut by | [`Unit::amd_facts`] | the module and its bodies |
//!
//! # Use in a link
//!
//! Create one `Unit` for each bitcode image and keep it for the whole link; every phase borrows the same units.
//!
//! - *Archive selection* reads [`Unit::symbols`] of every candidate and calls [`Unit::close`] on those that are not linked:
//!   an open module takes a hundred kilobytes and more. Once all open modules together take too much memory, units are
//!   closed as soon as their symbols have been read, so archives of any size can be searched.
//! - *Recorded PTX flags* and *compatibility checks* read [`Unit::command_lines_with`] and [`Unit::module_flags`] of linked units.
//! - A program that may be partitioned reads [`Unit::references`], from several threads if that is faster. This closes the
//!   unit, because loaded bodies take much memory. [`Unit::used_symbols`] then gives what symbol resolution needs.
//! - A program that is compiled in one piece in this process calls [`Unit::load_into`] with the session that compiles it
//!   ([`OwnedProgram`](crate::OwnedProgram) does so for all units). That is the compilation's own parse. It fills in
//!   [`Unit::used_symbols`], and also [`Unit::module_flags`] unless they are known, so that such a program is parsed once in all
//!   if nothing was read of it before.
//!
//! What was read can be kept between links: [`Unit::facts`] returns it as one serializable value, which belongs in a cache
//! under [`Unit::content_hash`], and [`Unit::with_facts`] puts it back.
//!
//! ```
//! use llvm_passes::unit::Unit;
//!
//! # let context = inkwell::context::Context::create();
//! # let bitcode = context.create_module("empty").write_bitcode_to_memory();
//! # let bitcode = bitcode.as_slice();
//! let unit = Unit::new("a.o at offset 0x40", bitcode);
//! assert!(unit.symbols()?.is_empty());
//! assert!(unit.references()?.globals.is_empty());
//! assert_eq!(unit.times_opened(), 1);
//! # Ok::<(), llvm_passes::IrError>(())
//! ```

mod module_slot;
mod open_unit;
mod owned_module;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use inkwell::module::Module;
use serde::{Deserialize, Serialize};

use crate::amdgpu::{self, AmdFacts};
use crate::equal_kernels::Bodies;
use crate::error::IrError;
use crate::module_flags::{self, ModuleFlags};
use crate::program::Machine;
use crate::reference_graph::{self, ReferenceGraph};
use crate::session::Session;
use crate::symbols::{self, Symbol};
use crate::{bitcode, command_lines, crash, pipeline};
use open_unit::{BUDGET, Locked, OpenUnit};
use owned_module::OwnedModule;

/// How many units this process has opened.
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Returns how many times this process has parsed the bitcode of any [`Unit`] before its compilation.
pub fn opened() -> usize {
    OPENED.load(Ordering::Relaxed)
}

/// A value that is read at most once. The error of a failed read is kept, too.
type Cell<T> = OnceLock<Result<T, IrError>>;

/// A translation unit's bitcode and what has been read of it. Threads can share it.
pub struct Unit<'a> {
    name: String,
    hash: OnceLock<blake3::Hash>,
    symbols: Cell<Vec<Symbol>>,
    used_symbols: Cell<Vec<Symbol>>,
    module_flags: Cell<ModuleFlags>,
    command_lines: Cell<Vec<String>>,
    references: Cell<ReferenceGraph>,
    bodies: Cell<Bodies>,
    amd_facts: Cell<AmdFacts>,
    /// The open module. A thread that fills one of the cells above holds this lock; otherwise two threads could each wait for
    /// what the other holds.
    opened: OpenUnit<'a>,
    times_opened: AtomicUsize,
}

/// What has been read of a unit, for a cache. All of it depends on nothing but the unit's bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFacts {
    /// [`Unit::symbols`].
    pub symbols: Option<Vec<Symbol>>,
    /// [`Unit::module_flags`].
    pub module_flags: Option<ModuleFlags>,
    /// The command lines behind [`Unit::command_lines_with`].
    pub command_lines: Option<Vec<String>>,
    /// [`Unit::references`].
    pub references: Option<ReferenceGraph>,
    /// [`Unit::bodies`].
    pub bodies: Option<Bodies>,
    /// [`Unit::amd_facts`].
    pub amd_facts: Option<AmdFacts>,
}

impl UnitFacts {
    /// Whether everything that counts in a list ends in it. Other facts may be wrong, as those of another unit are, but can be looked into.
    fn is_sound(&self) -> bool {
        let graphs = [self.references.as_ref(), self.amd_facts.as_ref().map(|facts| &facts.graph)];
        graphs.into_iter().flatten().all(ReferenceGraph::is_closed)
    }
}

impl<'a> Unit<'a> {
    /// Wraps bitcode, of which nothing is read yet. `name` is what messages call it: file, archive member, offset.
    pub fn new(name: impl Into<String>, bitcode: &'a [u8]) -> Self {
        Unit {
            name: name.into(),
            hash: OnceLock::new(),
            symbols: Cell::new(),
            used_symbols: Cell::new(),
            module_flags: Cell::new(),
            command_lines: Cell::new(),
            references: Cell::new(),
            bodies: Cell::new(),
            amd_facts: Cell::new(),
            opened: OpenUnit::new(bitcode, &BUDGET),
            times_opened: AtomicUsize::new(0),
        }
    }

    /// Fills in facts of the same content, from a cache or an object. Forged ones that are not sound in themselves are not used.
    #[must_use]
    pub fn with_facts(self, facts: UnitFacts) -> Self {
        fn cell<T>(known: Option<T>, cell: Cell<T>) -> Cell<T> {
            known.map_or(cell, |value| Cell::from(Ok(value)))
        }
        if !facts.is_sound() {
            return self;
        }
        Unit {
            symbols: cell(facts.symbols, self.symbols),
            module_flags: cell(facts.module_flags, self.module_flags),
            command_lines: cell(facts.command_lines, self.command_lines),
            references: cell(facts.references, self.references),
            bodies: cell(facts.bodies, self.bodies),
            amd_facts: cell(facts.amd_facts, self.amd_facts),
            ..self
        }
    }

    /// Returns a copy of what has been read so far.
    pub fn facts(&self) -> UnitFacts {
        fn known<T: Clone>(cell: &Cell<T>) -> Option<T> {
            cell.get()?.as_ref().ok().cloned()
        }
        UnitFacts {
            symbols: known(&self.symbols),
            module_flags: known(&self.module_flags),
            command_lines: known(&self.command_lines),
            references: known(&self.references),
            bodies: known(&self.bodies),
            amd_facts: known(&self.amd_facts),
        }
    }

    /// What messages call the unit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit's bytes.
    pub fn bitcode(&self) -> &'a [u8] {
        self.opened.bitcode()
    }

    /// Hash of the bytes.
    pub fn content_hash(&self) -> blake3::Hash {
        *self.hash.get_or_init(|| blake3::hash(self.bitcode()))
    }

    /// The LLVM that wrote the bitcode, such as "LLVM22.1.8", if the bytes say so.
    pub fn producer(&self) -> Option<String> {
        bitcode::producer(self.bitcode())
    }

    /// The visible symbols. Every declaration counts as undefined, because its uses are not known without the bodies.
    ///
    /// # Errors
    /// Unreadable bitcode, or bitcode of a newer LLVM.
    pub fn symbols(&self) -> Result<&[Symbol], IrError> {
        self.fact(&self.symbols, |module| module.with(symbols::of_lazy_module)).map(Vec::as_slice)
    }

    /// The visible symbols without declarations that no code uses: the input of symbol resolution. Requires the bodies.
    ///
    /// # Errors
    /// As [`Unit::references`].
    pub fn used_symbols(&self) -> Result<&[Symbol], IrError> {
        if self.used_symbols.get().is_none() {
            let symbols = self.references().map(reference_graph::symbols);
            let _filling = self.opened.lock();
            let _ = self.used_symbols.set(symbols);
        }
        value(&self.used_symbols).map(Vec::as_slice)
    }

    /// How the code was compiled.
    ///
    /// # Errors
    /// As [`Unit::symbols`].
    pub fn module_flags(&self) -> Result<&ModuleFlags, IrError> {
        self.fact(&self.module_flags, |module| self.read_module_flags(module))
    }

    /// The recorded command lines of a unit whose bytes contain `option`; none, without parsing anything, if they do not:
    /// metadata strings lie in bitcode as plain bytes.
    ///
    /// # Errors
    /// As [`Unit::symbols`].
    pub fn command_lines_with(&self, option: &str) -> Result<&[String], IrError> {
        if memchr::memmem::find(self.bitcode(), option.as_bytes()).is_none() {
            return Ok(&[]);
        }
        self.fact(&self.command_lines, |module| module.with(command_lines::of_module)).map(Vec::as_slice)
    }

    /// Functions, variables, and the references between them. Loads the bodies, and closes the unit afterwards; what is
    /// cheap to read of an open module is read before.
    ///
    /// # Errors
    /// As [`Unit::symbols`], and code that is not for NVIDIA GPUs.
    pub fn references(&self) -> Result<&ReferenceGraph, IrError> {
        self.fact_of_bodies(&self.references, pipeline::require_nvptx_module, reference_graph::of_module)
    }

    /// The references between the definitions of a unit for this machine.
    ///
    /// # Errors
    /// As [`Unit::references`] and [`Unit::amd_facts`].
    pub fn graph(&self, machine: Machine) -> Result<&ReferenceGraph, IrError> {
        match machine {
            Machine::Nvptx => self.references(),
            Machine::Amdgpu => Ok(&self.amd_facts()?.graph),
            Machine::Host => self.fact_of_bodies(&self.references, |_, _| Ok(()), reference_graph::of_module),
        }
    }

    /// The bodies of functions and variables, to compare kernels by. Loads them, and reads with them what a program of this machine is cut
    /// by: [`Unit::references`] or [`Unit::amd_facts`].
    ///
    /// # Errors
    /// As these.
    pub fn bodies(&self, machine: Machine) -> Result<&Bodies, IrError> {
        let require = |module: &Module<'_>, unit: &str| require(machine, module, unit);
        self.fact_of_bodies(&self.bodies, require, |module| {
            match machine {
                Machine::Nvptx | Machine::Host if self.references.get().is_none() => {
                    let _ = self.references.set(Ok(reference_graph::of_module(module)));
                }
                Machine::Amdgpu if self.amd_facts.get().is_none() => {
                    let _ = self.amd_facts.set(Ok(AmdFacts::of_module(module)));
                }
                _ => {}
            }
            Bodies::of_module(module)
        })
    }

    /// What a program for AMD GPUs is cut by. Loads the bodies, like [`Unit::references`], which it contains.
    ///
    /// # Errors
    /// As [`Unit::symbols`], and code that is not for AMD GPUs.
    pub fn amd_facts(&self) -> Result<&AmdFacts, IrError> {
        self.fact_of_bodies(&self.amd_facts, amdgpu::require_amdgcn, AmdFacts::of_module)
    }

    /// Loads the unit into the session that compiles it. Fills in [`Unit::used_symbols`], and [`Unit::module_flags`] for NVIDIA GPUs.
    ///
    /// # Errors
    /// As [`Unit::references`].
    pub fn load_into<'s>(&self, session: &'s Session, machine: Machine) -> Result<Module<'s>, IrError> {
        let module = session.read(&self.name, self.bitcode())?;
        require(machine, &module, &self.name)?;
        let mut opened = self.opened.lock();
        opened.close();
        if self.used_symbols.get().is_none() {
            let _ = self.used_symbols.set(Ok(symbols::of_module(&module)));
        }
        // Those for AMD GPUs can be read only of a module that is alone in its context.
        if machine == Machine::Nvptx && self.module_flags.get().is_none() {
            let _ = self.module_flags.set(Ok(self.module_flags_of(&module)));
        }
        Ok(module)
    }

    /// Frees the open module, if there is one. What was read of it stays; what is read later opens the unit again.
    pub fn close(&self) {
        self.opened.lock().close();
    }

    /// Whether anything was read of the unit that [`Unit::facts`] did not know when it was created.
    pub fn has_new_facts(&self) -> bool {
        self.times_opened() > 0 || self.used_symbols.get().is_some()
    }

    /// How many times this unit has been opened.
    pub fn times_opened(&self) -> usize {
        self.times_opened.load(Ordering::Relaxed)
    }

    /// The value of a cell, which `read` computes from the open module if it is empty.
    fn fact<'u, T>(&self, cell: &'u Cell<T>, read: impl FnOnce(&OwnedModule<'_>) -> T) -> Result<&'u T, IrError> {
        if cell.get().is_none() {
            let mut opened = self.opened.lock();
            if cell.get().is_none() {
                let _ = cell.set(self.read(&mut opened, |module| read(module)));
                if opened.is_over_budget() {
                    let _ = self.read(&mut opened, |module| self.read_cheap_facts(module));
                    opened.close();
                }
            }
        }
        value(cell)
    }

    /// The value of a cell, which `of_module` computes with the bodies if it is empty; the unit is closed afterwards.
    fn fact_of_bodies<'u, T>(
        &self,
        cell: &'u Cell<T>,
        require_machine: impl FnOnce(&Module<'_>, &str) -> Result<(), IrError>,
        of_module: impl FnOnce(&Module<'_>) -> T,
    ) -> Result<&'u T, IrError> {
        if cell.get().is_none() {
            let mut opened = self.opened.lock();
            if cell.get().is_none() {
                let read = |module: &mut OwnedModule<'_>| {
                    module.with(|module| require_machine(module, &self.name))?;
                    self.read_cheap_facts(module);
                    module.load_bodies(&self.name)?;
                    Ok(module.with(of_module))
                };
                let _ = cell.set(self.read(&mut opened, read).flatten());
                opened.close();
            }
        }
        value(cell)
    }

    /// Opens the unit, unless it is open, and reads something of it.
    fn read<T>(
        &self,
        opened: &mut Locked<'_>,
        read: impl for<'m> FnOnce(&mut OwnedModule<'m>) -> T,
    ) -> Result<T, IrError> {
        if !opened.is_open() {
            OPENED.fetch_add(1, Ordering::Relaxed);
            self.times_opened.fetch_add(1, Ordering::Relaxed);
        }
        opened.with(&self.name, read)
    }

    /// Reads of a unit that is about to be closed what would otherwise open it again.
    fn read_cheap_facts(&self, module: &OwnedModule<'_>) {
        if self.module_flags.get().is_none() {
            let _ = self.module_flags.set(Ok(self.read_module_flags(module)));
        }
        if self.command_lines.get().is_none() {
            let _ = self.command_lines.set(Ok(module.with(command_lines::of_module)));
        }
    }

    fn read_module_flags(&self, module: &OwnedModule<'_>) -> ModuleFlags {
        module.with(|module| {
            let mut flags = self.module_flags_of(module);
            flags.amd.relaxed_atomics = module_flags::relaxed_atomics(module);
            flags
        })
    }

    fn module_flags_of(&self, module: &Module<'_>) -> ModuleFlags {
        let read = || ModuleFlags { producer: self.producer(), ..module_flags::of_module(module) };
        crash::during(&format!("looking into {}", self.name), read)
    }
}

/// The value of a cell that has been filled.
fn value<T>(cell: &Cell<T>) -> Result<&T, IrError> {
    match cell.get() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(error.clone()),
        None => unreachable!("the callers fill the cell before they read it"),
    }
}

/// Rejects a module for another machine. Of the host's, the linker does so.
fn require(machine: Machine, module: &Module<'_>, unit: &str) -> Result<(), IrError> {
    match machine {
        Machine::Nvptx => pipeline::require_nvptx_module(module, unit),
        Machine::Amdgpu => amdgpu::require_amdgcn(module, unit),
        Machine::Host => Ok(()),
    }
}
