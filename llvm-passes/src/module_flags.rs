//! How a translation unit was compiled, as recorded in its bitcode outside the function bodies: in the module's debug
//! information and in the attributes of its functions.

use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use serde::{Deserialize, Serialize};

use crate::sys;
pub use crate::sys::DebugKind;

/// How a unit was compiled. A set holds the values of all functions; it is empty for a unit without functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleFlags {
    /// The LLVM that wrote the bitcode: "LLVM22.1.8".
    pub producer: Option<String>,
    /// PTX versions, as target features: "+ptx88".
    pub ptx: BTreeSet<String>,
    /// Whether arithmetic may assume that there are no infinities and NaNs (`-ffast-math`).
    pub fast_math: BTreeSet<bool>,
    /// Denormal mode of `float`: "ieee", "preserve-sign".
    pub denormals: BTreeSet<String>,
    /// How much debug information there is.
    pub debug: DebugKind,
    /// What only code for AMD's GPUs has; empty for other code.
    pub amd: AmdFlags,
}

/// How code for AMD's GPUs was compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdFlags {
    /// Lanes of a wave (`-mwavefrontsize64`).
    pub lanes: BTreeSet<u32>,
    /// Whether the waves of a workgroup are assumed to share one compute unit (`-mcumode`).
    pub cu_mode: BTreeSet<bool>,
    /// Whether they may be in different ones (`-mtgsplit`).
    pub threadgroup_split: BTreeSet<bool>,
    /// Whether operations quiet signaling NaNs as IEEE 754 requires (`-mno-amdgpu-ieee`).
    pub ieee: BTreeSet<bool>,
    /// Whether atomic operations may ignore how denormal numbers are treated (`-munsafe-fp-atomics`). `None`: there are none whose kind the
    /// compiler recorded, or they were not looked for.
    pub relaxed_atomics: Option<bool>,
}

/// Reads everything but the producer, which LLVM does not keep in the module.
pub(crate) fn of_module(module: &Module<'_>) -> ModuleFlags {
    let mut flags = ModuleFlags { debug: sys::debug_information(module), ..ModuleFlags::default() };
    let is_amd = module.get_triple().as_str().to_bytes().starts_with(b"amdgcn");
    // A definition whose body is not loaded has no basic blocks.
    for function in module.get_functions().filter(|function| !function.as_global_value().is_declaration()) {
        let features = attribute(function, "target-features").unwrap_or_default();
        flags.ptx.extend(features.split(',').filter(|feature| feature.starts_with("+ptx")).map(str::to_owned));
        // LLVM before 22 writes both attributes, LLVM 22 only the second.
        let is_set = |name| attribute(function, name).as_deref() == Some("true");
        flags.fast_math.insert(is_set("unsafe-fp-math") || is_set("no-nans-fp-math"));
        let mode = attribute(function, "denormal-fp-math-f32").or_else(|| attribute(function, "denormal-fp-math"));
        let mode = mode.as_deref().and_then(|mode| mode.split(',').next()).unwrap_or("ieee");
        flags.denormals.insert(mode.to_owned());
        if is_amd && !features.is_empty() {
            flags.amd.add(function, &features);
        }
    }
    flags
}

impl AmdFlags {
    /// Adds a function with these target features. Functions without any are not clang's.
    fn add(&mut self, function: FunctionValue<'_>, features: &str) {
        let has = |wanted: &str| features.split(',').any(|feature| feature == wanted);
        let lanes = [("+wavefrontsize32", 32), ("+wavefrontsize64", 64)];
        self.lanes.extend(lanes.iter().filter(|(feature, _)| has(feature)).map(|(_, lanes)| *lanes));
        self.cu_mode.insert(has("+cumode"));
        self.threadgroup_split.insert(has("+tgsplit"));
        self.ieee.insert(attribute(function, "amdgpu-ieee").as_deref() != Some("false"));
    }
}

