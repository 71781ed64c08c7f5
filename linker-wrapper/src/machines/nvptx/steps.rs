//! The steps of jobs for NVIDIA's GPUs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llvm_passes::extract::Visibility;
use llvm_passes::pipeline::{self, CodeTarget, NamedBitcode};
use llvm_passes::session::Session;
use llvm_passes::{IrError, Module, visible_functions};
use offload_bundle::arch::GpuArch;

use crate::diag::error::{Errors, collect};
use crate::machines::error::Error;
use crate::machines::job_code::{Emitted, Generate, JobCode, Library, Made, Place, PutTool, Written};
use crate::machines::nvptx::codegen::{Assembler, Attempted, DeviceObject, Form, PtxBackend, PtxSource};
use crate::machines::nvptx::generate;
use crate::machines::nvptx::job_code::{NvptxCode, NvptxMade, NvptxText};
use crate::machines::nvptx::outputs::{Emission, ImagePtx, MachineCode, Outputs};
use crate::machines::nvptx::soundness;
use crate::profile::span;
use crate::sys::{process, signals, temp_files};

/// The name of ptxas in the folder of a job that runs elsewhere.
const PTXAS: &str = "ptxas";

/// Who writes PTX.
const FATLINK: &str = "fatlink";
/// The name of libdevice there.
const LIBDEVICE: &str = "libdevice.bc";

impl Generate for NvptxCode {
    fn target(&self) -> String {
        self.arch.to_string()
    }

    fn visibility(&self) -> Visibility {
        Visibility::All
    }

