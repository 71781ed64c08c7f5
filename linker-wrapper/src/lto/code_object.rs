//! Links the code of one AMD GPU target: LLVM merges, optimizes and compiles the bitcode in this process, and ld.lld makes the code
//! object.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::amdgpu::{self, AmdTarget};
use llvm_passes::bitcode;
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::reference_graph;
use llvm_passes::resolve::{self, Resolution, UnitSymbols};
use llvm_passes::session::{Session, Warning};
use llvm_passes::symbols::Symbol;
use offload_bundle::amdgpu::{FeatureSetting, TargetId};

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
    /// Compiles the bitcode in one piece, if there is any.
    ///
    /// # Errors
    /// All errors in the images, and those that LLVM reports.
    pub fn compile_whole(&self, context: &LinkContext<'_>) -> Result<(Vec<Vec<u8>>, Vec<Warning>), Errors> {
        if !self.images.iter().any(AmdImage::is_bitcode) {
            return Ok((Vec::new(), Vec::new()));
        }
        let (object, warnings) = self.compile(context)?;
        Ok((vec![object], warnings))
    }

    /// Links the compiled objects with those among the images.
    ///
    /// # Errors
    /// Those that ld.lld reports.
    pub fn join(&self, objects: &[Vec<u8>], context: &LinkContext<'_>) -> Result<Vec<u8>, Errors> {
        let _joining = span::traced("ld.lld", || self.name.clone());
        let lld = llvm_tools::lld(&context.request.options.parts)?.path;
        let stem = self.stem();
        self.require_version(objects)?;
        let mut inputs = self.write_objects(&stem, context)?;
        for (number, object) in objects.iter().enumerate() {
            let number = if objects.len() > 1 { format!(".{number}") } else { String::new() };
            inputs.push(context.temp_files.write(&format!("{stem}.lto{number}.o"), object)?);
        }
        let output = context.temp_files.file(&format!("{stem}.img"));
        let arguments = self.linker_arguments();
        llvm_programs::link_code_object(&lld, &self.name, &inputs, &arguments, &output, context.request.mode)
    }

    /// Merges the bitcode and translates it to SPIR-V, without optimizing it: the runtime compiles it for its GPU.
    ///
    /// # Errors
    /// As [`AmdImages::join`].
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
            llvm_programs::compile_spirv(&llvm_tools::clang(mode)?, triple, input, &output, mode)?
        } else {
            llvm_programs::translate(&llvm_tools::llvm_spirv(mode)?, &self.name, input, &output, mode)?
        };
        Ok(CodeObject { bytes, warnings: session.take_warnings() })
    }

    /// Size of the bitcode in bytes.
    pub fn bitcode_bytes(&self) -> usize {
        self.images.iter().filter(|image| image.is_bitcode()).map(|image| image.bytes.len()).sum()
    }

    /// Whether any image is machine code.
    pub fn has_objects(&self) -> bool {
        self.images.iter().any(|image| !image.is_bitcode())
    }

    /// The beginning of the names of intermediate files.
    pub fn stem(&self) -> String {
        format!("amdgcn.{}", self.name)
    }

    /// The names of the bitcode units in messages.
    pub fn names(&self) -> Vec<String> {
        self.images.iter().filter(|image| image.is_bitcode()).map(|image| image.origin.to_string()).collect()
    }

    /// The bitcode units, with these names.
    pub fn units<'n>(&'n self, names: &'n [String]) -> Vec<NamedBitcode<'n>> {
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
            Some(found) if !self.takes(&found) => Err(Error::OtherTarget { name, target, found: found.to_string() }),
            _ => Ok(()),
        }
    }

    /// Whether an object for that target can be linked: one with a setting would give it to the whole code object.
    fn takes(&self, found: &TargetId) -> bool {
        let own = self.name.parse::<TargetId>().ok().filter(|_| !self.target.processor.is_empty());
        let fits = |own, found| found == FeatureSetting::Any || found == own;
        own.is_none_or(|own| {
            found.processor == own.processor && fits(own.sramecc, found.sramecc) && fits(own.xnack, found.xnack)
        })
    }

    /// Rejects objects of another version than the code that was compiled, or than each other.
    fn require_version(&self, compiled: &[Vec<u8>]) -> Result<(), Errors> {
        let compiled = compiled.first().and_then(|object| Some((self.names().into_iter().next()?, object.as_slice())));
        let objects = self.images.iter().filter(|image| !image.is_bitcode());
        let all = compiled.into_iter().chain(objects.map(|image| (image.origin.to_string(), image.bytes)));
        let version = |bytes| offload_bundle::amdgpu::header(bytes).ok().map(|header| u64::from(header.version) * 100);
        let (names, versions): (Vec<String>, Vec<Option<u64>>) =
            all.map(|(name, bytes)| (name, version(bytes))).unzip();
        same_version(&versions, &names)
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
    fn compile(&self, context: &LinkContext<'_>) -> Result<(Vec<u8>, Vec<Warning>), Errors> {
        let stem = self.stem();
        let session = Session::new();
        let names = self.names();
        let units = self.units(&names);
        let modules = {
            let _reading = span::traced("Read symbols", || self.name.clone());
            amdgpu::read_units(&session, &units).map_err(Errors::from_iter)?
        };
        let versions = modules.iter().map(amdgpu::code_object_version).collect::<Vec<_>>();
        same_version(&versions, &names)?;
        let symbols = self.symbols(&mut modules.iter().map(pipeline::symbols_of))?;
        let users =
            |unit: usize, name: &str| reference_graph::users_of(&reference_graph::of_module(&modules[unit]), name);
        let resolution = self.resolve(&symbols, &users)?;
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

    /// The symbols of every image, in link order. `of_units` has those of the bitcode units.
    ///
    /// # Errors
    /// A damaged object.
    pub fn symbols(&self, of_units: &mut dyn Iterator<Item = Vec<Symbol>>) -> Result<Vec<UnitSymbols>, Errors> {
        collect(self.images.iter().map(|image| {
            let symbols = match image.is_bitcode() {
                true => of_units.next().unwrap_or_default(),
                false => symbols::of_image(None, image.origin, image.bytes)?.into_owned(),
            };
            Ok(UnitSymbols { symbols })
        }))
    }

    /// Decides which definitions prevail. `users` finds the functions of a unit that reference a name.
    ///
    /// # Errors
    /// Duplicate and undefined symbols.
    pub fn resolve(
        &self,
        symbols: &[UnitSymbols],
        users: &dyn Fn(usize, &str) -> Vec<String>,
    ) -> Result<Resolution, Errors> {
        let mut resolution = resolve::resolve(symbols, &|_| false);
        if self.options.names_inputs() {
            // ld.lld reports what these files do not define, either.
            resolution.undefined.clear();
        }
        let origins: Vec<&Origin> = self.images.iter().map(|image| image.origin).collect();
        let users = |image: usize, name: &str| self.unit_of(image).map(|unit| users(unit, name)).unwrap_or_default();
        symbol_errors::unresolved(&resolution, &self.name, &origins, &users)?;
        Ok(resolution)
    }

    /// Returns the index of an image among those of bitcode, if it is one.
    pub fn unit_of(&self, image: usize) -> Option<usize> {
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
///
/// # Errors
/// One for every unit that differs from the first.
pub fn same_version(versions: &[Option<u64>], names: &[String]) -> Result<(), Errors> {
    let mut versions = versions.iter().zip(names).filter_map(|(version, name)| Some((name, (*version)?)));
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