/// Whether atomic operations of floating-point numbers were compiled with `-munsafe-fp-atomics`. The operations carry metadata, whose kinds
/// LLVM reads without the bodies. The module must be the only one of its context.
pub(crate) fn relaxed_atomics(module: &Module<'_>) -> Option<bool> {
    let context = module.get_context();
    // LLVM numbers the kinds of a context in the order in which it meets them.
    let first_free = context.get_kind_id("fatlink.no.such.kind");
    let is_known = |kind: &str| context.get_kind_id(kind) < first_free;
    let is_relaxed = is_known("amdgpu.ignore.denormal.mode");
    (is_relaxed || is_known("amdgpu.no.fine.grained.memory")).then_some(is_relaxed)
}

fn attribute(function: FunctionValue<'_>, name: &str) -> Option<String> {
    let attribute = function.get_string_attribute(AttributeLoc::Function, name)?;
    attribute.get_string_value().to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitcode;
    use crate::unit::Unit;

    #[test]
    fn flags_of_definitions_count_and_those_of_declarations_do_not() {
        let context = inkwell::context::Context::create();
        let module = context.create_module("m");
        let kind = context.void_type().fn_type(&[], false);
        let (plain, fast, wanted) = (
            module.add_function("a", kind, None),
            module.add_function("b", kind, None),
            module.add_function("c", kind, None),
        );
        let set = |function: FunctionValue<'_>, name, value| {
            function.add_attribute(AttributeLoc::Function, context.create_string_attribute(name, value));
        };
        set(plain, "target-features", "+ptx88,+sm_90");
        set(fast, "target-features", "+sm_90,+ptx80");
        set(fast, "no-nans-fp-math", "true");
        set(fast, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
        set(wanted, "target-features", "+ptx70");
        for function in [plain, fast] {
            let builder = context.create_builder();
            builder.position_at_end(context.append_basic_block(function, ""));
            builder.build_return(None).expect("a place to build at");
        }
        let bytes = module.write_bitcode_to_memory().as_slice().to_vec();
        let unit = Unit::new("m", &bytes);
        let flags = unit.module_flags().expect("sound bitcode");
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(flags.amd, AmdFlags::default());
        assert_eq!(flags.ptx, owned(&["+ptx80", "+ptx88"]));
        assert_eq!(flags.fast_math, BTreeSet::from([false, true]));
        assert_eq!(flags.denormals, owned(&["ieee", "preserve-sign"]));
        assert_eq!(
            (flags.debug, flags.producer.clone()),
            (DebugKind::None, Some(format!("LLVM{}", bitcode::our_version())))
        );
    }

    #[test]
    fn flags_of_amd_gpus() {
        let context = inkwell::context::Context::create();
        let module = context.create_module("m");
        module.set_triple(&inkwell::targets::TargetTriple::create("amdgcn-amd-amdhsa"));
        let kind = context.void_type().fn_type(&[context.f32_type().into()], false);
        for (name, features, ieee) in [
            ("a", "+wavefrontsize32,+cumode", "true"),
            ("b", "+wavefrontsize64,+tgsplit", "false"),
            // Not compiled by clang.
            ("c", "", "false"),
        ] {
            let function = module.add_function(name, kind, None);
            let set = |name, value| {
                function.add_attribute(AttributeLoc::Function, context.create_string_attribute(name, value));
            };
            set("target-features", features);
            set("amdgpu-ieee", ieee);
            let builder = context.create_builder();
            builder.position_at_end(context.append_basic_block(function, ""));
            builder.build_return(None).expect("a place to build at");
        }
        let flags = of_module(&module).amd;
        assert_eq!(flags.lanes, BTreeSet::from([32, 64]));
        let both = BTreeSet::from([false, true]);
        assert_eq!((flags.cu_mode, flags.threadgroup_split, flags.ieee), (both.clone(), both.clone(), both));
        assert_eq!(relaxed_atomics(&module), None);
    }
}
