//! `offload-bundle list`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::listing;

use crate::output::{self, Answer};

#[derive(Args)]
pub struct Arguments {
    /// An ELF object, executable or library, an archive, a fatbin, a cubin or an offload binary
    file: PathBuf,
    /// Print an array of objects instead of columns
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<Answer, String> {
    let rows = output::read(&arguments.file, |data, read_thin| listing::list(data, read_thin))?;
    let text = if arguments.json { output::json(&rows)? } else { listing::table(&rows) };
    Ok(Answer { text, code: 0 })
}
