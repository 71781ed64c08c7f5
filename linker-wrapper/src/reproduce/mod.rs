//! `--reproduce`: an archive from which a link can be repeated elsewhere.
//!
//! It holds the files that the link reads, a response file with the command line for them, and a text that says which releases of which
//! tools the link had. The archive is written before the link begins, so that one that fails or crashes has it, too.

mod error;
mod files;
mod inputs;
mod line;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::cli::options::Options;
use crate::cli::persona::Persona;
use crate::cli::values::Part;
use crate::cli::{device_words, response_file};
use crate::diag::error::Errors;
use crate::host::{coff, host_linker};
use crate::sys::{cache, process, temp_files};
use crate::toolchain::{Toolchain, print};
use error::Error;
use files::Files;
use line::Line;

/// Writes the archive that `--reproduce` names. `words` is the line without response files and without `argv[0]`.
///
/// # Errors
/// A file of the link cannot be read, or the archive cannot be written.
pub fn write(words: &[OsString], options: &Options, persona: Persona, program: &str) -> Result<(), Errors> {
    let is_query = options.help.is_some() || options.version || options.print_toolchain || options.linker_query;
    let Some(file) = options.reproduce.as_deref().filter(|_| !is_query) else { return Ok(()) };
    if options.host_triple.as_deref().is_some_and(coff::is_host) {
        return Err(Error::WindowsHost.into());
    }
    let device = device_words::read(options);
    let toolchain = Toolchain::of(options, &device);
    let mut archive = Files::default();
    let mut line = line::rewrite(words, persona, &mut archive);
    let folders = inputs::add(options, program, &line.run_paths, &mut archive);
    line::device_libraries(&options.device_linker).iter().for_each(|library| drop(archive.add(library)));
    let mut response = named_tools(options, &toolchain, program, &mut archive)?;
    response.append(&mut line.words);
    response.extend(folders.libraries.iter().map(|folder| option("-L", folder)));
    response.extend(folders.needed.iter().map(|folder| option("-rpath-link=", folder)));

    let same = |role| Err(Error::SameFile { file: file.to_owned(), role }.into());
    if files::name_of(file) == files::name_of(options.output.as_deref().unwrap_or(Path::new("a.out"))) {
        return same("the output");
    }
    if archive.contains(file) {
        return same("an input");
    }
    let version = version_text(&Reproduced { words, options, program, toolchain: &toolchain, line: &line }, &archive);
    let texts = [("response.txt", response_file::join(&response)), ("version.txt", version.into_bytes())];
    let folder = PathBuf::from(file.file_stem().unwrap_or("reproduce".as_ref()));
    temp_files::write_output_by(file, |output| archive.write(&folder, &texts, output))
}

fn option(spelling: &str, path: &Path) -> OsString {
    let mut word = OsString::from(spelling);
    word.push(path);
    word
}

/// Options that name what this link finds by itself: tools by their places here, device libraries in the archive.
fn named_tools(
    options: &Options,
    toolchain: &Toolchain,
    program: &str,
    archive: &mut Files,
) -> Result<Vec<OsString>, Errors> {
    let mut words = Vec::new();
    // Without a linker, or with one that does not exist, the link fails again in the same way.
    let linker = host_linker::find(options, program).ok().or_else(|| options.linker_path.clone());
    words.extend(linker.map(|linker| option("--linker-path=", &linker)));
    words.extend(toolchain.root().map(|root| option("--cuda-path=", root)));
    for (part, path) in options.parts.iter() {
        if !matches!(part, Part::Libdevice | Part::Cudadevrt) || !path.is_file() {
            words.push(option(part.option(), path));
        }
    }
    for part in [Part::Libdevice, Part::Cudadevrt] {
        let found = toolchain.path(part).filter(|path| path.is_file());
        words.extend(found.map(|path| option(part.option(), &archive.add(&path))));
    }
    // With a cache, programs are cut in another way.
    let has_cache = cache::of(options.cache.as_ref(), None)?.is_some();
    if has_cache || cache::is_remote_requested(&options.remote_cache, &options.environment.device().remote_cache) {
        words.push("--offload-cache=cache".into());
    }
    Ok(words)
}

/// The words without the values of these options, which name places of this machine or may be secret.
fn without_values(words: &[OsString], spellings: &[String]) -> Vec<OsString> {
    let shown = |word: &OsString| {
        let text = word.to_string_lossy();
        let hidden = spellings.iter().find(|spelling| spelling.ends_with('=') && text.starts_with(spelling.as_str()));
        hidden.map_or_else(|| word.clone(), |spelling| format!("{spelling}...").into())
    };
    words.iter().map(shown).collect()
}

/// What the text about a link is made of.
struct Reproduced<'a> {
    words: &'a [OsString],
    options: &'a Options,
    program: &'a str,
    toolchain: &'a Toolchain,
    line: &'a Line,
}

fn version_text(of: &Reproduced<'_>, archive: &Files) -> String {
    let Reproduced { words, options, program, toolchain, line } = of;
    let (own, llvm) = (env!("CARGO_PKG_VERSION"), llvm_passes::bitcode::our_version());
    let mut text = format!("{program} {own} (fatlink, LLVM {llvm})\n\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "In the folder of this file:\n    {program} @response.txt\n");
    let _ = writeln!(
        text,
        "The link that this archive was written of:{}",
        process::command_line(Path::new(program), &without_values(words, &line.left_out))
    );
    if let Ok(folder) = std::env::current_dir() {
        let _ = writeln!(text, "in {}", folder.display());
    }
    for word in &line.left_out {
        let _ = writeln!(text, "Left out of response.txt: {word}");
    }
    for note in archive.notes() {
        let _ = writeln!(text, "Note: {note}");
    }
    text.push_str(
        "\nTools are not in the archive. Other releases of them may write other bytes; options behind @response.txt name them:\n",
    );
    text.push_str(&print::table(toolchain, host_linker::find_with_source(options, program)));
    if let Some(version) = host_linker::version(options, program) {
        let _ = writeln!(text, "host linker   {}", version.lines().next().unwrap_or_default());
    }
    text
}
