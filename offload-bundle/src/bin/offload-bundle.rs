//! Shows the device code that objects, archives, executables and containers carry.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use offload_bundle::listing::{self, ListError, Row};

/// Shows the device code that objects, archives, executables and containers carry.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the device images of a file, one a line
    List {
        /// An ELF object, executable or library, an archive, a fatbin, a cubin or an offload binary
        file: PathBuf,
        /// Print an array of objects instead of columns
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let Command::List { file, json } = Arguments::parse().command;
    let text = list(&file).and_then(|rows| render(&rows, json));
    let printed = text.and_then(|text| print(&text).map_err(|e| format!("standard output: {e}")));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("offload-bundle: error: {what}");
            ExitCode::FAILURE
        }
    }
}

fn list(file: &Path) -> Result<Vec<Row>, String> {
    let data = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let read_thin = |path: &str| std::fs::read(folder.join(path)).map_err(|e| e.to_string());
    listing::list(&data, read_thin).map_err(|e| message(file, &e))
}

fn message(file: &Path, error: &ListError) -> String {
    let member = error.member().map(|member| format!("({member})")).unwrap_or_default();
    format!("{}{member}: {error}", file.display())
}

fn render(rows: &[Row], json: bool) -> Result<String, String> {
    if !json {
        return Ok(listing::table(rows));
    }
    let text = serde_json::to_string_pretty(rows).map_err(|e| e.to_string())?;
    Ok(text + "\n")
}

/// Prints to the end, or until the reader of a pipe has seen enough.
fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
