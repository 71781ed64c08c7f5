//! `offload-bundle explain` and `offload-bundle check`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::coverage::{
    self, CheckOptions, CheckReport, Detail, Driver, ExplainReport, FoundBundle, FoundContainer, Gpu, Jit, OfFile,
    Runtime, Severity,
};
use offload_bundle::{CudaRelease, audit, printable};

use crate::error::{Error, Result};
use crate::gate::{self, GateArguments};
use crate::input::{self, search};
use crate::output::CommandOutput;
use crate::reports::Reports;
use crate::sarif;
use crate::words::{Word, one_of};

/// Exit code for a file whose fatbins can be read, but do not run or have errors.
const UNFIT: u8 = 2;

const PTX_JIT: &[Word<Jit>] = &[
    ("allowed", Jit::Allowed, "PTX is compiled where no machine code fits"),
    ("forced", Jit::Forced, "Machine code is ignored"),
    ("disabled", Jit::Disabled, "PTX is not compiled"),
];

#[derive(Args)]
pub struct ExplainArguments {
    /// Fatbins, HIP bundles, and ELF objects, executables or libraries with a section .nv_fatbin, __nv_relfatbin or .hip_fatbin; archives,
    /// folders and packages (.whl, .deb, .conda, .zip, .tar.*) of those
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only this GPU, such as sm_86, H100, gfx90a or gfx90a:xnack+; by default, all from sm_75 to sm_121 and all of AMD's
    #[arg(long)]
    gpu: Option<Gpu>,
    /// The driver's version, such as 580 or 580.159.04; by default, one that is new enough
    #[arg(long)]
    driver: Option<Driver>,
    /// Whether the driver compiles PTX, as with CUDA_FORCE_PTX_JIT=1 (forced) or CUDA_DISABLE_PTX_JIT=1 (disabled)
    #[arg(long, value_parser = one_of(PTX_JIT), default_value = "allowed")]
    ptx_jit: Jit,
    /// Only containers in this section, .nv_fatbin, __nv_relfatbin or .hip_fatbin, each as if the program contained no other
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Also look for fatbins outside of the sections for device code, among the data of a program or library (as in libcufft)
    #[arg(long)]
    scan: bool,
    /// Print the outcome alone: `sass 90a`, `ptx 80`, `link ptx 80`, `code gfx90a`, `spirv amdgcnspirv`, `no-binary`
    #[arg(long, requires = "gpu", conflicts_with = "json")]
    brief: bool,
    /// A table for each container, also where they are equal or many
    #[arg(long, conflicts_with_all = ["json", "brief"])]
    full: bool,
    /// Print a JSON object instead of tables; for several files an array of them, with the key `file`
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct CheckArguments {
    /// Fatbins, HIP bundles, and ELF objects, executables or libraries with a section .nv_fatbin, __nv_relfatbin or .hip_fatbin; archives,
    /// folders and packages (.whl, .deb, .conda, .zip, .tar.*) of those
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The oldest driver that must be able to load it, such as 580; by default, one that is new enough. With --gpus, all drivers that must run it
    #[arg(long, value_name = "DRIVER,...", value_delimiter = ',')]
    driver: Vec<Driver>,
    #[command(flatten)]
    gate: GateArguments,
    /// The CUDA toolkit that the file should come from, such as 12.9; by default, that of its oldest machine code
    #[arg(long)]
    toolkit: Option<CudaRelease>,
    /// Also look for fatbins outside of the sections for device code, among the data of a program or library (as in libcufft)
    #[arg(long)]
    scan: bool,
    /// Also write the findings to a file, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// The findings of each fatbin, also where they are equal or many
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print a JSON object instead of text; for several files an array of them, with the key `file`
    #[arg(long)]
    json: bool,
}

pub fn explain(arguments: &ExplainArguments) -> Result<CommandOutput> {
    let explained =
        Reports::of_each(&arguments.files, input::parts(arguments.scan), "no fatbin and no HIP bundle", |content| {
            let search = search(arguments.scan);
            let (fatbins, bundles, lost) = input::parse(content, search, |data, read_thin| {
                Ok((
                    coverage::containers(data, &mut *read_thin, search)?,
                    coverage::hip_bundles(data, read_thin)?,
                    audit::lost_containers(data).into_iter().next(),
                ))
            })?;
            if let Some(lost) = lost {
                return Err(Error::Lost { file: content.name.clone().into(), lost });
            }
            explain_one(arguments, &fatbins, &bundles, &content.name, content.is_named)
        })?;
    let runs = explained.reports.iter().all(|of| of.report.runs());
    let text = match (arguments.json, arguments.brief) {
        (true, _) => explained.json()?,
        (_, true) => explained.reports.iter().map(|of| brief(of, explained.are_several)).collect(),
        _ => match explained.one() {
            Some(report) => report.text(detail(arguments.full)),
            None => coverage::explain_text(&explained.reports, detail(arguments.full)),
        },
    };
    Ok(CommandOutput { text, exit_code: if runs { 0 } else { UNFIT }, errors: explained.errors })
}

/// The report on one file; `None` if it has no containers and need not have any.
fn explain_one(
    arguments: &ExplainArguments,
    fatbins: &[FoundContainer],
    bundles: &[FoundBundle],
    file: &str,
    is_named: bool,
) -> Result<Option<ExplainReport>> {
    if fatbins.is_empty() && bundles.is_empty() {
        return if is_named { Err(Error::NoContainer { file: file.into() }) } else { Ok(None) };
    }
    // A GPU loads the containers of its vendor.
    let (nvidia, amd) = match &arguments.gpu {
        None => (Some(None), Some(None)),
        Some(Gpu::Nvidia(gpu)) => (Some(Some(*gpu)), None),
        Some(Gpu::Amd(gpu)) => (None, Some(Some(gpu))),
    };
    let runtime = Runtime { driver: arguments.driver.unwrap_or_default(), jit: arguments.ptx_jit };
    let fatbins = if nvidia.is_some() { fatbins } else { &[] };
    let bundles = if amd.is_some() { bundles } else { &[] };
    let report = ExplainReport::of_sections(fatbins, nvidia.flatten(), runtime, &arguments.section);
    let report = report.with_bundles(bundles, amd.flatten(), &arguments.section);
    if !report.containers.is_empty() {
        return Ok(Some(report));
    }
    match (is_named, arguments.section.is_empty()) {
        (false, _) => Ok(None),
        (true, false) => Err(Error::NoFatbinInSection { file: file.into(), sections: arguments.section.clone() }),
        (true, true) => {
            Err(Error::NoContainerFor { file: file.into(), vendor: if amd.is_some() { "AMD" } else { "NVIDIA" } })
        }
    }
}

/// The outcomes in one file; of several, each line begins with the file's name.
fn brief(of: &OfFile<ExplainReport>, are_several: bool) -> String {
    let text = of.report.brief();
    match are_several {
        true => text.lines().map(|line| format!("{}: {line}\n", printable::name(&of.file))).collect(),
        false => text,
    }
}

fn detail(is_full: bool) -> Detail {
    if is_full { Detail::Full } else { Detail::Grouped }
}

pub fn check(arguments: &CheckArguments) -> Result<CommandOutput> {
    let CheckArguments { files, driver: drivers, scan, full, json, sarif, .. } = arguments;
    if arguments.gate.are_given() {
        return gate::run(
            &arguments.gate,
            &gate::Inputs { files, drivers, sarif: sarif.as_deref(), scan: *scan, full: *full, json: *json },
        );
    }
    if drivers.len() > 1 || arguments.gate.lack_gpus() {
        return Err(Error::NoGpus);
    }
    let driver = drivers.first().copied().unwrap_or_default();
    let options = CheckOptions { driver, toolkit: arguments.toolkit, ..CheckOptions::default() };
    let checked =
        Reports::of_each(&arguments.files, input::parts(arguments.scan), "no fatbin and no HIP bundle", |content| {
            let search = search(arguments.scan);
            let (containers, bundles, of_host) = input::parse(content, search, |data, read_thin| {
                let containers = coverage::compared_containers(data, &mut *read_thin, search)?;
                let bundles = coverage::hip_bundles(data, &mut *read_thin)?;
                let mut of_host = coverage::check_host_code(data, read_thin)?;
                of_host.extend(coverage::shared_kernels(data, &containers, &options));
                of_host.extend(coverage::uneven_targets(&containers, &options));
                Ok((containers, bundles, of_host))
            })?;
            // OpenMP's programs have neither, but what they register was looked for in their images.
            let is_checked = || coverage::registers_device_code(content.data);
            if containers.is_empty() && bundles.is_empty() && of_host.is_empty() && !is_checked() {
                return match content.is_named {
                    true => Err(Error::NoContainer { file: content.name.clone().into() }),
                    false => Ok(None),
                };
            }
            let report = CheckReport::new(&containers, &options).with_bundles(&bundles);
            Ok(Some(report.with_findings(of_host)))
        })?;
    if let Some(path) = sarif {
        let unreadable: Vec<String> = checked.errors.iter().map(ToString::to_string).collect();
        sarif::write_check(path, &checked.reports, &unreadable, files)?;
    }
    let is_unfit = checked.reports.iter().any(|of| of.report.worst() == Some(Severity::Error));
    let text = match checked.one() {
        _ if arguments.json => checked.json()?,
        Some(report) => report.text(detail(arguments.full)),
        None => coverage::check_text(&checked.reports, detail(arguments.full)),
    };
    Ok(CommandOutput { text, exit_code: if is_unfit { UNFIT } else { 0 }, errors: checked.errors })
}
