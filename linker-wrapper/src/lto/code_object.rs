//! The code of one AMD GPU target: its images and their symbols, and the link of all objects by ld.lld.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::amdgpu::AmdTarget;
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::reference_graph;
use llvm_passes::resolve::{self, Resolution, UnitSymbols};
use llvm_passes::session::{Message, Session};
use llvm_passes::symbols::Symbol;
use llvm_passes::unit::Unit;
use offload_bundle::amdgpu::{FeatureSetting, TargetId};

use crate::cli::amd_options::{self, AmdOptions};
use crate::codegen::llvm_programs;
use crate::device::symbol_errors::Maker;
use crate::device::{symbol_errors, symbols};
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
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
    /// The code is that of a relocatable object: the link of the program defines what is undefined.
    pub is_partial: bool,
    /// The images, in link order.
    pub images: Vec<AmdImage<'a>>,
}

/// A device image.
#[derive(Clone, Copy)]
pub struct AmdImage<'a> {
    /// Where it was found.
    pub origin: &'a Origin,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The bitcode as a unit that is opened once, if it is bitcode.
    pub unit: Option<&'a Unit<'a>>,
}

/// A linked code object.
#[derive(Debug, Default)]
pub struct CodeObject {
    /// An ELF file; for `amdgcnspirv`, SPIR-V.
    pub bytes: Vec<u8>,
    /// LLVM's messages.
    pub messages: Vec<Message>,
}

impl AmdImage<'_> {
    /// Whether it is bitcode.
    pub fn is_bitcode(&self) -> bool {
        self.unit.is_some()
    }
}

impl<'a> AmdImages<'a> {
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
        let request = context.request;
        let arguments = self.linker_arguments(&amd_options::all_llvm_options(request.options, request.device));
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
        let units = self.units();
        let units: Vec<NamedBitcode<'_>> =
            units.iter().map(|unit| NamedBitcode { name: unit.name(), bitcode: unit.bitcode() }).collect();
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
        Ok(CodeObject { bytes, messages: session.take_messages() })
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

    /// The bitcode units, in link order.
    pub fn units(&self) -> Vec<&'a Unit<'a>> {
        self.images.iter().filter_map(|image| image.unit).collect()
    }

    /// Writes the images that are objects already, for ld.lld.
    fn write_objects(&self, stem: &str, context: &LinkContext<'_>) -> Result<Vec<PathBuf>, Errors> {
        let mut inputs = Vec::new();
        for (index, image) in self.images.iter().enumerate() {
            if image.is_bitcode() {
                context.temp_files.keep(&format!("{stem}.input.{index}.bc"), || image.bytes.to_vec())?;
            } else {
                inputs.push(context.temp_files.write(&format!("{stem}.input.{index}.o"), image.bytes)?);
            }
        }
        Ok(inputs)
    }

