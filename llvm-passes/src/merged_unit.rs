//! Makes one unit of several, for later links: the output of a relocatable link whose device code stays bitcode.
//!
//! The unit is what the front end would have left of the code in one file: merged, simplified by the part of LLVM's pipeline that runs
//! before a link, and with every visible name in place, since the later link may reference any of them.

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, RelocMode, Target, TargetMachine, TargetTriple};

use crate::pipeline::{self, NamedBitcode, OptLevel};
use crate::session::Session;
use crate::{CodegenError, IrError, LlvmError, Stage, crash};

/// What the code is for, as its offload binary names it. The processor only guides the optimizer: functions have their own as an
/// attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTarget {
    /// `nvptx64-nvidia-cuda`.
    pub triple: String,
    /// `sm_90`, `gfx90a`; empty for the triple's usual one.
    pub processor: String,
    /// `+xnack`; mostly empty.
    pub features: String,
    /// Optimization level.
    pub level: OptLevel,
}

/// Merges units in link order, simplifies the result, and returns its bitcode. `modules` are the units, all of them read. `promoted` are
/// linkonce definitions, with the indices of their units, that prevail over weak ones of later units.
///
/// # Errors
/// Code that cannot be merged, or other errors of LLVM.
pub fn merge<'s>(
    session: &'s Session,
    modules: Vec<Module<'s>>,
    units: &[NamedBitcode<'_>],
    promoted: &[(usize, String)],
    target: &UnitTarget,
) -> Result<Vec<u8>, IrError> {
    for (unit, name) in promoted {
        if let Some(module) = modules.get(*unit) {
            pipeline::make_weak(module, name);
        }
    }
    let merged = pipeline::merge(session, modules, units)?;
    let failed = |stage: Stage, message: String| IrError::codegen(stage, &target.triple, LlvmError(message));
    let machine = machine(target)?;
    crash::during(&format!("merging device code for {}", target.triple), || {
        pipeline::joined(session, merged.verify()).map_err(|message| failed(Stage::MergedIr, message))?;
        let passes = merged.run_passes(pipeline_before_link(target.level), &machine, PassBuilderOptions::create());
        pipeline::joined(session, passes).map_err(|message| failed(Stage::Optimization, message))?;
        Ok(pipeline::bitcode_of(&merged))
    })
}

/// LLVM's pipeline of a compilation that a full LTO follows.
fn pipeline_before_link(level: OptLevel) -> &'static str {
    match level {
        OptLevel::O0 => "lto-pre-link<O0>",
        OptLevel::O1 => "lto-pre-link<O1>",
        OptLevel::O2 => "lto-pre-link<O2>",
        OptLevel::O3 => "lto-pre-link<O3>",
        OptLevel::Os => "lto-pre-link<Os>",
        OptLevel::Oz => "lto-pre-link<Oz>",
    }
}

fn machine(target: &UnitTarget) -> Result<TargetMachine, IrError> {
    let failed = |cause: CodegenError| IrError::codegen(Stage::Target, &target.triple, cause);
    if target.triple.starts_with("amdgcn") {
        crate::sys::initialize_amdgpu();
    }
    let triple = TargetTriple::create(&target.triple);
    let llvm_target = Target::from_triple(&triple).map_err(|error| failed(error.into()))?;
    let (level, reloc, code) = (OptimizationLevel::Default, RelocMode::PIC, CodeModel::Default);
    llvm_target
        .create_target_machine(&triple, &target.processor, &target.features, level, reloc, code)
        .ok_or_else(|| failed(CodegenError::NoCodeGenerator("processor")))
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;
    use inkwell::memory_buffer::MemoryBuffer;

    use super::*;
    use crate::symbols::Strength;
    use crate::unit::Unit;

    fn bitcode(text: &str) -> Vec<u8> {
        crate::initialize();
        let context = Context::create();
        let buffer = MemoryBuffer::create_from_memory_range_copy(&[text.as_bytes(), &[0]].concat(), "text");
        pipeline::bitcode_of(&context.create_module_from_ir(buffer).unwrap())
    }

    fn merged(texts: &[&str], promoted: &[(usize, String)]) -> Vec<u8> {
        let units: Vec<Vec<u8>> = texts.iter().map(|text| bitcode(text)).collect();
        let named: Vec<NamedBitcode<'_>> = units.iter().map(|bitcode| NamedBitcode { name: "a.bc", bitcode }).collect();
        let target = UnitTarget {
            triple: "nvptx64-nvidia-cuda".to_owned(),
            processor: "sm_90".to_owned(),
            features: String::new(),
            level: OptLevel::O2,
        };
        let session = Session::new();
        let modules = pipeline::read_units(&session, &named).unwrap();
        merge(&session, modules, &named, promoted, &target).unwrap()
    }

    const KERNEL: &str = "target triple = \"nvptx64-nvidia-cuda\"
        declare i32 @helper(i32)
        declare i32 @elsewhere(i32)
        define linkonce_odr i32 @unused() { ret i32 1 }
        define ptx_kernel void @kernel(ptr %p, i32 %i) {
          %h = call i32 @helper(i32 %i)
          %e = call i32 @elsewhere(i32 %h)
          store i32 %e, ptr %p
          ret void
        }";
    const HELPER: &str = "target triple = \"nvptx64-nvidia-cuda\"
        define i32 @helper(i32 %i) { %r = mul i32 %i, 7 ret i32 %r }
        define internal i32 @secret() { ret i32 2 }";

    #[test]
    fn visible_names_stay_and_calls_between_units_are_inlined() {
        let bytes = merged(&[KERNEL, HELPER], &[]);
        let unit = Unit::new("merged", &bytes);
        let symbols = unit.used_symbols().unwrap();
        let mut names: Vec<(&str, Strength)> = symbols.iter().map(|symbol| (&*symbol.name, symbol.strength)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        let expected = [("elsewhere", Strength::Undefined), ("helper", Strength::Strong), ("kernel", Strength::Strong)];
        assert_eq!(names, expected);
        let session = Session::new();
        let module = session.read("merged", &bytes).unwrap();
        let kernel = module.get_function("kernel").unwrap().to_string();
        assert!(kernel.contains("mul i32") && !kernel.contains("@helper"), "{kernel}");
        assert_eq!(bytes, merged(&[KERNEL, HELPER], &[]), "the same units give the same bytes");
    }

    #[test]
    fn the_prevailing_definition_is_merged() {
        let first = "define linkonce i32 @f() { ret i32 1 } define ptr @g() { ret ptr @f }";
        let second = "define weak i32 @f() { ret i32 2 }";
        let text = |bytes: &[u8]| {
            let session = Session::new();
            session.read("merged", bytes).unwrap().get_function("f").unwrap().to_string()
        };
        assert!(text(&merged(&[first, second], &[(0, "f".to_owned())])).contains("ret i32 1"));
        assert!(text(&merged(&[first, second], &[])).contains("ret i32 2"));
    }
}
