//! Decides whether LLVM may read or write files that no cache key covers. An option or a variable may make it do so, so a step is cached
//! only if all of them are known to be harmless.

use std::ffi::OsString;
use std::path::Path;

/// Prefixes of LLVM's options that print or write something, which a cached result would not do again.
const LLVM_OUTPUTS: [&str; 8] = ["print", "dump", "view", "dot", "stats", "time", "debug", "pass-remarks"];

/// Prefixes of environment variables that load other code into every program.
const LOADERS: [&str; 2] = ["LD_PRELOAD", "LD_AUDIT"];

/// The names of the environment variables.
pub fn variables() -> Vec<OsString> {
    std::env::vars_os().map(|(name, _)| name).collect()
}

/// Returns why a step that LLVM alone does cannot be cached or run elsewhere, as a sentence without a full stop, or `None` if it can.
pub fn of_llvm(llvm_options: &[String], variables: &[OsString]) -> Option<String> {
    unknown_variable(variables, &LOADERS).or_else(|| {
        unknown_llvm_option(llvm_options).map(|argument| format!("LLVM may read or write files for {argument}"))
    })
}

/// Returns why a variable whose name begins like one of these may change a step.
pub fn unknown_variable(variables: &[OsString], starts: &[&str]) -> Option<String> {
    let variable = variables.iter().find(|name| {
        let name = name.to_string_lossy();
        starts.iter().any(|start| name.starts_with(start))
    });
    variable.map(|name| format!("the variable {} may change what the tools do", name.display()))
}

/// Returns the first option of LLVM that may name a file or print something. LLVM has thousands of options, so a value is harmless if
/// it is a number or one of a few words.
fn unknown_llvm_option(arguments: &[String]) -> Option<&String> {
    arguments.iter().find(|argument| match argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) {
        Some(option) => {
            let (name, value) = option.split_once('=').unwrap_or((option, "true"));
            LLVM_OUTPUTS.iter().any(|start| name.starts_with(start)) || !is_setting(value)
        }
        // The value of the argument before it.
        None => !is_setting(argument),
    })
}

/// Whether a value cannot name a file: a number or a well-known word, with no file of that name.
fn is_setting(value: &str) -> bool {
    const WORDS: [&str; 14] = [
        "true", "false", "TRUE", "FALSE", "True", "False", "on", "off", "fast", "strict", "none", "all", "default",
        "always",
    ];
    (is_number(value) || WORDS.contains(&value)) && !Path::new(value).exists()
}

/// Whether a text is a number.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.parse::<f64>().is_ok()
}