    fn read_units<'s>(
        &self,
        session: &'s Session,
        units: &[NamedBitcode<'_>],
    ) -> Result<Vec<Module<'s>>, Vec<IrError>> {
        pipeline::read_units(session, units)
    }

    fn internalize<'s>(
        &self,
        session: &'s Session,
        module: &Module<'s>,
        keep: &BTreeSet<String>,
        _whole: bool,
        library: Library<'_, 's>,
    ) -> Result<(), Errors> {
        pipeline::declare_kernels(module, &self.declared_kernels);
        pipeline::internalize(module, keep);
        if pipeline::needs_libdevice(module)
            && let Some(library) = library()
        {
            pipeline::add_libdevice(session, module, library)?;
            pipeline::internalize(module, keep);
        }
        pipeline::remove_kernels(session, module, self.code_target(), &self.dead)?;
        Ok(())
    }

    fn optimize(&self, session: &Session, module: &Module<'_>, whole: bool) -> Result<(), IrError> {
        match whole {
            true => pipeline::optimize(session, module, self.code_target()),
            false => pipeline::optimize_partition(session, module, self.code_target()),
        }
    }

    fn try_to_emit(&self, session: &Session, module: &Module<'_>) -> Result<(), IrError> {
        pipeline::emit_ptx(session, module, self.code_target()).map(drop)
    }

    fn emit(&self, session: &Session, module: Module<'_>, _whole: bool) -> Result<Emitted, Errors> {
        let mut texts = Vec::with_capacity(self.emissions.len());
        let mut optimized = Some(module);
        for (index, emission) in self.emissions.iter().enumerate() {
            let target = CodeTarget { arch: emission.arch, ptx: emission.version, level: self.level };
            // Code generation changes the module, so all emissions but the last work on a copy.
            let is_last = index + 1 == self.emissions.len();
            let module = if is_last { optimized.take() } else { optimized.clone() };
            let Some(module) = module else { break };
            if emission.visible_functions {
                visible_functions::expose(&module, target.arch);
            }
            let _emitting = span::traced_passes("Generate PTX", || emission.arch.to_string());
            texts.push(pipeline::emit_ptx(session, &module, target)?);
        }
        Ok(Emitted::Nvptx(texts))
    }

    fn without_outputs(&self) -> JobCode {
        let (emissions, outputs) = (Vec::new(), Outputs::default());
        JobCode::Nvptx(NvptxCode { emissions, outputs, assembler: None, ..self.clone() })
    }

    fn without_kernels(&self, dead: BTreeSet<String>) -> JobCode {
        JobCode::Nvptx(NvptxCode { dead, ..self.clone() })
    }

    fn library(&self) -> Option<(&'static str, &Path)> {
        self.libdevice.as_deref().map(|path| ("libdevice", path))
    }

    fn write(&self, emitted: Emitted) -> Result<(Written, Vec<u64>), Errors> {
        let Emitted::Nvptx(emitted) = emitted else { return Ok((Written::Nothing, Vec::new())) };
        let (mut texts, mut sizes) = (Vec::new(), Vec::new());
        for (index, (text, emission)) in emitted.into_iter().zip(&self.emissions).enumerate() {
            temp_files::write_file(&emission.path, &text)?;
            sizes.push(text.len() as u64);
            let mut text = NvptxText::of(text);
            if !self.outputs.has_ptx_of(index) {
                text.text = None;
            }
            texts.push(text);
        }
        Ok((Written::Nvptx(texts), sizes))
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn runs_tools(&self) -> bool {
        self.assembler.is_some()
    }

    fn run_tools(&self, name: &str, written: Written, show: &dyn Fn(String)) -> Result<Made, Errors> {
        let Written::Nvptx(mut texts) = written else { return Ok(Made::Nothing) };
        let mut made = NvptxMade { texts: texts.iter().map(|text| text.facts.clone()).collect(), objects: Vec::new() };
        if let Some(ptxas) = &self.assembler {
            // A signal that ends this process ends ptxas, too.
            signals::before_end(process::end_children)?;
            let generated = generate::generate(name, self, &mut texts, &InWorker { ptxas, show })?;
            for (ptx, (_, text)) in self.outputs.ptx.iter().zip(&generated.ptx) {
                temp_files::write_file(&ptx.path, text)?;
            }
            made.objects = generated.objects;
        }
        Ok(Made::Nvptx(made))
    }

    fn files(&self, _made: &Made) -> Vec<PathBuf> {
        let NvptxCode { emissions, outputs, assembler, .. } = self;
        let path = |index: usize| emissions.get(index).map(|emission| &*emission.path);
        let cubins = outputs.machine_code.iter().filter_map(|code| Some(Assembler::output(path(code.emission)?)));
        let images = outputs.ptx.iter().map(|ptx| ptx.path.clone());
        match assembler {
            Some(_) => cubins.chain(images).collect(),
            // A library assembles the emissions in the process of the link.
            None => emissions.iter().map(|emission| emission.path.clone()).collect(),
        }
    }

    fn check(&self, made: &Made, texts: usize, files: &[Vec<u8>], kernels: &[String]) -> Result<(), Errors> {
        let wanted = |made: &NvptxMade| [made.kernels(), kernels].concat();
        match made {
            Made::Nvptx(made) if self.describes(made, texts, files.len()) => self.check_files(files, &wanted(made)),
            _ => Err(Error::NoCode { name: self.target() }.into()),
        }
    }

    fn localized(&self, made: Made, paths: Vec<PathBuf>) -> Made {
        let Made::Nvptx(NvptxMade { texts, objects }) = made else { return made };
        let objects = objects.into_iter().zip(&self.outputs.machine_code).zip(paths);
        let local = |((object, machine_code), path): ((DeviceObject, &MachineCode), _)| DeviceObject {
            name: machine_code.name.clone(),
            path,
            ..object
        };
        Made::Nvptx(NvptxMade { texts, objects: objects.map(local).collect() })
    }

    fn portable(&self, put: PutTool<'_>) -> Result<JobCode, Errors> {
        let ptxas = self.assembler.as_ref().map(|ptxas| put(ptxas.program(), PTXAS)).transpose()?;
        let libdevice = self.libdevice.as_ref().map(|path| put(path, LIBDEVICE)).transpose()?;
        let emission = |(index, emission): (usize, &Emission)| Emission {
            path: format!("{index}.ptx").into(),
            ..emission.clone()
        };
        let ptx = |(index, ptx): (usize, &ImagePtx)| ImagePtx {
            probe: format!("{index}.probe.ptx").into(),
            path: format!("{index}.image.ptx").into(),
            ..ptx.clone()
        };
        let machine_code = |code: &MachineCode| MachineCode { name: String::new(), ..code.clone() };
        Ok(JobCode::Nvptx(NvptxCode {
            libdevice,
            emissions: self.emissions.iter().enumerate().map(emission).collect(),
            outputs: Outputs {
                machine_code: self.outputs.machine_code.iter().map(machine_code).collect(),
                ptx: self.outputs.ptx.iter().enumerate().map(ptx).collect(),
                ptx_version: self.outputs.ptx_version,
            },
            assembler: self.assembler.as_ref().zip(ptxas).map(|(ptxas, path)| ptxas.at(path)),
            ..self.clone()
        }))
    }

    fn placed(&self, place: Place<'_>) -> JobCode {
        let Place { inputs, work, loader } = place;
        let emission = |emission: &Emission| Emission { path: work.join(&emission.path), ..emission.clone() };
        let image =
            |ptx: &ImagePtx| ImagePtx { probe: work.join(&ptx.probe), path: work.join(&ptx.path), ..ptx.clone() };
        let assembler = self.assembler.as_ref().map(|ptxas| {
            let ptxas = ptxas.at(absolute(&inputs.join(ptxas.program())));
            match loader {
                Some((loader, libraries)) => ptxas.with_loader(absolute(loader), &absolute(libraries)),
                None => ptxas,
            }
        });
        JobCode::Nvptx(NvptxCode {
            libdevice: self.libdevice.as_ref().map(|path| inputs.join(path)),
            emissions: self.emissions.iter().map(emission).collect(),
            outputs: Outputs { ptx: self.outputs.ptx.iter().map(image).collect(), ..self.outputs.clone() },
            assembler,
            ..self.clone()
        })
    }
}

