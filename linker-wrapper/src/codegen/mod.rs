//! The tools that make machine code, and which of them does it for a target.
//!
//! [`choose`] decides, without looking anywhere. [`Backends`] looks: no further than the decision needs, and once per link. What
//! it hands out is a [`Maker`], which turns PTX and cubins into one finished cubin: ptxas for each piece of PTX and nvlink for
//! all of them, or one call of a library.

pub mod choose;
pub mod cuda_driver;
mod ffi;
pub mod image_linker;
pub mod library_link;
pub mod nvjitlink;
pub mod nvlink;
pub mod ptxas;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx::DebugInfo;

use crate::cli::device_options::DeviceOptions;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::diag::messages::warn;
use crate::sys::process::Mode;
use crate::sys::temp_files::Scratch;
use crate::toolchain::ptxas as toolkit_ptxas;
use crate::toolchain::{Part, Ptxas, Toolchain};
use choose::{Backend, Inputs, Lack, Programs, Release, Why, Wish};
use cuda_driver::Driver;
use library_link::{Form, Input, LinkOptions};
use nvjitlink::NvJitLink;

/// What was chosen for one target, for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The target.
    pub target: GpuArch,
    /// The tool.
    pub backend: Backend,
    /// Its file.
    pub path: PathBuf,
    /// Its release of CUDA, if it is known.
    pub release: Option<Release>,
    /// Why this one: a sentence without its full stop.
    pub reason: String,
}

impl fmt::Display for Choice {
    /// "sm_90: ptxas 13.0 (/usr/local/cuda/bin/ptxas): it can do the whole link and needs no driver"
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = match (self.backend, self.path.file_name().is_some_and(|name| name == "nvlink")) {
            (Backend::Ptxas, true) => "nvlink".to_owned(),
            (backend, _) => backend.to_string(),
        };
        let release = self.release.map_or_else(String::new, |(major, minor)| format!(" {major}.{minor}"));
        write!(formatter, "{}: {tool}{release} ({}): {}", self.target, self.path.display(), self.reason)
    }
}

/// The tools of one link, each looked for when it is wanted, and the choices made.
pub struct Backends<'a> {
    toolchain: &'a Toolchain,
    wish: Wish,
    options: &'a DeviceOptions,
    mode: Mode,
    program: &'a str,
    ptxas: OnceLock<Result<Ptxas, Errors>>,
    nvjitlink: OnceLock<Result<NvJitLink, Errors>>,
    driver: OnceLock<Result<Driver, Errors>>,
    choices: Mutex<Vec<Choice>>,
}

impl<'a> Backends<'a> {
    /// Nothing is looked for yet.
    pub fn new(toolchain: &'a Toolchain, wish: Wish, options: &'a DeviceOptions, mode: Mode, program: &'a str) -> Self {
        Backends {
            toolchain,
            wish,
            options,
            mode,
            program,
            ptxas: OnceLock::new(),
            nvjitlink: OnceLock::new(),
            driver: OnceLock::new(),
            choices: Mutex::default(),
        }
    }

    /// Asks ptxas for its version, which takes 2 ms: worth doing while LLVM reads. Not where another tool was asked for.
    pub fn probe_early(&self) {
        if matches!(self.wish, Wish::Auto | Wish::Only(Backend::Ptxas)) {
            let _ = self.ptxas();
        }
    }

    /// ptxas with its version.
    ///
    /// # Errors
    /// There is none, or what is there is no ptxas.
    pub fn ptxas(&self) -> Result<&Ptxas, Errors> {
        let probed = self.ptxas.get_or_init(|| toolkit_ptxas::probe(&self.toolchain.part(Part::Ptxas)?.path));
        probed.as_ref().map_err(Clone::clone)
    }

    /// ptxas and nvlink, where nothing else may be used: what they make depends on these files alone.
    pub fn toolkit_files(&self) -> Option<(PathBuf, Option<PathBuf>)> {
        let only = matches!(self.wish, Wish::Auto | Wish::Only(Backend::Ptxas));
        let ptxas = self.toolchain.part(Part::Ptxas).ok().filter(|_| only)?;
        Some((ptxas.path, self.toolchain.part(Part::Nvlink).ok().map(|part| part.path)))
    }

