//! `offload-bundle list`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::listing;

use crate::error::Result;
use crate::input;
use crate::output::{self, CommandOutput};

#[derive(Args)]
pub struct ListArguments {
    /// An ELF object, executable or library, an archive, a fatbin, a cubin or an offload binary
    file: PathBuf,
    /// Only images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Print a JSON array of objects instead of columns
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &ListArguments) -> Result<CommandOutput> {
    let mut rows = input::read(&arguments.file, |data, read_thin| listing::list(data, read_thin))?;
    let wanted = &arguments.section;
    rows.retain(|row| wanted.is_empty() || row.section.as_ref().is_some_and(|section| wanted.contains(section)));
    let text = if arguments.json { output::json(&rows)? } else { listing::table(&rows) };
    Ok(CommandOutput::success(text))
}
