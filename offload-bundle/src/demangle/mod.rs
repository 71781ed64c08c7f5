//! Demangles the names that C++ compilers give to functions and variables.
//!
//! The grammar is that of the Itanium C++ ABI with what LLVM and GCC add to it, and the text is that of `llvm-cxxfilt`: names in a report can be
//! searched for in the output of LLVM's tools.

mod apart;
mod parse;
mod print;
mod tree;

#[cfg(test)]
mod tests;

pub use apart::apart;
use parse::Parser;

use crate::host_object::module_name;

/// What clang and device links append to the names of static kernels and variables that the host refers to.
const UNIQUE_MARKS: [&str; 2] = ["__intern__", "__static__"];

/// Bytes of a name, and of its text.
const LONGEST: usize = 1 << 20;

/// Demangles a name: `_Z6helperi` is `helper(int)`. `None` stands for a name that is not mangled, not valid, nested a few hundred times, or
/// longer than a megabyte, mangled or not. Bytes of string literals that are not UTF-8 become U+FFFD.
///
/// ```
/// use offload_bundle::demangle::demangle;
///
/// assert_eq!(demangle("_Z5scaleIfEvPT_m").as_deref(), Some("void scale<float>(float*, unsigned long)"));
/// assert_eq!(demangle("main"), None);
/// ```
pub fn demangle(name: &str) -> Option<String> {
    if name.len() > LONGEST {
        return None;
    }
    let mut parser = Parser::new(name.as_bytes());
    let root = parser.mangled_name()?;
    let text = print::print(&parser.tree, root).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// A symbol as people read it: demangled if it is mangled, and without what makes the name of a static one unique. A static one of nvcc has the
/// name of its source file.
///
/// ```
/// use offload_bundle::demangle::readable;
///
/// assert_eq!(readable("_ZL1xv__intern__7d1f"), "x()");
/// assert_eq!(readable("__nv_static_21__f73a5c3b_4_a_cu_main__Z5plainPi"), "plain(int*) [a_cu]");
/// assert_eq!(readable("main"), "main");
/// ```
pub fn readable(symbol: &str) -> String {
    if let Some((id, name)) = of_unit(symbol) {
        return format!("{} [{}]", demangle(name).unwrap_or_else(|| name.to_owned()), module_name(id));
    }
    let plain = || UNIQUE_MARKS.iter().find_map(|mark| symbol.split_once(mark)).map_or(symbol, |(plain, _)| plain);
    let text = demangle(symbol).or_else(|| demangle(plain()));
    text.unwrap_or_else(|| plain().to_owned())
}

/// The id of the unit and the name in that unit, of a static function or variable of `nvcc -rdc`: `__nv_static_21__f73a5c3b_4_a_cu_main__Z5plainPi`,
/// where 21 is the length of the id. (nvcc 13.0)
fn of_unit(symbol: &str) -> Option<(&str, &str)> {
    let (length, rest) = symbol.strip_prefix("__nv_static_")?.split_once('_')?;
    let (id, name) = rest.split_at_checked(length.parse().ok()?)?;
    Some((id, name.strip_prefix('_')?))
}