impl NvptxCode {
    /// Whether the job makes as much, and for these targets.
    fn describes(&self, made: &NvptxMade, texts: usize, files: usize) -> bool {
        let NvptxCode { emissions, outputs, assembler, .. } = self;
        let arch_of = |code: &MachineCode| emissions.get(code.emission).map(|emission| emission.arch);
        let archs = outputs.machine_code.iter().map(arch_of).filter(|_| assembler.is_some());
        let expected =
            if assembler.is_some() { outputs.machine_code.len() + outputs.ptx.len() } else { emissions.len() };
        [texts, made.texts.len()] == [emissions.len(); 2]
            && files == expected
            && archs.eq(made.objects.iter().map(|object| Some(object.arch)))
    }

    /// Checks the content of the job's files, which has to have all kernels.
    fn check_files(&self, files: &[Vec<u8>], kernels: &[String]) -> Result<(), Errors> {
        let NvptxCode { emissions, outputs, assembler, .. } = self;
        let cubins = outputs.machine_code.iter().map(|code| (Form::Cubin, code.emission));
        let texts = outputs.ptx.iter().map(|ptx| (Form::Ptx, ptx.emission));
        let emitted = (0..emissions.len()).map(|emission| (Form::Ptx, emission));
        let forms: Vec<(Form, usize)> =
            if assembler.is_some() { cubins.chain(texts).collect() } else { emitted.collect() };
        collect(forms.into_iter().zip(files).filter_map(|((form, emission), bytes)| {
            let Emission { arch, path, .. } = emissions.get(emission)?;
            let assembler = assembler.as_ref().filter(|_| form == Form::Cubin);
            let program = assembler.map_or(Path::new(FATLINK), Assembler::program);
            let keeps_all = assembler.is_none_or(Assembler::keeps_kernels);
            let checked = soundness::check(form, bytes, *arch, if keeps_all { kernels } else { &[] });
            Some(checked.map_err(|flaw| Error::unusable(program, arch, flaw, path).into()))
        }))
        .map(|_: Vec<()>| ())
    }
}

/// The path from the root: a program without a folder would be searched on `PATH`.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// ptxas as the backend of a job. The link shows the commands and reads the machine code.
struct InWorker<'j> {
    ptxas: &'j Assembler,
    show: &'j dyn Fn(String),
}

impl PtxBackend for InWorker<'_> {
    fn assemble(&self, source: PtxSource) -> Result<DeviceObject, Errors> {
        self.ptxas.assemble(source, self.show)
    }

    fn attempt(&self, ptx: &[u8], arch: GpuArch, file: &Path) -> Attempted {
        self.ptxas.attempt(ptx, arch, file)
    }
}
