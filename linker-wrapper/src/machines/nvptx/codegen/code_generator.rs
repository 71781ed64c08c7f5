//! Runs the backend that was chosen for a target.

use std::path::Path;

use offload_bundle::arch::{CudaRelease, GpuArch, PtxVersion};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::Backend;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::codegen::cubins::CubinLink;
use crate::machines::nvptx::codegen::cuda_driver;
use crate::machines::nvptx::codegen::decisions::Decisions;
use crate::machines::nvptx::codegen::device_object::{DeviceObject, Form, PtxSource};
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::library_link::{LinkInput, LinkOptions};
use crate::machines::nvptx::codegen::nvlink_inputs::Unreferenced;
use crate::machines::nvptx::codegen::ptx_backend::{Attempted, PtxBackend};
use crate::machines::nvptx::codegen::ptxas::Assembler;
use crate::machines::nvptx::codegen::{nvjitlink, nvlink, nvlink_inputs, symbol_messages};
use crate::plan::link_context::Request;
use crate::sys::process::{Mode, quoted};
use crate::sys::temp_files::TempFiles;
use crate::toolchain::libraries::{CudaDriver, NvJitLink};
use crate::toolchain::ptxas::{self, Ptxas};
use crate::toolchain::tools::Tools;

/// Generates code with the backend that was chosen for a target.
#[derive(Clone, Copy)]
pub struct Codegen<'b> {
    linker: Linker<'b>,
    tools: &'b Tools,
    options: &'b DeviceOptions,
    mode: Mode,
    temp_files: &'b TempFiles,
    /// fatlink's linker, if it links cubins.
    cubins: Option<CubinLink<'b>>,
}

/// What links device objects.
#[derive(Clone, Copy)]
enum Linker<'b> {
    /// fatlink or nvlink, after ptxas has assembled each file of PTX.
    Toolkit,
    /// A library in this process, which compiles PTX and links in one call.
    Library(Library<'b>),
}

