//! The story of a link, as a list of phases.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use offload_bundle::fatbin::{self, FatbinWriter};
use rayon::prelude::*;

use crate::command::Mode;
use crate::device_compiler::{self, DeviceOptions};
use crate::device_link::{self, LinkedTarget, Surroundings};
use crate::error::{Errors, collect, warn};
use crate::inputs::Inputs;
use crate::options::{self, Options};
use crate::persona;
use crate::plan::{self, TargetPlan};
use crate::scratch::{self, Scratch};
use crate::toolchain::{Ptxas, Toolkit};
use crate::{arguments, host_link, host_object, images, relocatable, select};

/// Host triple when `--host-triple` is not given: the one this program is built for.
const HOST_TRIPLE: &str = "x86_64-pc-linux-gnu";

/// Does what the command line asks; the exit code comes back.
///
/// # Errors
/// Everything that was found wrong.
pub fn run(words: &[OsString]) -> Result<u8, Errors> {
    let persona = persona::of(words);
    let line = arguments::expand(words.get(1..).unwrap_or_default())?;
    let options = options::parse(&line, persona)?;
    let program = persona::program_name(words);
    if let Some(answer) = answer(&options, &program) {
        print!("{answer}");
        return Ok(0);
    }
    let mode = Mode { show: options.verbose || options.dry_run, dry: options.dry_run };
    let device = device_compiler::read(&options);
    let mode = Mode { show: mode.show || device.verbose, ..mode };
    ask_llvm(&program, &device);

    let inputs = Inputs::open(&options)?;
    let handled = options.linker_query || inputs.already_registered();
    let images = if handled { Vec::new() } else { images::find(&inputs)? };
    if images.is_empty() && !options.emit_fatbin_only {
        return host_link::become_linker(&host_link::find(&options)?, &options.host_line, mode);
    }
    let selection = select::select(&inputs, &images, &options.roots)?;
    let linked: Vec<_> = images.into_iter().filter(|found| selection.device[found.piece]).collect();
    let targets = plan::make(&linked)?;
    reject_unsupported(&options)?;
    device.unknown.iter().for_each(|word| warn(&program, format_args!("{word} has no effect on this device link")));

    set_jobs(&options);
    llvm_passes::on_fatal_error(give_up);
    let output = options.output.as_deref().unwrap_or(Path::new("a.out"));
    let scratch = Scratch::new(options.save_temps.then_some(output))?;
    let registered = images::registered_names(&inputs, &selection.host)?;
    let link = Link { options: &options, device: &device, output, scratch: &scratch, mode };
    if options.emit_fatbin_only {
        return link.emit_fatbin(&link.targets(&targets, &registered)?);
    }
    let linker = host_link::find(&options)?;
    let (linked, template) =
        rayon::join(|| link.targets(&targets, &registered), || link.registration_template());
    let object = scratch.file("registration.o");
    let linked = linked?;
    let fatbin = link.bundle(&linked)?;
    scratch.keep("fatbin", || bytes_of(&fatbin))?;
    template?.write(&object, &fatbin)?;
    link.host(&linker, object)
}

/// `--help` and `--version` under the wrapper's name.
fn answer(options: &Options, program: &str) -> Option<String> {
    let version = || {
        format!("{program} version {} (fatlink, LLVM {})\n", env!("CARGO_PKG_VERSION"), llvm_passes::bitcode::our_version())
    };
    options.help.clone().or_else(|| options.version.then(version))
}

/// LLVM's own options; `-mllvm --help` is answered, and an unknown one refused, by LLVM itself.
fn ask_llvm(program: &str, device: &DeviceOptions) {
    if !device.llvm_options.is_empty() {
        llvm_passes::initialize();
        llvm_passes::parse_llvm_options(program, &device.llvm_options);
    }
}

/// What this version cannot do is said before any work is done.
fn reject_unsupported(options: &Options) -> Result<(), Errors> {
    let mut errors = Errors::default();
    if options.embed_bitcode {
        errors.push("--embed-bitcode keeps bitcode for OpenMP's own compiler at run time; CUDA has none: leave it out");
    }
    errors.or(())
}

