//! `offload-bundle extract`.

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::listing::{self, Row};
use offload_bundle::selection::Selector;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::OutputFiles;
use crate::input;
use crate::output::{self, CommandOutput};

#[derive(Args)]
pub struct ExtractArguments {
    /// An ELF object, executable or library, an archive, a fatbin, a cubin or an offload binary
    file: PathBuf,
    /// Images for exactly this target, such as sm_90 or gfx906:xnack-
    #[arg(long, value_name = "TARGET")]
    target: Vec<String>,
    /// Images of this kind: cubin, ptx, ltoir, bitcode, object, …
    #[arg(long, value_name = "KIND", value_parser = Selector::of_kind)]
    kind: Vec<Selector>,
    /// The image on this line of `offload-bundle list`, the first line below the headings being 1
    #[arg(long, value_name = "NUMBER")]
    index: Vec<usize>,
    /// Images with this name of a source file in the container
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Images of this archive member
    #[arg(long, value_name = "NAME")]
    member: Vec<String>,
    /// Where to: a file (`-` is standard output) for one image, or a folder, which is made if it is missing; without, the working folder
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The bytes as stored: still compressed, with the container's padding, PTX with its final NUL
    #[arg(long)]
    raw: bool,
    /// Print an array of objects, one for each file written
    #[arg(long)]
    json: bool,
}

/// A file written. The field names are the keys of the JSON output.
#[derive(Serialize)]
struct Extracted {
    /// The image's line of `offload-bundle list`, from 1.
    index: usize,
    /// The path of the file.
    file: String,
    /// Its size in bytes.
    size: u64,
    /// What `offload-bundle list` shows of the image.
    image: Row,
}

/// An image that was chosen.
struct Chosen {
    index: usize,
    row: Row,
    bytes: Vec<u8>,
}

pub fn run(arguments: &ExtractArguments) -> Result<CommandOutput> {
    let chosen = choose(arguments)?;
    if arguments.output.as_deref() == Some(Path::new("-")) {
        return to_standard_output(arguments, &chosen);
    }
    let paths = places(arguments, &chosen)?;
    let mut outputs = OutputFiles::default();
    for (chosen, path) in chosen.iter().zip(&paths) {
        outputs.add(path, &chosen.bytes, None)?;
    }
    outputs.keep()?;
    let written: Vec<Extracted> = chosen.into_iter().zip(&paths).map(|(chosen, path)| describe(chosen, path)).collect();
    let text = if arguments.json {
        output::json(&written)?
    } else {
        written.iter().map(|one| format!("{}: {} bytes\n", one.file, one.size)).collect()
    };
    Ok(CommandOutput::success(text))
}

fn describe(chosen: Chosen, path: &Path) -> Extracted {
    let size = chosen.bytes.len() as u64;
    Extracted { index: chosen.index, file: path.display().to_string(), size, image: chosen.row }
}

/// The images wanted, with their bytes. All are read before any is written.
fn choose(arguments: &ExtractArguments) -> Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    let mut count = 0;
    input::read(&arguments.file, |data, read_thin| {
        listing::visit(data, read_thin, |found| {
            count += 1;
            if arguments.wants(count, &found.row) {
                let bytes = if arguments.raw { found.stored().to_vec() } else { found.payload()?.into_owned() };
                chosen.push(Chosen { index: count, row: found.row.clone(), bytes });
            }
            Ok(())
        })
    })?;
    let file = || arguments.file.clone();
    if count == 0 {
        return Err(Error::NoImages { file: file() });
    }
    if chosen.is_empty() {
        return Err(Error::NothingSelected { file: file(), count });
    }
    Ok(chosen)
}

impl ExtractArguments {
    fn wants(&self, index: usize, row: &Row) -> bool {
        let any =
            |wanted: &[String], has: Option<&String>| wanted.is_empty() || has.is_some_and(|has| wanted.contains(has));
        any(&self.target, Some(&row.target))
            && (self.kind.is_empty() || self.kind.iter().any(|kind| kind.matches(row)))
            && (self.index.is_empty() || self.index.contains(&index))
            && any(&self.name, row.name.as_ref())
            && any(&self.section, row.section.as_ref())
            && any(&self.member, row.member.as_ref())
    }
}

fn to_standard_output(arguments: &ExtractArguments, chosen: &[Chosen]) -> Result<CommandOutput> {
    let [one] = chosen else {
        return Err(several(arguments, chosen));
    };
    if arguments.json {
        return Err(Error::JsonAndImageOnStandardOutput);
    }
    output::print(&one.bytes)?;
    Ok(CommandOutput::success(String::new()))
}

fn several(arguments: &ExtractArguments, chosen: &[Chosen]) -> Error {
    let lines = chosen.iter().map(|one| one.index).collect();
    Error::SeveralImagesForOneFile { file: arguments.file.clone(), lines }
}

/// The file of each image; creates the folders.
fn places(arguments: &ExtractArguments, chosen: &[Chosen]) -> Result<Vec<PathBuf>> {
    let output = arguments.output.as_deref().unwrap_or(Path::new("."));
    let is_folder = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !is_folder {
        if chosen.len() == 1 {
            return Ok(vec![output.to_owned()]);
        }
        return Err(several(arguments, chosen));
    }
    std::fs::create_dir_all(output).map_err(|source| Error::CreateFolder { path: output.to_owned(), source })?;
    Ok(chosen.iter().map(|one| output.join(file_name(&arguments.file, one))).collect())
}

/// `app.3.sm_90.ptx`. Words of the file may hold anything, `../` too, so only harmless characters of them are used.
fn file_name(file: &Path, chosen: &Chosen) -> String {
    let stem = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let target = if chosen.row.target.is_empty() { "" } else { &chosen.row.target };
    let words = [stem.as_str(), &chosen.index.to_string(), target].map(harmless);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    format!("{}.{}", words.join("."), extension(&chosen.row))
}

fn harmless(word: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "_-+.:".contains(c) { c } else { '_' };
    word.chars().map(harmless).take(100).collect::<String>().trim_matches('.').to_owned()
}

fn extension(row: &Row) -> &'static str {
    match row.image.as_str() {
        "cubin" | "old cubin" => "cubin",
        "ptx" | "relocatable ptx" => "ptx",
        "ltoir" => "ltoir",
        "bitcode" => "bc",
        "object" => "o",
        "fatbin" => "fatbin",
        "spirv" => "spv",
        "tile ir" => "tileir",
        _ => "bin",
    }
}
