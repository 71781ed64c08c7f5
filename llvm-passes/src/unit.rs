//! A translation unit's bitcode, opened once.
//!
//! A [`Unit`] provides everything that a link needs to know about bitcode before compiling it. LLVM parses the module, without
//! function bodies, when a value first requires it; the module then stays open for the other values. Each is computed at most
//! once:
//!
//! | value | method | parses |
//! | --- | --- | --- |
//! | content hash | [`Unit::content_hash`] | nothing |
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
//!   closed as soon as their symbols have been read, so archives of any size can be searched. Only then is a unit opened twice.
//! - *Recorded PTX flags* and *compatibility checks* read [`Unit::command_lines_with`] and [`Unit::module_flags`] of linked units.
//! - A program that may be partitioned reads [`Unit::references`], from several threads if that is faster. This closes the
//!   unit, because loaded bodies take much memory. [`Unit::used_symbols`] then gives what symbol resolution needs.
//! - A program that is compiled in one piece in this process calls [`Unit::load_into`] with the session that compiles it
//!   ([`OwnedProgram`](crate::OwnedProgram) does so for all units). That is the compilation's own parse. It fills in
//!   [`Unit::used_symbols`], and also [`Unit::module_flags`] unless they are known, so that such a program is parsed once in all
//!   if nothing was read of it before.
//!
//! A unit is opened from a copy of its bytes that no other program writes to, and its hash is that of the copy: whatever happens to the
//! file, what was read is true of bytes with [`Unit::content_hash`]. So it can be kept between links under this hash:
//! [`Unit::facts`] returns it as one serializable value, and a unit asks [`CachedFacts`] before it is opened. Within a link,
//! [`Unit::moved_to`] hands it over to a copy of the unit.
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

mod open_unit;
mod owned_module;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

/// Facts about units that earlier links kept.
pub trait CachedFacts: Sync {
    /// Returns the facts about the unit whose bytes have this hash.
    fn of(&self, content: &blake3::Hash) -> Option<UnitFacts>;
}