/// A library that links.
#[derive(Clone, Copy)]
enum Library<'b> {
    NvJitLink(&'b NvJitLink),
    Driver(&'b CudaDriver),
}

impl<'b> Codegen<'b> {
    /// Loads the library of the backend if it is one.
    ///
    /// # Errors
    /// The library cannot be loaded.
    pub fn new(
        decision: &BackendDecision,
        tools: &'b Tools,
        request: Request<'b>,
        temp_files: &'b TempFiles,
        decisions: &'b Decisions,
    ) -> Result<Self, Errors> {
        let linker = match decision.backend {
            Backend::Ptxas => Linker::Toolkit,
            Backend::NvJitLink => Linker::Library(Library::NvJitLink(tools.nvjitlink()?)),
            Backend::Driver => Linker::Library(Library::Driver(tools.driver()?)),
        };
        let cubins = CubinLink::of(decision, request, decisions);
        Ok(Codegen { linker, tools, options: request.device, mode: request.mode, temp_files, cubins })
    }

    /// Whether this is ptxas with nvlink.
    pub fn is_toolkit(self) -> bool {
        matches!(self.linker, Linker::Toolkit)
    }

    /// The PTX version to emit for `arch`: the newest that both LLVM and the tool know.
    ///
    /// # Errors
    /// The target is too new for one of them.
    pub fn ptx_version(self, arch: GpuArch) -> Result<PtxVersion, Errors> {
        let (path, release) = match self.linker {
            Linker::Toolkit => {
                let Ptxas { path, release, .. } = self.tools.ptxas()?;
                (path.as_path(), Some(*release))
            }
            Linker::Library(library) => (library.path(), library.release()),
        };
        // A driver that reports no release is assumed to be new; if it is not, its own error message will tell.
        let release = release.unwrap_or(CudaRelease { major: u32::MAX, minor: 0 });
        ptxas::ptx_version(arch, path, release)
    }

    /// Returns ptxas as a value, or `None` if a library generates the code.
    ///
    /// # Errors
    /// ptxas was not found.
    pub fn assembler(self) -> Result<Option<Assembler>, Errors> {
        self.is_toolkit().then(|| self.ptxas()).transpose()
    }

    fn ptxas(self) -> Result<Assembler, Errors> {
        Ok(Assembler::new(&self.tools.ptxas()?.path, self.options, self.mode))
    }

    /// Whether a linker is there to finish a relocatable cubin that needs no other.
    pub fn can_finish(self) -> bool {
        self.is_toolkit() && (self.cubins.is_some_and(|cubins| cubins.is_selected) || self.tools.nvlink().is_ok())
    }

    /// Links all objects of a target, in order, to one finished cubin. `device_runtime` is NVIDIA's library, which LTO-IR
    /// is linked with.
    ///
    /// # Errors
    /// The linker rejects the objects or cannot be started.
    pub fn link_all(
        self,
        arch: GpuArch,
        objects: &[DeviceObject],
        kernels: Option<&[&str]>,
        device_runtime: Option<&Path>,
    ) -> Result<nvlink::Linked, Errors> {
        let library = match self.linker {
            Linker::Toolkit => {
                let output = self.temp_files.file(&format!("{arch}.linked.cubin"));
                if let Some(cubin) = self.cubins.map_or(Ok(None), |cubins| cubins.link(arch, objects))? {
                    self.temp_files.keep(&format!("{arch}.linked.cubin"), || cubin.clone())?;
                    return Ok(cubin.into());
                }
                return self.run_nvlink(arch, objects, kernels, device_runtime, nvlink::Product::Cubin, &output);
            }
            Linker::Library(library) => library,
        };
        let inputs =
            objects.iter().map(|object| LinkInput { name: &object.name, form: object.form, bytes: &object.bytes });
        let inputs: Vec<LinkInput<'_>> = inputs.collect();
        let DeviceOptions { ptxas_level: level, debug, ptxas_arguments, .. } = self.options;
        let is_lto = inputs.iter().any(|input| input.form == Form::LtoIr);
        let device_runtime = device_runtime.filter(|_| is_lto);
        let options = LinkOptions { level: *level, debug: *debug, ptxas_arguments, device_runtime };
        if self.mode.show {
            messages::show(format_args!(" # {}", library.shown(arch, objects, &inputs, &options)));
        }
        if self.mode.dry {
            return Ok(nvlink::Linked::default());
        }
        let explain = |log: &str| symbol_messages::errors(log, &arch, objects);
        let cubin = library.link(arch, &inputs, &options, &explain)?;
        self.temp_files.keep(&format!("{arch}.linked.cubin"), || cubin.clone())?;
        Ok(cubin.into())
    }

    /// Links LTO-IR to PTX.
    ///
    /// # Errors
    /// As [`Codegen::link_all`]. Only nvlink links to PTX.
    pub fn link_ptx(
        self,
        arch: GpuArch,
        objects: &[DeviceObject],
        device_runtime: Option<&Path>,
    ) -> Result<nvlink::Linked, Errors> {
        match self.linker {
            Linker::Toolkit => {
                let output = self.temp_files.file(&format!("{}.linked.ptx", arch.virtual_name()));
                self.run_nvlink(arch, objects, None, device_runtime, nvlink::Product::Ptx, &output)
            }
            Linker::Library(_) => Err(Error::PtxOfLtoIr { arch }.into()),
        }
    }

    fn run_nvlink(
        self,
        arch: GpuArch,
        objects: &[DeviceObject],
        kernels: Option<&[&str]>,
        device_runtime: Option<&Path>,
        result: nvlink::Product,
        output: &Path,
    ) -> Result<nvlink::Linked, Errors> {
        let nvlink = self.tools.nvlink()?;
        let is_lto = objects.iter().any(|object| object.form == Form::LtoIr);
        let lto =
            is_lto.then(|| Ok::<_, Errors>(nvlink::Lto { nvvm: self.tools.nvvm()?, device_runtime })).transpose()?;
        let run = |unreferenced: Unreferenced| {
            let inputs = &nvlink_inputs::files(objects, unreferenced, self.temp_files, self.mode.dry)?;
            let lto = lto.clone();
            let kernels = kernels.filter(|_| unreferenced == Unreferenced::Removed);
            let link = nvlink::Link { nvlink: &nvlink, arch, inputs, objects, kernels, output, lto, product: result };
            nvlink::link(&link, self.options, self.mode)
        };
        let linked = run(Unreferenced::Removed).or_else(|failure| match failure {
            nvlink::Failure::Removal(_) => {
                if self.mode.show {
                    messages::show(format_args!(" # {arch}: nvlink cannot remove unused constants: all code is kept"));
                }
                run(Unreferenced::Kept)
            }
            other @ nvlink::Failure::Other(_) => Err(other),
        });
        linked.map_err(nvlink::Failure::into_errors)
    }
}

impl PtxBackend for Codegen<'_> {
    /// ptxas assembles the PTX now. A library compiles all PTX of a target when it links, so PTX that will be linked with other
    /// objects stays PTX.
    fn assemble(&self, source: PtxSource) -> Result<DeviceObject, Errors> {
        if self.is_toolkit() {
            let ptxas = self.ptxas()?;
            return ptxas.read(ptxas.assemble(source, &|command| messages::show(command))?);
        }
        let PtxSource { arch, input, relocatable, name, .. } = source;
        let bytes = std::fs::read(&input).map_err(|source| Error::Read { file: input.clone(), source })?;
        let ptx = DeviceObject { form: Form::Ptx, ..DeviceObject::cubin(name, arch, input, bytes, true) };
        if relocatable {
            return Ok(ptx);
        }
        let nvlink::Linked { bytes, diagnostics } = self.link_all(arch, std::slice::from_ref(&ptx), None, None)?;
        Ok(DeviceObject { bytes, diagnostics, form: Form::Cubin, unlinked: false, ..ptx })
    }

    fn attempt(&self, ptx: &[u8], arch: GpuArch, file: &Path) -> Attempted {
        match self.linker {
            Linker::Toolkit => self.ptxas()?.attempt(ptx, arch, file),
            Linker::Library(library) => {
                let input = LinkInput { name: "the PTX", form: Form::Ptx, bytes: ptx };
                let options = LinkOptions { level: 0, debug: false, ptxas_arguments: &[], device_runtime: None };
                Ok(library.link(arch, &[input], &options, &|_| None).err().map(|errors| errors.to_string()))
            }
        }
    }
}

