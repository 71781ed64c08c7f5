//! How a translation unit was compiled, as recorded in its bitcode outside the function bodies: in the module's debug
//! information and in the attributes of its functions.

use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use serde::{Deserialize, Serialize};

use crate::sys;

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
}

/// How much debug information there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DebugKind {
    /// None.
    #[default]
    None,
    /// Line tables alone, which is what clang emits for `-g` in optimized device code.
    Lines,
    /// Full debug information.
    Full,
}

/// Reads everything but the producer, which LLVM does not keep in the module.
pub(crate) fn of_module(module: &Module<'_>) -> ModuleFlags {
    let mut flags = ModuleFlags { debug: sys::debug_information(module), ..ModuleFlags::default() };
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
    }
    flags
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
        assert_eq!(flags.ptx, owned(&["+ptx80", "+ptx88"]));
        assert_eq!(flags.fast_math, BTreeSet::from([false, true]));
        assert_eq!(flags.denormals, owned(&["ieee", "preserve-sign"]));
        assert_eq!(
            (flags.debug, flags.producer.clone()),
            (DebugKind::None, Some(format!("LLVM{}", bitcode::our_version())))
        );
    }
}
