//! Links the code of one AMD GPU target: LLVM merges, optimizes and compiles the bitcode in this process, and ld.lld makes the code
//! object.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::amdgpu::{self, AmdTarget};
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::reference_graph;
use llvm_passes::resolve::{self, Resolution, UnitSymbols};
use llvm_passes::session::{Session, Warning};
use llvm_passes::{Module, bitcode};

use crate::cli::amd_options::AmdOptions;
use crate::codegen::llvm_programs;
use crate::device::{symbol_errors, symbols};
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::Origin;
use crate::lto::error::Error;
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::toolchain::llvm_tools;

/// The code of one target.
pub struct AmdImages<'a> {
    /// The target id as the images name it: "gfx90a:xnack+".
    pub name: String,
    /// What LLVM generates code for.
    pub target: AmdTarget,
    /// Options of the link.
    pub options: AmdOptions,
    /// The images, in link order.
    pub images: Vec<AmdImage<'a>>,
}

/// A device image.
#[derive(Debug, Clone, Copy)]
pub struct AmdImage<'a> {
    /// Where it was found.
    pub origin: &'a Origin,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A linked code object.
#[derive(Debug, Default)]
pub struct CodeObject {
    /// An ELF file; for `amdgcnspirv`, SPIR-V.
    pub bytes: Vec<u8>,
    /// LLVM's warnings.
    pub warnings: Vec<Warning>,
}

impl AmdImage<'_> {
    /// Whether it is bitcode.
    pub fn is_bitcode(&self) -> bool {
        bitcode::is_bitcode(self.bytes)
    }
}