    /// Checks that every image that is no bitcode is an object for this target.
    ///
    /// # Errors
    /// One for each that is not.
    pub fn require_objects(&self) -> Result<(), Errors> {
        let objects = self.images.iter().filter(|image| !image.is_bitcode());
        collect(objects.map(|image| Ok(self.require_object(image)?))).map(|_| ())
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
        let unit = self.images.iter().find_map(|image| image.unit);
        let compiled = compiled.first().and_then(|object| Some((unit?.name().to_owned(), object.as_slice())));
        let objects = self.images.iter().filter(|image| !image.is_bitcode());
        let all = compiled.into_iter().chain(objects.map(|image| (image.origin.to_string(), image.bytes)));
        let version = |bytes| offload_bundle::amdgpu::header(bytes).ok().map(|header| u64::from(header.version) * 100);
        let (names, versions): (Vec<String>, Vec<Option<u64>>) =
            all.map(|(name, bytes)| (name, version(bytes))).unzip();
        same_version(&versions, &names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The arguments of ld.lld. Archives that the user names may hold bitcode, which ld.lld compiles for this target, too.
    fn linker_arguments(&self, llvm_options: &[String]) -> Vec<String> {
        let AmdTarget { processor, features, level, generation, passes, prints_passes } = &self.target;
        let mut arguments = Vec::new();
        if self.options.named_input.is_some() {
            arguments.push(format!("-plugin-opt=mcpu={processor}"));
            if !features.is_empty() {
                arguments.push(format!("-plugin-opt=-mattr={features}"));
            }
            arguments.extend([format!("--lto-O{}", level.number()), format!("--lto-CGO{}", generation.number())]);
            arguments.extend(passes.iter().map(|passes| format!("--lto-newpm-passes={passes}")));
            arguments.extend(prints_passes.then(|| "--lto-debug-pass-manager".to_owned()));
            // Remarks are recorded in one file, which is that of the code compiled here.
            let others =
                llvm_options.iter().filter(|option| !option.trim_start_matches('-').starts_with("pass-remarks-"));
            arguments.extend(others.map(|option| format!("-mllvm={option}")));
        }
        arguments.extend(self.options.linker_arguments.iter().cloned());
        arguments
    }

    /// The symbols of every image, in link order. `of_unit` reads those of a bitcode unit.
    ///
    /// # Errors
    /// Unreadable bitcode, or a damaged object.
    pub fn symbols(
        &self,
        of_unit: &dyn Fn(&Unit<'_>) -> Result<Vec<Symbol>, Errors>,
    ) -> Result<Vec<UnitSymbols>, Errors> {
        collect(self.images.iter().map(|image| {
            let symbols = match image.unit {
                Some(unit) => of_unit(unit)?,
                None => symbols::of_image(None, image.origin, image.bytes)?.into_owned(),
            };
            Ok(UnitSymbols { symbols })
        }))
    }

    /// Decides which definitions prevail.
    ///
    /// # Errors
    /// Duplicate and undefined symbols.
    pub fn resolve(&self, symbols: &[UnitSymbols]) -> Result<Resolution, Errors> {
        let mut resolution = resolve::resolve(symbols, &|_| false);
        if self.options.named_input.is_some() || self.is_partial {
            // ld.lld reports what these files do not define, either.
            resolution.undefined.clear();
        }
        let origins: Vec<(&Origin, Maker)> = self.images.iter().map(|image| (image.origin, Maker::Clang)).collect();
        let users = |image: usize, name: &str| {
            let facts = self.images[image].unit.and_then(|unit| unit.amd_facts().ok());
            facts.map(|facts| reference_graph::users_of(&facts.graph, name)).unwrap_or_default()
        };
        symbol_errors::unresolved(&resolution, &self.name, &origins, &users)?;
        Ok(resolution)
    }

    /// Returns the index of an image among those of bitcode, if it is one.
    pub fn unit_of(&self, image: usize) -> Option<usize> {
        self.images.get(image).filter(|image| image.is_bitcode())?;
        Some(self.images[..image].iter().filter(|image| image.is_bitcode()).count())
    }

    /// Prints who defines and who references the symbols of `--trace-symbol=`, as ld.lld does, which sees the compiled code alone.
    pub fn trace(&self, symbols: &[UnitSymbols], program: &str) {
        let mut text = String::new();
        for (image, unit) in self.images.iter().zip(symbols) {
            for symbol in unit.symbols.iter().filter(|symbol| self.options.traced.contains(&symbol.name)) {
                let what = if symbol.strength.is_definition() { "definition of" } else { "reference to" };
                text.push_str(&format!("{}: {what} {}\n", image.origin, symbol.name));
            }
        }
        messages::report(program, &text);
    }

    /// The names that objects define or reference: these stay visible.
    pub fn names_of_objects(&self, symbols: &[UnitSymbols]) -> BTreeSet<String> {
        let objects = self.images.iter().zip(symbols).filter(|(image, _)| !image.is_bitcode());
        objects.flat_map(|(_, unit)| unit.symbols.iter().map(|symbol| symbol.name.clone())).collect()
    }
}

/// Rejects units that were compiled for different versions of the code object: LLVM's merge would name neither file.
///
/// # Errors
/// One for every unit that differs from the first.
pub fn same_version(versions: &[Option<u64>], names: &[&str]) -> Result<(), Errors> {
    let mut versions = versions.iter().zip(names).filter_map(|(version, name)| Some((*name, (*version)?)));
    let Some((first, first_version)) = versions.next() else { return Ok(()) };
    let others = versions.filter(|(_, version)| *version != first_version);
    let errors = others.map(|(unit, version)| Error::MixedVersions {
        unit: unit.to_owned(),
        version: version / 100,
        first: first.to_owned(),
        first_version: first_version / 100,
    });
    errors.collect::<Errors>().or(())
}

/// Finds ld.lld for the plan.
pub fn linker(context: &LinkContext<'_>) -> Option<PathBuf> {
    llvm_tools::lld(&context.request.options.parts).ok().map(|found| found.path)
}
