//! Assembles PTX with ptxas.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;
use offload_bundle::ptx::DebugInfo;
use serde::{Deserialize, Serialize};

use crate::cli::device_options::DeviceOptions;
use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::device_object::{DeviceObject, PtxSource};
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::ptx_backend::Attempted;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;
use crate::sys::written_path;

/// ptxas with the options of a link. A value, so that a worker process can run it, too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assembler {
    /// The program.
    #[serde(with = "written_path")]
    program: PathBuf,
    /// The loader that runs it, with its options; none for the one that the program names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loader: Option<(PathBuf, Vec<OsString>)>,
    /// `-O`.
    level: u8,
    /// Whether unoptimized code is debuggable.
    debug: bool,
    /// The user's arguments.
    arguments: Vec<String>,
    mode: Mode,
}

/// Whether ptxas assembles all kernels with these arguments.
pub fn keeps_kernels(arguments: &[String]) -> bool {
    let name = |word: &str| word.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
    !arguments.iter().any(|word| word.starts_with('-') && ["e", "entry"].contains(&name(word).as_str()))
}

impl Assembler {
    /// A ptxas with these options.
    pub fn new(program: &Path, options: &DeviceOptions, mode: Mode) -> Self {
        let (level, debug, arguments) = (options.ptxas_level, options.debug, options.ptxas_arguments.clone());
        Assembler { program: program.to_owned(), loader: None, level, debug, arguments, mode }
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether ptxas assembles all kernels: the user may name those that it does.
    pub fn keeps_kernels(&self) -> bool {
        keeps_kernels(&self.arguments)
    }

    /// The same with the program at another place. Commands are not shown there.
    #[must_use]
    pub fn at(&self, program: PathBuf) -> Self {
        Assembler { program, mode: Mode { show: false, ..self.mode }, ..self.clone() }
    }

    /// The same, run by this loader with the shared libraries of a folder.
    #[must_use]
    pub fn with_loader(self, loader: PathBuf, libraries: &Path) -> Self {
        Assembler { loader: Some((loader, vec!["--library-path".into(), libraries.into()])), ..self }
    }

    /// Runs ptxas to its end.
    fn run(&self, arguments: Vec<OsString>) -> Result<process::Finished, Error> {
        let Some((loader, options)) = &self.loader else { return self.start(&self.program, &arguments) };
        let words = options.iter().cloned().chain([self.program.clone().into()]).chain(arguments);
        self.start(loader, &words.collect::<Vec<_>>())
    }

    fn start(&self, program: &Path, arguments: &[OsString]) -> Result<process::Finished, Error> {
        let started = process::capture(program, arguments);
        started.map_err(|source| Error::Start { program: self.program.clone(), source })
    }

    /// The file of the object that is made of this PTX.
    pub fn output(ptx: &Path) -> PathBuf {
        ptx.with_extension("cubin")
    }

    /// Runs ptxas on a file of PTX. The object's content stays in its file. `show` gets the command, if commands are shown.
    ///
    /// # Errors
    /// ptxas cannot be started or fails; the error contains its messages.
    pub fn assemble(&self, source: PtxSource, show: &dyn Fn(String)) -> Result<DeviceObject, Errors> {
        let output = Self::output(&source.input);
        let arguments = self.arguments(&source, &output);
        if self.mode.show {
            show(process::command_line(&self.program, &arguments));
        }
        let PtxSource { arch, relocatable, name, .. } = source;
        let object = DeviceObject::cubin(name, arch, output, Vec::new(), relocatable);
        if self.mode.dry {
            return Ok(object);
        }
        let program = || self.program.clone();
        let ended = self.run(arguments)?;
        let output = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        if !ended.status.success() {
            return Err(Error::Ptxas { program: program(), arch, status: ended.status, output }.into());
        }
        let diagnostics = if output.is_empty() { Vec::new() } else { vec![output] };
        Ok(DeviceObject { diagnostics, peak: ended.peak_bytes, ..object })
    }

    /// Reads the content of an object that [`Assembler::assemble`] has made, in this process or in another one.
    ///
    /// # Errors
    /// ptxas has left no file.
    pub fn read(&self, object: DeviceObject) -> Result<DeviceObject, Errors> {
        if self.mode.dry {
            return Ok(object);
        }
        let bytes = std::fs::read(&object.path);
        let bytes =
            bytes.map_err(|source| Error::NoCubin { program: self.program.clone(), arch: object.arch, source })?;
        Ok(DeviceObject { bytes, ..object })
    }

    /// Runs ptxas on PTX to see whether it accepts it. `file` is written for that.
    ///
    /// # Errors
    /// ptxas cannot be started.
    pub fn attempt(&self, ptx: &[u8], arch: GpuArch, file: &Path) -> Attempted {
        temp_files::write_file(file, ptx)?;
        // Without optimization: only the parser matters here.
        let mut words: Vec<OsString> = ["-m64", "-O0", "-arch"].map(OsString::from).to_vec();
        words.extend([arch.to_string().into(), file.into(), "-o".into(), "/dev/null".into()]);
        let output = self.run(words)?;
        Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn arguments(&self, source: &PtxSource, output: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["-m64".into()];
        if source.debug_info == DebugInfo::Full || (self.debug && self.level == 0) {
            words.extend(["-g".into(), "-O0".into()]);
        } else {
            words.push(format!("-O{}", self.level).into());
            if source.debug_info == DebugInfo::Lines {
                words.push("-lineinfo".into());
            }
        }
        words.extend(["-arch".into(), source.arch.to_string().into()]);
        if source.relocatable {
            words.push("-c".into());
        }
        words.extend(self.arguments.iter().map(OsString::from));
        words.extend([source.input.clone().into(), "-o".into(), output.into()]);
        words
    }
}