impl AmdImages<'_> {
    /// Links the target.
    ///
    /// # Errors
    /// All errors in the images, and those that LLVM and ld.lld report.
    pub fn link(&self, context: &LinkContext<'_>) -> Result<CodeObject, Errors> {
        let _linking = span::traced("Link device input", || self.name.clone());
        // Fails before the long work.
        let lld = llvm_tools::lld(&context.request.options.parts)?.path;
        let stem = self.stem();
        let mut inputs = self.write_objects(&stem, context)?;
        let mut warnings = Vec::new();
        if self.images.iter().any(AmdImage::is_bitcode) {
            let (object, found) = self.compile(&stem, context)?;
            warnings = found;
            inputs.push(context.temp_files.write(&format!("{stem}.lto.o"), &object)?);
        }
        let output = context.temp_files.file(&format!("{stem}.img"));
        let arguments = self.linker_arguments();
        let _linking = span::traced("ld.lld", || self.name.clone());
        let mode = context.request.mode;
        let bytes = llvm_programs::link_code_object(&lld, &self.name, &inputs, &arguments, &output, mode)?;
        Ok(CodeObject { bytes, warnings })
    }

    /// Merges the bitcode and translates it to SPIR-V, without optimizing it: the runtime compiles it for its GPU.
    ///
    /// # Errors
    /// As [`AmdImages::link`].
    pub fn link_spirv(&self, triple: &str, context: &LinkContext<'_>) -> Result<CodeObject, Errors> {
        let _linking = span::traced("Link device input", || self.name.clone());
        let stem = self.stem();
        let session = Session::new();
        let names = self.names();
        let units = self.units(&names);
        if let Some(other) = self.images.iter().find(|image| !image.is_bitcode()) {
            let (name, target) = (other.origin.to_string(), self.name.clone());
            return Err(Error::NoAmdCode { name, target }.into());
        }
        let modules = pipeline::read_units(&session, &units).map_err(Errors::from_iter)?;
        let merged = pipeline::merge(&session, modules, &units)?;
        let input = context.temp_files.write(&format!("{stem}.linked.bc"), &pipeline::bitcode_of(&merged))?;
        let output = context.temp_files.file(&format!("{stem}.img"));
        let mode = context.request.mode;
        let bytes = if self.options.spirv_backend {
            llvm_programs::compile_spirv(&llvm_tools::clang()?, triple, input, &output, mode)?
        } else {
            llvm_programs::translate(&llvm_tools::llvm_spirv()?, &self.name, input, &output, mode)?
        };
        Ok(CodeObject { bytes, warnings: session.take_warnings() })
    }

    /// The beginning of the names of intermediate files.
    fn stem(&self) -> String {
        format!("amdgcn.{}", self.name)
    }

    fn names(&self) -> Vec<String> {
        self.images.iter().filter(|image| image.is_bitcode()).map(|image| image.origin.to_string()).collect()
    }

    fn units<'n>(&'n self, names: &'n [String]) -> Vec<NamedBitcode<'n>> {
        let images = self.images.iter().filter(|image| image.is_bitcode());
        images.zip(names).map(|(image, name)| NamedBitcode { name, bitcode: image.bytes }).collect()
    }

    /// Writes the images that are objects already, for ld.lld.
    fn write_objects(&self, stem: &str, context: &LinkContext<'_>) -> Result<Vec<PathBuf>, Errors> {
        let mut inputs = Vec::new();
        for (index, image) in self.images.iter().enumerate() {
            if image.is_bitcode() {
                context.temp_files.keep(&format!("{stem}.input.{index}.bc"), || image.bytes.to_vec())?;
            } else {
                // A dry run links nothing.
                if !context.request.mode.dry {
                    self.require_object(image)?;
                }
                inputs.push(context.temp_files.write(&format!("{stem}.input.{index}.o"), image.bytes)?);
            }
        }
        Ok(inputs)
    }

    fn require_object(&self, image: &AmdImage<'_>) -> Result<(), Error> {
        let (name, target) = (image.origin.to_string(), self.name.clone());
        let Ok(header) = offload_bundle::amdgpu::header(image.bytes) else {
            return Err(Error::NoAmdCode { name, target });
        };
        if !header.relocatable {
            return Err(Error::FinishedCodeObject { name, target });
        }
        match header.target {
            Some(found) if found.processor != self.target.processor && !self.target.processor.is_empty() => {
                Err(Error::OtherTarget { name, target, found: found.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// The arguments of ld.lld. Archives that the user names may hold bitcode, which ld.lld compiles for this target, too.
    fn linker_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.options.names_inputs() {
            arguments.push(format!("-plugin-opt=mcpu={}", self.target.processor));
            if !self.target.features.is_empty() {
                arguments.push(format!("-plugin-opt=-mattr={}", self.target.features));
            }
        }
        arguments.extend(self.options.linker_arguments.iter().cloned());
        arguments
    }

    /// Compiles all bitcode images to one object.
    fn compile(&self, stem: &str, context: &LinkContext<'_>) -> Result<(Vec<u8>, Vec<Warning>), Errors> {
        let session = Session::new();
        let names = self.names();
        let units = self.units(&names);
        let modules = {
            let _reading = span::traced("Read symbols", || self.name.clone());
            amdgpu::read_units(&session, &units).map_err(Errors::from_iter)?
        };
        same_version(&modules, &names)?;
        let symbols = self.symbols(&modules)?;
        let resolution = self.resolve(&symbols, &modules)?;
        for (name, image) in &resolution.linkonce_over_weak {
            self.unit_of(*image).iter().for_each(|unit| pipeline::make_weak(&modules[*unit], name));
        }
        let merged = pipeline::merge(&session, modules, &units)?;
        if !self.options.names_inputs() {
            amdgpu::internalize(&merged, &self.names_of_objects(&symbols));
        }
        {
            let _optimizing = span::traced("Optimize", || self.name.clone());
            amdgpu::optimize(&session, &merged, &self.target)?;
        }
        context.temp_files.keep(&format!("{stem}.opt.bc"), || pipeline::bitcode_of(&merged))?;
        let _emitting = span::traced("Generate code", || self.name.clone());
        let object = amdgpu::emit_object(&session, &merged, &self.target)?;
        Ok((object, session.take_warnings()))
    }

    /// The symbols of every image, in link order.
    fn symbols(&self, modules: &[Module<'_>]) -> Result<Vec<UnitSymbols>, Errors> {
        let mut modules = modules.iter();
        collect(self.images.iter().map(|image| {
            if image.is_bitcode() {
                let symbols = modules.next().map(pipeline::symbols_of).unwrap_or_default();
                return Ok(UnitSymbols { symbols });
            }
            let symbols = symbols::of_image(None, image.origin, image.bytes)?.into_owned();
            Ok(UnitSymbols { symbols })
        }))
    }

    /// Decides which definitions prevail.
    ///
    /// # Errors
    /// Duplicate and undefined symbols.
    fn resolve(&self, symbols: &[UnitSymbols], modules: &[Module<'_>]) -> Result<Resolution, Errors> {
        let mut resolution = resolve::resolve(symbols, &|_| false);
        if self.options.names_inputs() {
            // ld.lld reports what these files do not define, either.
            resolution.undefined.clear();
        }
        let origins: Vec<&Origin> = self.images.iter().map(|image| image.origin).collect();
        let users = |image: usize, name: &str| {
            let graph = self.unit_of(image).map(|unit| reference_graph::of_module(&modules[unit]));
            graph.map(|graph| reference_graph::users_of(&graph, name)).unwrap_or_default()
        };
        symbol_errors::unresolved(&resolution, &self.name, &origins, &users)?;
        Ok(resolution)
    }

    /// Returns the index of an image among those of bitcode, if it is one.
    fn unit_of(&self, image: usize) -> Option<usize> {
        self.images.get(image).filter(|image| image.is_bitcode())?;
        Some(self.images[..image].iter().filter(|image| image.is_bitcode()).count())
    }

    /// The names that objects define or reference: these stay visible.
    fn names_of_objects(&self, symbols: &[UnitSymbols]) -> BTreeSet<String> {
        let objects = self.images.iter().zip(symbols).filter(|(image, _)| !image.is_bitcode());
        objects.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone())).collect()
    }
}

/// Rejects units that were compiled for different versions of the code object: LLVM's merge would name neither file.
fn same_version(modules: &[Module<'_>], names: &[String]) -> Result<(), Errors> {
    let versions = modules.iter().zip(names);
    let mut versions = versions.filter_map(|(module, name)| Some((name, amdgpu::code_object_version(module)?)));
    let Some((first, first_version)) = versions.next() else { return Ok(()) };
    let others = versions.filter(|(_, version)| *version != first_version);
    let errors = others.map(|(unit, version)| Error::MixedVersions {
        unit: unit.clone(),
        version: version / 100,
        first: first.clone(),
        first_version: first_version / 100,
    });
    errors.collect::<Errors>().or(())
}

/// Finds ld.lld for the plan.
pub fn linker(context: &LinkContext<'_>) -> Option<PathBuf> {
    llvm_tools::lld(&context.request.options.parts).ok().map(|found| found.path)
}
