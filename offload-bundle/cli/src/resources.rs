//! `offload-bundle resources`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use offload_bundle::usage::{self, Order};

use crate::error::Result;
use crate::input;
use crate::output::{self, CommandOutput};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Bytes of machine code
    Code,
    /// Registers of each thread
    Registers,
    /// Bytes of spilled registers
    Spills,
    /// Local memory of each thread
    Stack,
    /// Shared memory of each block
    Shared,
    /// The function's name
    Name,
}

#[derive(Args)]
pub struct ResourcesArguments {
    /// An ELF object, executable or library, an archive, a fatbin, a cubin or an offload binary
    file: PathBuf,
    /// What to sort by
    #[arg(long, value_enum, default_value = "code")]
    sort: Sort,
    /// Only cubins for this target, such as sm_90
    #[arg(long, value_name = "TARGET")]
    target: Vec<String>,
    /// Only this many functions of each cubin
    #[arg(long, value_name = "NUMBER")]
    top: Option<usize>,
    /// Print names as the compiler mangled them
    #[arg(long)]
    no_demangle: bool,
    /// Print a JSON array of objects instead of tables; its names stay mangled
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &ResourcesArguments) -> Result<CommandOutput> {
    let order = match arguments.sort {
        Sort::Code => Order::Code,
        Sort::Registers => Order::Registers,
        Sort::Spills => Order::Spills,
        Sort::Stack => Order::Stack,
        Sort::Shared => Order::Shared,
        Sort::Name => Order::Name,
    };
    let mut cubins = input::read(&arguments.file, |data, read_thin| usage::usage(data, read_thin, order))?;
    cubins.retain(|cubin| arguments.target.is_empty() || arguments.target.contains(&cubin.target));
    for cubin in &mut cubins {
        cubin.functions.truncate(arguments.top.unwrap_or(usize::MAX));
    }
    let shown = |name: &str| if arguments.no_demangle { name.to_owned() } else { demangled(name) };
    let text = if arguments.json { output::json(&cubins)? } else { usage::text(&cubins, shown) };
    Ok(CommandOutput::success(text))
}

/// Demangles a C++ name, and returns other names unchanged.
fn demangled(name: &str) -> String {
    // The suffix with which a device link made a name unique does not demangle.
    let plain = name.split("__intern__").next().unwrap_or(name);
    let symbol = cpp_demangle::Symbol::new(plain).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}