fn set_jobs(options: &Options) {
    if let Some(jobs) = options.jobs {
        // Fails only if a pool exists already, and none does.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(jobs).build_global();
    }
}

/// LLVM cannot go on ("Cannot select", say): say so, leave nothing behind.
fn give_up(reason: &str) {
    Errors::one(format_args!("LLVM cannot compile this device code: {reason}")).print("fatlink");
    scratch::clean_up();
    std::process::exit(1);
}

fn bytes_of(fatbin: &FatbinWriter<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    fatbin.write_to(&mut bytes).expect("memory takes every write");
    bytes
}

/// A link under way.
struct Link<'a> {
    options: &'a Options,
    device: &'a DeviceOptions,
    output: &'a Path,
    scratch: &'a Scratch,
    mode: Mode,
}

impl Link<'_> {
    /// All device links, in parallel; their order is the plan's.
    fn targets(
        &self,
        targets: &[TargetPlan<'_>],
        registered: &std::collections::HashSet<String>,
    ) -> Result<Vec<LinkedTarget>, Errors> {
        let cuda_path = self.options.cuda_path.as_deref().or(self.device.cuda_path.as_deref());
        let toolkit = Toolkit::find(cuda_path);
        let probed = OnceLock::new();
        let probe = || probed.get_or_init(|| toolkit.as_ref().map_err(Clone::clone)?.probe_ptxas()).clone();
        std::thread::scope(|scope| {
            // ptxas needs 2 ms to say its version: ask while LLVM reads and optimizes.
            scope.spawn(probe);
            let around = Surroundings {
                toolkit: &toolkit,
                ptxas: &probe as &(dyn Fn() -> Result<Ptxas, Errors> + Sync),
                scratch: self.scratch,
                options: self.device,
                mode: self.mode,
                registered,
            };
            let linked: Vec<_> = targets.par_iter().map(|target| device_link::link(target, &around)).collect();
            collect(linked)
        })
    }

    fn registration_template(&self) -> Result<host_object::Template, Errors> {
        let triple = self.options.host_triple.as_deref().unwrap_or(HOST_TRIPLE);
        let show = |text: &str| eprint!("{text}");
        host_object::template(triple, self.options.print_wrapped_module.then_some(&show as &dyn Fn(&str)))
    }

    /// The fatbin over all targets.
    fn bundle<'l>(&self, linked: &'l [LinkedTarget]) -> Result<FatbinWriter<'l>, Errors> {
        let mut writer = FatbinWriter::new(fatbin::Options { debug: self.device.debug, ..fatbin::Options::default() });
        for target in linked.iter().filter(|target| !target.cubin.is_empty()) {
            writer.add_cubin(target.arch, &target.cubin, "").map_err(|error| {
                Errors::one(format_args!("the cubin linked for {} is damaged: {error}", target.arch))
            })?;
        }
        Ok(writer)
    }

    /// The host link, with the registration object in it. A relocatable link (`-r`) is a final device
    /// link: what it makes must link with other such objects and without any wrapper.
    fn host(&self, linker: &Path, object: PathBuf) -> Result<u8, Errors> {
        let output = self.output;
        if !self.options.relocatable {
            return host_link::run(linker, &host_link::line_with(self.options, &[object], None), output, self.mode);
        }
        let raw = self.scratch.file("relocatable.o");
        let code = host_link::run(linker, &host_link::line_with(self.options, &[object], Some(&raw)), &raw, self.mode)?;
        if code == 0 && !self.mode.dry {
            relocatable::seal(&raw, output)?;
        }
        Ok(code)
    }

    /// `--emit-fatbin-only`.
    fn emit_fatbin(&self, linked: &[LinkedTarget]) -> Result<u8, Errors> {
        if !self.mode.dry {
            scratch::write_output(self.output, &self.bundle(linked)?.finish())?;
        }
        Ok(0)
    }
}