    fn nvjitlink(&self) -> Result<&NvJitLink, Errors> {
        let opened = self.nvjitlink.get_or_init(|| NvJitLink::open(&self.toolchain.part(Part::NvJitLink)?.path));
        opened.as_ref().map_err(Clone::clone)
    }

    fn driver(&self) -> Result<&Driver, Errors> {
        let opened = self.driver.get_or_init(|| Driver::open(&self.toolchain.part(Part::Driver)?.path));
        opened.as_ref().map_err(Clone::clone)
    }

    /// Whether ptxas and nvlink make the machine code. Nothing else is looked for.
    pub fn is_toolkit(&self, inputs: &Inputs) -> bool {
        let programs = self.programs(inputs).unwrap_or_default();
        let ptxas = Wish::Only(Backend::Ptxas);
        let can = choose::choose_backend(inputs, programs, None, choose::Driver::Absent, self.options.lto, ptxas);
        self.may(Backend::Ptxas) && can.is_ok()
    }

    fn programs(&self, inputs: &Inputs) -> Result<Programs, Errors> {
        let needs_ptxas = inputs.bitcode || inputs.ptx.is_some();
        let ptxas = if needs_ptxas { self.usable_ptxas()? } else { None };
        Ok(Programs { ptxas, nvlink: inputs.joins && self.toolchain.part(Part::Nvlink).is_ok() })
    }

