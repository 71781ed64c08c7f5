//! Makes one unit of several, for later links: the output of a relocatable link whose device code stays bitcode.
//!
//! Every visible name stays in place, since the later link may reference any of them. Nothing is optimized: the front end has simplified each
//! unit, LLVM's pipeline for a link runs on the partitions of the merged unit, and what it makes of code that was simplified twice is not
//! what it makes of the units (a kernel of 20,000 instructions spilled 17 times as many registers).

use inkwell::module::Module;

use crate::crash;
use crate::error::{IrError, LlvmError, Stage};
use crate::pipeline::{self, NamedBitcode};
use crate::session::Session;

/// Merges units in link order and returns the bitcode of the result. `modules` are the units, all of them read. `promoted` are linkonce
/// definitions, with the indices of their units, that prevail over weak ones of later units. `target` names the target in messages.
///
/// # Errors
/// Code that cannot be merged.
pub fn merge<'s>(
    session: &'s Session,
    modules: Vec<Module<'s>>,
    units: &[NamedBitcode<'_>],
    promoted: &[(usize, String)],
    target: &str,
) -> Result<Vec<u8>, IrError> {
    for (unit, name) in promoted {
        if let Some(module) = modules.get(*unit) {
            pipeline::make_weak(module, name);
        }
    }
    crash::during(&format!("merging device code for {target}"), || {
        let merged = pipeline::merge(session, modules, units)?;
        let verified = pipeline::joined(session, merged.verify());
        verified.map_err(|message| IrError::codegen(Stage::MergedIr, target, LlvmError(message)))?;
        Ok(pipeline::bitcode_of(&merged))
    })
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
        let session = Session::new();
        let modules = pipeline::read_units(&session, &named).unwrap();
        merge(&session, modules, &named, promoted, "sm_90").unwrap()
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
    fn visible_names_stay_and_bodies_are_those_of_the_units() {
        let bytes = merged(&[KERNEL, HELPER], &[]);
        let unit = Unit::new("merged", &bytes);
        let symbols = unit.used_symbols().unwrap();
        let mut names: Vec<(&str, Strength)> = symbols.iter().map(|symbol| (&*symbol.name, symbol.strength)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        let expected = [
            ("elsewhere", Strength::Undefined),
            ("helper", Strength::Strong),
            ("kernel", Strength::Strong),
            ("unused", Strength::LinkOnce),
        ];
        assert_eq!(names, expected);
        let session = Session::new();
        let module = session.read("merged", &bytes).unwrap();
        let kernel = module.get_function("kernel").unwrap().to_string();
        assert!(kernel.contains("@helper"), "{kernel}");
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

    #[test]
    fn units_of_thin_and_full_lto_are_merged() {
        let unit = |name: &str, split: u32| {
            format!(
                "define i32 @{name}() {{ ret i32 1 }} !llvm.module.flags = !{{!0}} !0 = !{{i32 1, !\"EnableSplitLTOUnit\", i32 {split}}}"
            )
        };
        for splits in [[0, 1, 0], [1, 0, 1]] {
            let units: Vec<String> =
                ["a", "b", "c"].iter().zip(splits).map(|(name, split)| unit(name, split)).collect();
            let texts: Vec<&str> = units.iter().map(String::as_str).collect();
            let bytes = merged(&texts, &[]);
            let session = Session::new();
            let module = session.read("merged", &bytes).unwrap();
            assert!(["a", "b", "c"].iter().all(|name| module.get_function(name).is_some()));
        }
    }
}
