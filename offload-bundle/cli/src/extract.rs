//! `offload-bundle extract`.

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::host_object::Search;
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
    /// Images whose source file has this name in the container
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Images in this archive member
    #[arg(long, value_name = "NAME")]
    member: Vec<String>,
    /// Where to write: a file (`-` is standard output) for one image, or a folder, which is created if it is
    /// missing; by default, the working folder
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The bytes as stored: still compressed, with the container's padding, PTX with its final NUL
    #[arg(long)]
    raw: bool,
    /// Print a JSON array of objects, one for each file written
    #[arg(long)]
    json: bool,
}

/// A file that was written. The field names are the keys of the JSON output.
#[derive(Serialize)]
struct Extracted {
    /// The image's line of `offload-bundle list`, from 1.
    index: usize,
    /// The path of the file.
    file: String,
    /// Its size in bytes.
    size: u64,
    /// The image's row of `offload-bundle list`.
    image: Row,
}

/// An image that the options select.
struct SelectedImage {
    index: usize,
    row: Row,
    bytes: Vec<u8>,
}

pub fn run(arguments: &ExtractArguments) -> Result<CommandOutput> {
    let selected = select(arguments)?;
    if arguments.output.as_deref() == Some(Path::new("-")) {
        return to_standard_output(arguments, &selected);
    }
    let paths = output_paths(arguments, &selected)?;
    let mut outputs = OutputFiles::default();
    for (selected, path) in selected.iter().zip(&paths) {
        outputs.add(path, &selected.bytes, None)?;
    }
    outputs.keep()?;
    let written: Vec<Extracted> =
        selected.into_iter().zip(&paths).map(|(selected, path)| describe(selected, path)).collect();
    let text = if arguments.json {
        output::json(&written)?
    } else {
        written.iter().map(|one| format!("{}: {} bytes\n", one.file, one.size)).collect()
    };
    Ok(CommandOutput::success(text))
}

fn describe(selected: SelectedImage, path: &Path) -> Extracted {
    let size = selected.bytes.len() as u64;
    Extracted { index: selected.index, file: path.display().to_string(), size, image: selected.row }
}

/// Reads the selected images, all of them before any is written.
fn select(arguments: &ExtractArguments) -> Result<Vec<SelectedImage>> {
    let mut selected = Vec::new();
    let mut count = 0;
    input::read(&arguments.file, Search::Sections, |data, read_thin| {
        listing::visit(data, read_thin, |found| {
            count += 1;
            if arguments.selects(count, &found.row) {
                let bytes = if arguments.raw { found.stored().to_vec() } else { found.payload()?.into_owned() };
                selected.push(SelectedImage { index: count, row: found.row.clone(), bytes });
            }
            Ok(())
        })
    })?;
    let file = || arguments.file.clone();
    if count == 0 {
        return Err(Error::NoImages { file: file() });
    }
    if selected.is_empty() {
        return Err(Error::NothingSelected { file: file(), count });
    }
    Ok(selected)
}

impl ExtractArguments {
    fn selects(&self, index: usize, row: &Row) -> bool {
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

fn to_standard_output(arguments: &ExtractArguments, selected: &[SelectedImage]) -> Result<CommandOutput> {
    let [one] = selected else {
        return Err(several_images(arguments, selected));
    };
    if arguments.json {
        return Err(Error::JsonAndImageOnStandardOutput);
    }
    output::print(&one.bytes)?;
    Ok(CommandOutput::success(String::new()))
}

fn several_images(arguments: &ExtractArguments, selected: &[SelectedImage]) -> Error {
    let lines = selected.iter().map(|one| one.index).collect();
    Error::SeveralImagesForOneFile { file: arguments.file.clone(), lines }
}

/// Returns the path of each image's file, and creates the folder.
fn output_paths(arguments: &ExtractArguments, selected: &[SelectedImage]) -> Result<Vec<PathBuf>> {
    let output = arguments.output.as_deref().unwrap_or(Path::new("."));
    let is_folder = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !is_folder {
        if selected.len() == 1 {
            return Ok(vec![output.to_owned()]);
        }
        return Err(several_images(arguments, selected));
    }
    std::fs::create_dir_all(output).map_err(|source| Error::CreateFolder { path: output.to_owned(), source })?;
    Ok(selected.iter().map(|one| output.join(file_name(&arguments.file, one))).collect())
}

/// Builds a name such as `app.3.sm_90.ptx`. Names in a file can contain anything, even `../`, so all but harmless characters are replaced.
fn file_name(file: &Path, selected: &SelectedImage) -> String {
    let stem = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let target = if selected.row.target.is_empty() { "" } else { &selected.row.target };
    let words = [stem.as_str(), &selected.index.to_string(), target].map(sanitized);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    format!("{}.{}", words.join("."), extension(&selected.row))
}

fn sanitized(word: &str) -> String {
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