    /// Every choice made so far, one for each target, highest first.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        choices.sort_by_key(|choice| std::cmp::Reverse(choice.target));
        choices
    }

    /// Chooses the tool for one target and notes why.
    ///
    /// # Errors
    /// No tool that may be used can do it: what each lacks, and what to do.
    pub fn choose(&self, inputs: &Inputs) -> Result<Maker<'_>, Errors> {
        let needs_ptxas = inputs.bitcode || inputs.ptx.is_some();
        let programs = self.programs(inputs)?;
        let lto = self.options.lto;
        let choose = |library, driver| choose::choose_backend(inputs, programs, library, driver, lto, self.wish);
        // What can be done without a library is done without: they are not even looked for.
        let mut library = None;
        let mut chosen = choose(library, choose::Driver::Absent);
        if chosen.is_err() {
            self.refuse_named(Part::Ptxas, Backend::Ptxas, inputs, programs, None)?;
        }
        if chosen.is_err() && self.may(Backend::NvJitLink) {
            library = self.nvjitlink().ok().map(NvJitLink::release);
            chosen = choose(library, choose::Driver::Absent);
        }
        if chosen.is_err() {
            self.refuse_named(Part::NvJitLink, Backend::NvJitLink, inputs, programs, library)?;
        }
        if chosen.is_err() && self.may(Backend::Driver) {
            let release = |driver: &Driver| driver.release().map_or(choose::Driver::Unknown, choose::Driver::Known);
            chosen = choose(library, self.driver().map_or(choose::Driver::Absent, release));
        }
        let backend = chosen.map_err(|why| self.errors(inputs.arch, &why))?;
        let maker = match backend {
            Backend::Ptxas => Maker::Toolkit(self),
            Backend::NvJitLink => Maker::NvJitLink(self, self.nvjitlink()?),
            Backend::Driver => Maker::Driver(self, self.driver()?),
        };
        let reason = choose::reason(inputs, programs, library, lto, self.wish, backend);
        let (path, release) = (maker.path(needs_ptxas), maker.release(needs_ptxas));
        if self.note(Choice { target: inputs.arch, backend, path, release, reason }) {
            self.warn_about_words(backend);
        }
        Ok(maker)
    }

    /// A tool that was named by its own option is used or refused, never stepped over.
    fn refuse_named(
        &self,
        part: Part,
        backend: Backend,
        inputs: &Inputs,
        programs: Programs,
        library: Option<Release>,
    ) -> Result<(), Errors> {
        let Some(path) = self.toolchain.named(part).filter(|_| self.wish == Wish::Auto) else { return Ok(()) };
        choose::refuse_named(backend, inputs, programs, library, self.options.lto).map_err(|why| {
            let shown = format!("{}{}", part.option(), path.display());
            let absent = if backend == Backend::NvJitLink { self.nvjitlink().err() } else { None };
            let why = absent.map_or_else(|| why.to_string(), |errors| errors.to_string());
            Errors::one(format_args!(
                "{shown} cannot link the code for {}: {why}, leave the option out, or choose another tool with --offload-backend=",
                inputs.arch
            ))
        })
    }

    fn may(&self, backend: Backend) -> bool {
        matches!(self.wish, Wish::Auto) || self.wish == Wish::Only(backend)
    }

    /// The release of ptxas. One that is there and does not work is an error: another tool in its place would come as a surprise.
    fn usable_ptxas(&self) -> Result<Option<Release>, Errors> {
        if !self.may(Backend::Ptxas) || self.toolchain.part(Part::Ptxas).is_err() {
            return Ok(None);
        }
        self.ptxas().map(|ptxas| Some(ptxas.release))
    }

    /// Whether it is news.
    fn note(&self, choice: Choice) -> bool {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = choices.iter().all(|known| known.target != choice.target);
        if is_news {
            choices.push(choice);
        }
        is_news
    }

    /// Names the words for ptxas and nvlink that mean nothing to the tool that was chosen.
    fn warn_about_words(&self, backend: Backend) {
        if backend == Backend::Driver {
            cuda_driver::warn_about(self.program, &self.options.ptxas_arguments);
        }
        if backend != Backend::Ptxas {
            for word in &self.options.nvlink_arguments {
                warn(self.program, format_args!("{word} is for nvlink and has no effect on {backend}"));
            }
        }
    }

    /// What is wrong with each tool that may be used; of those that are simply not there, only the ones that would help.
    fn errors(&self, arch: GpuArch, why: &Why) -> Errors {
        let texts = why.0.iter().filter(|(backend, lack)| self.is_news(*backend, *lack, why));
        let texts: Vec<String> = texts
            .map(|(backend, lack)| {
                let absent = match backend {
                    Backend::Ptxas => self.ptxas().err(),
                    Backend::NvJitLink => self.nvjitlink().err(),
                    Backend::Driver => self.driver().err(),
                };
                match absent.filter(|_| *lack == Lack::Absent) {
                    Some(errors) => errors.to_string(),
                    None => format!("{}: {}", lack.text(*backend), lack.advice(*backend)),
                }
            })
            .collect();
        match (self.wish, &texts[..]) {
            (Wish::Auto, [only]) => Errors::one(only),
            (Wish::Auto, _) => {
                Errors::one(format_args!("nothing here can link the code for {arch}: {}", texts.join("; ")))
            }
            (Wish::Only(backend), _) => Errors::one(format_args!(
                "--offload-backend={} cannot link the code for {arch}: {}",
                backend.option(),
                texts.join("; ")
            )),
        }
    }

    fn is_news(&self, backend: Backend, lack: Lack, why: &Why) -> bool {
        let ptxas = why.0.iter().find(|(backend, _)| *backend == Backend::Ptxas).map(|(_, lack)| *lack);
        match (self.wish, backend, lack) {
            (Wish::Auto, Backend::Driver, _) => {
                why.0.iter().all(|(_, lack)| *lack != Lack::Absent) && lack != Lack::Absent
            }
            // The library would help where ptxas is there and cannot do it.
            (Wish::Auto, Backend::NvJitLink, Lack::Absent) => matches!(ptxas, Some(Lack::NoLtoIr | Lack::NoNvlink)),
            _ => true,
        }
    }
}

