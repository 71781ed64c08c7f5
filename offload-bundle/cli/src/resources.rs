//! `offload-bundle resources`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::usage::{self, CubinUsage, Layout, Order};
use serde::Serialize;

use crate::error::Result;
use crate::input::{self, search};
use crate::names;
use crate::output::{self, CommandOutput};
use crate::packages::{self, Parts};
use crate::words::{Word, one_of};

const ORDERS: &[Word<Order>] = &[
    ("code", Order::Code, "Bytes of machine code"),
    ("registers", Order::Registers, "Registers of each thread"),
    ("spills", Order::Spills, "Bytes of spilled registers"),
    ("stack", Order::Stack, "Local memory of each thread"),
    ("shared", Order::Shared, "Shared memory of each block"),
    ("name", Order::Name, "The function's name"),
];

#[derive(Args)]
pub struct ResourcesArguments {
    /// ELF objects, executables or libraries, archives, fatbins, cubins or offload binaries; folders and packages (.whl, .deb, .conda, .zip,
    /// .tar.*) that hold such files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Also look for fatbins outside of the sections for device code, among the data of a program or library (as in libcufft)
    #[arg(long)]
    scan: bool,
    /// What to sort by
    #[arg(long, value_parser = one_of(ORDERS), default_value = "code")]
    sort: Order,
    /// Only cubins for this target, such as sm_90
    #[arg(long, value_name = "TARGET")]
    target: Vec<String>,
    /// Only this many functions of each table
    #[arg(long, value_name = "NUMBER")]
    top: Option<usize>,
    /// Print names as the compiler mangled them
    #[arg(long)]
    no_demangle: bool,
    /// A table for each cubin, however many there are, also for those of objects beside the linked ones, and names that are not cut to the terminal's
    /// width
    #[arg(long)]
    full: bool,
    /// Print a JSON array of objects instead of tables; its names stay mangled. For several files, each object has the key `file`
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &ResourcesArguments) -> Result<CommandOutput> {
    let mut files: Vec<(String, Vec<CubinUsage>)> = Vec::new();
    let mut errors = packages::visit(&arguments.files, Parts::All, &mut |content| {
        let search = search(arguments.scan);
        let mut cubins =
            input::parse(content, search, |data, read_thin| usage::usage(data, read_thin, search, arguments.sort))?;
        cubins.retain(|cubin| arguments.target.is_empty() || arguments.target.contains(&cubin.target));
        if !arguments.full && !arguments.json {
            usage::leave_out_linked_parts(&mut cubins);
        }
        files.push((content.name.clone(), cubins));
        Ok(())
    });
    let are_several = packages::are_several(&arguments.files);
    if !are_several && let Some(error) = errors.pop() {
        return Err(error);
    }
    let shown = |mangled: &[&str], room: Option<usize>| match arguments.no_demangle {
        true => mangled.iter().map(|name| names::cut(name, room)).collect(),
        false => names::demangled_apart(mangled, room),
    };
    let width = names::terminal_width().filter(|_| !arguments.full);
    let layout = Layout { shown: &shown, width, order: arguments.sort, top: arguments.top, full: arguments.full };
    let text = if arguments.json {
        json(&mut files, arguments.top, are_several)?
    } else {
        let files: Vec<_> =
            files.iter().map(|(file, cubins)| (are_several.then_some(file.as_str()), cubins.as_slice())).collect();
        usage::text(&files, &layout)
    };
    Ok(CommandOutput { errors, ..CommandOutput::success(text) })
}

/// A cubin of one of several files.
#[derive(Serialize)]
struct FileUsage<'u> {
    file: &'u str,
    #[serde(flatten)]
    usage: &'u CubinUsage,
}

fn json(files: &mut [(String, Vec<CubinUsage>)], top: Option<usize>, are_several: bool) -> Result<String> {
    for cubin in files.iter_mut().flat_map(|(_, cubins)| cubins) {
        cubin.functions.truncate(top.unwrap_or(usize::MAX));
    }
    if are_several {
        let cubins = files.iter().flat_map(|(file, cubins)| cubins.iter().map(move |usage| FileUsage { file, usage }));
        return output::json(&cubins.collect::<Vec<_>>());
    }
    output::json(&files.first().map_or(&[][..], |(_, cubins)| cubins))
}