/// A translation unit's bitcode and what has been read of it. Threads can share it.
pub struct Unit<'a> {
    name: String,
    bitcode: &'a [u8],
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
    opened: OpenUnit,
    times_opened: AtomicUsize,
    /// Where to look before the unit is opened.
    cached: Option<&'a dyn CachedFacts>,
    has_looked: AtomicBool,
    /// How many facts are kept already.
    facts_known: AtomicUsize,
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
            bitcode,
            hash: OnceLock::new(),
            symbols: Cell::new(),
            used_symbols: Cell::new(),
            module_flags: Cell::new(),
            command_lines: Cell::new(),
            references: Cell::new(),
            bodies: Cell::new(),
            amd_facts: Cell::new(),
            opened: OpenUnit::new(bitcode.len(), &BUDGET),
            times_opened: AtomicUsize::new(0),
            cached: None,
            has_looked: AtomicBool::new(false),
            facts_known: AtomicUsize::new(0),
        }
    }

    /// Lets the unit look into the facts that earlier links kept before it is opened.
    #[must_use]
    pub fn with_cached(self, cached: Option<&'a dyn CachedFacts>) -> Self {
        Unit { cached, ..self }
    }

    /// Fills in facts of the same content, from a cache or an object. Forged ones that are not sound in themselves are not used.
    #[must_use]
    pub fn with_facts(self, facts: UnitFacts) -> Self {
        self.fill(facts);
        self
    }

    /// Returns the unit for a copy of its bytes. If these are still the same, it takes over what was read, and the open module.
    #[must_use]
    pub fn moved_to<'c>(&self, copy: &'c [u8]) -> Unit<'c>
    where
        'a: 'c,
    {
        let mut moved = Unit::new(&*self.name, copy).with_cached(self.cached);
        if moved.content_hash() == self.content_hash() {
            let mut opened = self.opened.lock();
            opened.move_to(&mut moved.opened.lock());
            moved.fill(self.facts());
            moved.times_opened = self.times_opened().into();
            moved.has_looked = self.has_looked.load(Ordering::Relaxed).into();
            moved.facts_known = self.facts_known.load(Ordering::Relaxed).into();
        }
        moved
    }

    /// Fills in what is not known yet.
    fn fill(&self, facts: UnitFacts) {
        fn set<T>(cell: &Cell<T>, value: Option<T>) -> usize {
            value.map_or(0, |value| usize::from(cell.set(Ok(value)).is_ok()))
        }
        if facts.is_sound() {
            let UnitFacts { symbols, module_flags, command_lines, references, bodies, amd_facts } = facts;
            let filled = set(&self.symbols, symbols)
                + set(&self.module_flags, module_flags)
                + set(&self.command_lines, command_lines)
                + set(&self.references, references)
                + set(&self.bodies, bodies)
                + set(&self.amd_facts, amd_facts);
            self.facts_known.fetch_add(filled, Ordering::Relaxed);
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
        self.bitcode
    }

    /// Hash of the bytes, as they were when they were first hashed or opened.
    pub fn content_hash(&self) -> blake3::Hash {
        *self.hash.get_or_init(|| blake3::hash(self.bitcode))
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
        if memchr::memmem::find(self.bitcode, option.as_bytes()).is_none() {
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
        let module = session.read(&self.name, self.bitcode)?;
        require(machine, &module, &self.name)?;
        let mut opened = self.opened.lock();
        if opened.is_open() {
            self.read(&mut opened, |module| self.read_cheap_facts(module))?;
            opened.close();
        }
        if self.used_symbols.get().is_none() {
            let _ = self.used_symbols.set(Ok(symbols::of_module(&module)));
        }
        // Those for AMD GPUs can be read only of a module that is alone in its context.
        if machine == Machine::Nvptx && self.module_flags.get().is_none() {
            let _ = self.module_flags.set(Ok(self.module_flags_of(&module, self.bitcode)));
        }
        Ok(module)
    }

    /// Frees the open module, if there is one. What was read of it stays; what is read later opens the unit again.
    pub fn close(&self) {
        self.opened.lock().close();
    }

    /// Hands the facts over to `keep`, if something was read that is not kept yet.
    pub fn store_facts(&self, keep: impl FnOnce(UnitFacts)) {
        let known = self.number_of_facts();
        if self.facts_known.swap(known, Ordering::Relaxed) < known {
            keep(self.facts());
        }
    }

    fn number_of_facts(&self) -> usize {
        fn count<T>(cell: &Cell<T>) -> usize {
            usize::from(matches!(cell.get(), Some(Ok(_))))
        }
        count(&self.symbols)
            + count(&self.module_flags)
            + count(&self.command_lines)
            + count(&self.references)
            + count(&self.bodies)
            + count(&self.amd_facts)
    }

    /// How many times this unit has been opened.
    pub fn times_opened(&self) -> usize {
        self.times_opened.load(Ordering::Relaxed)
    }

    /// The value of a cell, which `read` computes from the open module if it is empty.
    fn fact<'u, T>(&self, cell: &'u Cell<T>, read: impl FnOnce(&OwnedModule) -> T) -> Result<&'u T, IrError> {
        if cell.get().is_none() {
            let mut opened = self.opened.lock();
            self.look_up_facts();
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
            self.look_up_facts();
            if cell.get().is_none() {
                let read = |module: &mut OwnedModule| {
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

    /// Fills in the facts that earlier links kept. The caller holds the lock.
    fn look_up_facts(&self) {
        if let Some(cached) = self.cached.filter(|_| !self.has_looked.swap(true, Ordering::Relaxed)) {
            cached.of(&self.content_hash()).into_iter().for_each(|facts| self.fill(facts));
        }
    }

    /// Opens the unit, unless it is open, and reads something of it.
    fn read<T>(&self, opened: &mut Locked<'_>, read: impl FnOnce(&mut OwnedModule) -> T) -> Result<T, IrError> {
        opened.or_open(|| self.open()).map(read)
    }

    /// Opens a copy of the bytes: another program may write to the file while bodies are read from it.
    fn open(&self) -> Result<OwnedModule, IrError> {
        OPENED.fetch_add(1, Ordering::Relaxed);
        self.times_opened.fetch_add(1, Ordering::Relaxed);
        let bitcode = self.bitcode.to_vec();
        let hash = blake3::hash(&bitcode);
        if *self.hash.get_or_init(|| hash) != hash {
            return Err(IrError::unreadable(&self.name, "it changed while it was read".to_owned()));
        }
        OwnedModule::open(&self.name, bitcode)
    }

    /// Reads of a unit that is about to be closed what would otherwise open it again.
    fn read_cheap_facts(&self, module: &OwnedModule) {
        if self.module_flags.get().is_none() {
            let _ = self.module_flags.set(Ok(self.read_module_flags(module)));
        }
        if self.command_lines.get().is_none() {
            let _ = self.command_lines.set(Ok(module.with(command_lines::of_module)));
        }
    }

    fn read_module_flags(&self, module: &OwnedModule) -> ModuleFlags {
        let bitcode = module.bitcode();
        module.with(|module| {
            let mut flags = self.module_flags_of(module, bitcode);
            flags.amd.relaxed_atomics = module_flags::relaxed_atomics(module);
            flags
        })
    }

    fn module_flags_of(&self, module: &Module<'_>, bitcode: &[u8]) -> ModuleFlags {
        let read = || ModuleFlags { producer: bitcode::producer(bitcode), ..module_flags::of_module(module) };
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