/// A tool that was chosen for a target.
#[derive(Clone, Copy)]
pub enum Maker<'b> {
    /// ptxas and nvlink.
    Toolkit(&'b Backends<'b>),
    /// libnvJitLink.
    NvJitLink(&'b Backends<'b>, &'b NvJitLink),
    /// The driver.
    Driver(&'b Backends<'b>, &'b Driver),
}

/// A piece of a target's machine code on its way: PTX waits for the one call of a library.
#[derive(Debug, Clone)]
pub struct Piece {
    /// As messages call it: a file of the user's where it came from one.
    pub name: String,
    /// What it is made for.
    pub arch: GpuArch,
    /// Where nvlink finds it.
    pub path: PathBuf,
    /// Its bytes; empty in a dry run.
    pub bytes: Vec<u8>,
    /// What it is.
    pub form: Form,
    /// It still has to go through a linker.
    pub open: bool,
    /// What ptxas said.
    pub said: Vec<String>,
    /// The largest resident size of ptxas, in bytes; 0: not known.
    pub peak: u64,
}

impl Piece {
    /// A cubin that nobody said anything about; `open` if it still has to go through a linker.
    pub fn finished(name: String, arch: GpuArch, path: PathBuf, bytes: Vec<u8>, open: bool) -> Self {
        Piece { name, arch, path, bytes, form: Form::Cubin, open, said: Vec::new(), peak: 0 }
    }
}

/// A file of PTX to be made into a piece.
#[derive(Debug, Clone)]
pub struct Source {
    /// The target.
    pub arch: GpuArch,
    /// The file.
    pub input: PathBuf,
    /// What the PTX carries for debuggers.
    pub debug_info: DebugInfo,
    /// There are other pieces to join it to.
    pub joins: bool,
    /// As messages call it.
    pub name: String,
}

impl<'b> Maker<'b> {
    /// Whether it is ptxas and nvlink.
    pub fn is_toolkit(self) -> bool {
        matches!(self, Maker::Toolkit(_))
    }

    fn backends(self) -> &'b Backends<'b> {
        match self {
            Maker::Toolkit(backends) | Maker::NvJitLink(backends, _) | Maker::Driver(backends, _) => backends,
        }
    }

    /// Of ptxas, or of nvlink where that alone is needed.
    fn path(self, needs_ptxas: bool) -> PathBuf {
        match self {
            Maker::Toolkit(backends) => {
                let part = if needs_ptxas { Part::Ptxas } else { Part::Nvlink };
                backends.toolchain.path(part).unwrap_or_default()
            }
            Maker::NvJitLink(_, library) => library.path().to_owned(),
            Maker::Driver(_, driver) => driver.path().to_owned(),
        }
    }

    fn release(self, needs_ptxas: bool) -> Option<Release> {
        match self {
            Maker::Toolkit(backends) => needs_ptxas.then(|| backends.ptxas().ok().map(|ptxas| ptxas.release))?,
            Maker::NvJitLink(_, library) => Some(library.release()),
            Maker::Driver(_, driver) => driver.release(),
        }
    }

    /// The PTX version to write for `arch`: the newest that LLVM and the tool both speak.
    ///
    /// # Errors
    /// The target is too new for one of them.
    pub fn ptx_version(self, arch: GpuArch) -> Result<PtxVersion, Errors> {
        // A driver that does not say is taken for a new one; its own words will tell.
        let release = self.release(true).unwrap_or((u32::MAX, 0));
        toolkit_ptxas::ptx_version(arch, &self.path(true), release)
    }

    /// Gives PTX the lowest version that its target and code need; see [`ptxas::lower_version`]. `stem` names the files of this job.
    ///
    /// # Errors
    /// The tool takes the PTX with no version, not even its own.
    pub fn lower_version(self, text: Vec<u8>, arch: GpuArch, stem: &str, scratch: &Scratch) -> Result<Vec<u8>, Errors> {
        let own = self.ptx_version(arch)?;
        match self {
            Maker::Toolkit(backends) => {
                let ptxas = &backends.ptxas()?.path;
                ptxas::lower_version(text, arch, own, &|text| ptxas::attempt(ptxas, text, arch, stem, scratch))
            }
            _ => ptxas::lower_version(text, arch, own, &|text| {
                let input = Input { name: "the PTX", form: Form::Ptx, bytes: text };
                let options = LinkOptions { level: 0, debug: false, ptxas_arguments: &[] };
                Ok(self.call_library(arch, &[input], &options).err().map(|errors| errors.to_string()))
            }),
        }
    }

    /// Makes a piece of PTX: ptxas assembles it at once. A library gets all pieces of a target together, so PTX that has others
    /// to be joined to stays PTX.
    ///
    /// # Errors
    /// What the tool says.
    pub fn assemble(self, source: Source, scratch: &Scratch) -> Result<Piece, Errors> {
        let Source { arch, input, debug_info, joins, name } = source;
        let backends = self.backends();
        if let Maker::Toolkit(_) = self {
            let path = input.with_extension("cubin");
            let (ptxas, output) = (&backends.ptxas()?.path, path.clone());
            let assembly = ptxas::Assembly { ptxas, arch, input, output, relocatable: joins, debug_info };
            let ptxas::Cubin { bytes, said, peak } = ptxas::assemble(&assembly, backends.options, backends.mode)?;
            let said = if said.is_empty() { Vec::new() } else { vec![said] };
            return Ok(Piece { said, peak, ..Piece::finished(name, arch, path, bytes, joins) });
        }
        let bytes = std::fs::read(&input)
            .map_err(|error| Errors::one(format_args!("cannot read {}: {error}", input.display())))?;
        let piece = Piece { form: Form::Ptx, ..Piece::finished(name, arch, input, bytes, true) };
        if joins {
            return Ok(piece);
        }
        let bytes = self.link_all(arch, std::slice::from_ref(&piece), scratch)?;
        Ok(Piece { bytes, form: Form::Cubin, open: false, ..piece })
    }

    /// Whether it has nvlink for a piece that stands alone.
    pub fn can_finish(self) -> bool {
        self.is_toolkit() && self.backends().toolchain.part(Part::Nvlink).is_ok()
    }
    /// Links all pieces of a target to one finished cubin, in their order.
    ///
    /// # Errors
    /// What the tool says.
    pub fn link_all(self, arch: GpuArch, pieces: &[Piece], scratch: &Scratch) -> Result<Vec<u8>, Errors> {
        let backends = self.backends();
        if let Maker::Toolkit(_) = self {
            let nvlink = backends.toolchain.part(Part::Nvlink)?.path;
            let files: Vec<PathBuf> = pieces.iter().map(|piece| piece.path.clone()).collect();
            let output = scratch.file(&format!("{arch}.linked.cubin"));
            return nvlink::join(&nvlink, arch, &files, &output, backends.options, backends.mode);
        }
        let inputs = pieces.iter().map(|piece| Input { name: &piece.name, form: piece.form, bytes: &piece.bytes });
        let inputs: Vec<Input<'_>> = inputs.collect();
        let device = backends.options;
        let options =
            LinkOptions { level: device.ptxas_level, debug: device.debug, ptxas_arguments: &device.ptxas_arguments };
        if backends.mode.show {
            messages::show(format_args!(" # {}", self.shown(arch, pieces, &inputs, &options)));
        }
        if backends.mode.dry {
            return Ok(Vec::new());
        }
        let cubin = self.call_library(arch, &inputs, &options)?;
        scratch.keep(&format!("{arch}.linked.cubin"), || cubin.clone())?;
        Ok(cubin)
    }

    fn call_library(self, arch: GpuArch, inputs: &[Input<'_>], options: &LinkOptions<'_>) -> Result<Vec<u8>, Errors> {
        let call = || match self {
            Maker::Toolkit(_) => unreachable!("ptxas is no library"),
            Maker::NvJitLink(_, library) => library.link(arch, inputs, options),
            Maker::Driver(_, driver) => driver.link(arch, inputs, options),
        };
        let activity = format!("{} links the code for {arch}", self.path(true).display());
        llvm_passes::crash::during_other(&activity, call)
    }

    /// The call of a library, as a command would look.
    fn shown(self, arch: GpuArch, pieces: &[Piece], inputs: &[Input<'_>], options: &LinkOptions<'_>) -> String {
        let (library, words) = match self {
            Maker::NvJitLink(_, library) => {
                (library.path(), nvjitlink::arguments(arch, inputs, options, library.release()))
            }
            Maker::Driver(_, driver) => (driver.path(), vec![format!("-arch={arch}")]),
            Maker::Toolkit(_) => (Path::new(""), Vec::new()),
        };
        let names = pieces.iter().map(|piece| piece.path.display().to_string());
        let words = words.into_iter().chain(names).map(|word| crate::sys::process::quoted(word.as_ref()));
        format!(
            "in this process: {} {}",
            crate::sys::process::quoted(library.as_os_str()),
            words.collect::<Vec<_>>().join(" ")
        )
    }
}
