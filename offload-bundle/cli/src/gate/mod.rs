//! `offload-bundle check --gpus`: whether files run on all of some GPUs, before they ship.

mod assemble;
mod cache;
mod claims;
mod load;
pub mod promise;
mod variants;

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::coverage::gate::{FileCode, FileGate, GateReport, JitRule, KernelRule, Requirement};
use offload_bundle::coverage::{Driver, GpuWord, Gpus};

use assemble::Assemblers;
use load::ThisMachine;

use crate::error::{Error, Result};
use crate::files;
use crate::input::{self, search};
use crate::output::{self, CommandOutput};
use crate::reports::Reports;
use crate::sarif;
use crate::words::{Word, one_of};

/// Exit code for files that do not run as required, or are not what is claimed.
const UNFIT: u8 = 2;

/// What writes the report.
const PRODUCER: &str = concat!("offload-bundle ", env!("CARGO_PKG_VERSION"));

const KERNELS: &[Word<KernelRule>] = &[
    ("all", KernelRule::All, "Every kernel has to run"),
    ("any", KernelRule::Any, "The library itself chooses kernels for the GPU, so that one of them is enough"),
];

#[derive(Args)]
pub struct GateArguments {
    /// Require that everything runs on each of these GPUs, with each --driver: sm_75..sm_121, rtx4090, gfx90a, gfx11-generic, or
    /// all-supported for NVIDIA's that the newest CUDA supports
    #[arg(long, value_name = "GPU,...", value_delimiter = ',')]
    gpus: Vec<GpuWord>,
    /// With --gpus: PTX that the driver would compile is not enough
    #[arg(long)]
    no_jit: bool,
    /// With --gpus: which kernels of a file have to run
    #[arg(long, value_parser = one_of(KERNELS), default_value = "all")]
    kernels: KernelRule,
    /// A TOML file that says where the files run and what they contain: gpus, drivers, no-jit, cuda, machine-code, ptx, [[kernels]]
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// With --gpus: run ptxas on all PTX that a driver would compile, that of the toolkit at hand and each --ptxas. The results are kept in
    /// fatlink's cache (FATLINK_CACHE)
    #[arg(long)]
    assemble: bool,
    /// With --assemble: another ptxas, for PTX or GPUs that are too new for that at hand
    #[arg(long, value_name = "PATH", requires = "assemble")]
    ptxas: Vec<PathBuf>,
    /// With --gpus: load every module on this machine's GPU by its driver, lazily and eagerly, and launch nothing
    #[arg(long)]
    load: bool,
    /// With --gpus: also draw the matrix as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl GateArguments {
    /// Whether one of them is given.
    pub fn are_given(&self) -> bool {
        !self.gpus.is_empty() || self.claims.is_some()
    }

    /// Whether an option is given that means nothing without GPUs.
    pub fn lack_gpus(&self) -> bool {
        !self.are_given()
            && (self.no_jit || self.assemble || self.load || self.html.is_some() || self.kernels != KernelRule::All)
    }

    /// What is required, by the options and by the file with claims.
    fn requirement(&self, drivers: &[Driver], claimed: Requirement) -> Result<Requirement> {
        let gpus = Gpus::of_words(&self.gpus);
        let (gpus, named) = match gpus.is_empty() {
            true => (claimed.gpus, claimed.named),
            false => (gpus, GpuWord::named(&self.gpus)),
        };
        let requirement = Requirement {
            gpus,
            named,
            drivers: if drivers.is_empty() { claimed.drivers } else { drivers.to_vec() },
            jit: if self.no_jit { JitRule::Forbidden } else { claimed.jit },
            kernels: self.kernels,
            exceptions: claimed.exceptions,
        };
        match requirement.gpus.is_empty() {
            true => Err(Error::NoGpus),
            false => Ok(requirement),
        }
    }
}

/// What the command line says besides.
pub struct Inputs<'a> {
    pub files: &'a [PathBuf],
    pub drivers: &'a [Driver],
    pub sarif: Option<&'a Path>,
    pub scan: bool,
    pub full: bool,
    pub json: bool,
}

pub fn run(arguments: &GateArguments, inputs: &Inputs<'_>) -> Result<CommandOutput> {
    let (claimed, mut claims) = claims::of_file(arguments.claims.as_deref())?;
    claims.extend(claims::of_wheels(inputs.files)?);
    let requirement = arguments.requirement(inputs.drivers, claimed)?;
    let assemblers = arguments.assemble.then(|| Assemblers::find(&arguments.ptxas)).transpose()?;
    let machine = arguments.load.then(|| ThisMachine::find(&requirement)).transpose()?;
    let mut unlinked = 0;
    let judged = Reports::of_each(
        inputs.files,
        input::parts(inputs.scan),
        "no fatbin and no HIP bundle that a process loads",
        |content| {
            let search = search(inputs.scan);
            let code = input::parse(content, search, |data, read_thin| FileCode::read(data, read_thin, search))?;
            match (code.is_empty(), content.is_named) {
                (true, true) => return Err(Error::NoContainer { file: content.name.clone().into() }),
                (true, false) => return Ok(None),
                (false, false) if code.is_unlinked() => {
                    unlinked += 1;
                    return Ok(None);
                }
                _ => {}
            }
            let mut gate = FileGate::new(&code, &requirement);
            if let Some(assemblers) = &assemblers {
                let said = assemblers.assemble(&code, &gate, content.data)?;
                gate = gate.with_assembly(&said, &requirement);
            }
            if let Some(machine) = &machine {
                gate = machine.run(&code, gate, content.data, &requirement)?;
            }
            Ok(Some(gate))
        },
    )?;
    let report = GateReport::new(judged.reports, &requirement, &claims, unlinked);
    let report = report.with_assemblers(assemblers.map(|assemblers| assemblers.names()).unwrap_or_default());
    let report = report.with_unreadable(judged.errors.iter().map(ToString::to_string).collect());
    if let Some(path) = inputs.sarif {
        sarif::write_gate(path, &report, inputs.files)?;
    }
    if let Some(path) = &arguments.html {
        let page = html_report::gate_page::page(&report, &title(inputs.files), PRODUCER);
        files::write(path, page.html()?.as_bytes())?;
    }
    let text = if inputs.json { output::json(&report)? } else { report.text(inputs.full) };
    Ok(CommandOutput { text, exit_code: if report.passes { 0 } else { UNFIT }, errors: judged.errors })
}

/// The names of the files, without their folders.
fn title(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match files {
        [] => String::new(),
        [one] => name(one),
        [one, other] => format!("{} and {}", name(one), name(other)),
        [one, others @ ..] => format!("{} and {} others", name(one), others.len()),
    }
}