impl<'b> Library<'b> {
    fn path(self) -> &'b Path {
        match self {
            Library::NvJitLink(library) => library.path(),
            Library::Driver(driver) => driver.path(),
        }
    }

    fn release(self) -> Option<CudaRelease> {
        match self {
            Library::NvJitLink(library) => Some(library.release()),
            Library::Driver(driver) => driver.release(),
        }
    }

    /// `explain` turns messages of nvJitLink into errors, if it knows them.
    fn link(
        self,
        arch: GpuArch,
        inputs: &[LinkInput<'_>],
        options: &LinkOptions<'_>,
        explain: &dyn Fn(&str) -> Option<Errors>,
    ) -> Result<Vec<u8>, Errors> {
        let call = || match self {
            Library::NvJitLink(library) => nvjitlink::link(library, arch, inputs, options, explain),
            Library::Driver(driver) => cuda_driver::link(driver, arch, inputs, options),
        };
        let activity = format!("{} links the code for {arch}", self.path().display());
        llvm_passes::crash::during_other(&activity, call)
    }

    /// The call, spelled like a command.
    fn shown(
        self,
        arch: GpuArch,
        objects: &[DeviceObject],
        inputs: &[LinkInput<'_>],
        options: &LinkOptions<'_>,
    ) -> String {
        let words = match self {
            Library::NvJitLink(library) => nvjitlink::arguments(arch, inputs, options, library.release()),
            Library::Driver(_) => vec![format!("-arch={arch}")],
        };
        let names = objects.iter().map(|object| object.path.display().to_string());
        let library = options.device_runtime.map(|path| path.display().to_string());
        let words: Vec<String> =
            words.into_iter().chain(names).chain(library).map(|word| quoted(word.as_ref())).collect();
        format!("in this process: {} {}", quoted(self.path().as_os_str()), words.join(" "))
    }
}
