//! Runs programs of LLVM that finish device code: ld.lld, and the translators to SPIR-V.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::response_file;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::machines::error::Error;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// Links objects to a code object with ld.lld and returns its bytes with what it printed. If it `compiles` bitcode, that takes as long as it
/// takes.
///
/// # Errors
/// ld.lld cannot be started, fails or does not finish; the error contains its messages.
pub fn link_code_object(
    lld: &Path,
    target: &str,
    inputs: &[PathBuf],
    arguments: &[String],
    compiles: bool,
    output: &Path,
    mode: Mode,
) -> Result<(Vec<u8>, String), Errors> {
    let mut line: Vec<OsString> = vec!["--no-undefined".into(), "-shared".into()];
    line.extend(inputs.iter().map(|path| path.clone().into_os_string()));
    line.extend(arguments.iter().map(OsString::from));
    line.extend(["-o".into(), output.into()]);
    process::show(mode, lld, &line);
    if response_file::too_long(&line) {
        let file = output.with_extension("options");
        temp_files::write_file(&file, &response_file::join(&line))?;
        let mut word = OsString::from("@");
        word.push(file);
        line = vec![word];
    }
    let limit = if compiles { Duration::MAX } else { process::limit(inputs) };
    run(lld, target, &line, limit, output, mode)
}

/// Translates bitcode to SPIR-V with llvm-spirv, with the options that clang gives it.
///
/// # Errors
/// As [`link_code_object`].
pub fn translate(
    llvm_spirv: &Path,
    target: &str,
    input: PathBuf,
    output: &Path,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    const OPTIONS: [&str; 6] = [
        "--spirv-max-version=1.6",
        "--spirv-ext=+all",
        "--spirv-allow-unknown-intrinsics",
        "--spirv-lower-const-expr",
        "--spirv-preserve-auxdata",
        "--spirv-debug-info-version=nonsemantic-shader-200",
    ];
    let mut line: Vec<OsString> = OPTIONS.map(OsString::from).into();
    line.extend([input.clone().into_os_string(), "-o".into(), output.into()]);
    process::show(mode, llvm_spirv, &line);
    Ok(shown(run(llvm_spirv, target, &line, Duration::MAX, output, mode)?))
}

/// Compiles bitcode to SPIR-V with clang and LLVM's own backend.
///
/// # Errors
/// As [`link_code_object`].
pub fn compile_spirv(clang: &Path, triple: &str, input: PathBuf, output: &Path, mode: Mode) -> Result<Vec<u8>, Errors> {
    let triple_word = format!("-triple={triple}");
    let mut line: Vec<OsString> =
        ["-cc1", &triple_word, "-emit-obj", "-disable-llvm-optzns"].map(OsString::from).into();
    line.extend([input.clone().into_os_string(), "-o".into(), output.into()]);
    process::show(mode, clang, &line);
    Ok(shown(run(clang, triple, &line, Duration::MAX, output, mode)?))
}

/// Runs a linker that was shown, within a limit of processor time, and reads its output. A dry run gives nothing.
///
/// # Errors
/// The program cannot be started, fails, does not end or leaves no output.
pub fn finish(
    program: &Path,
    target: &str,
    inputs: &[PathBuf],
    line: &[OsString],
    output: &Path,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    Ok(shown(run(program, target, line, process::limit(inputs), output, mode)?))
}

/// Shows what a program printed, and returns its output.
fn shown((bytes, messages): (Vec<u8>, String)) -> Vec<u8> {
    if !messages.is_empty() {
        messages::show(messages);
    }
    bytes
}

/// Runs a program that was shown. Returns its output, and what it wrote to standard error.
fn run(
    program: &Path,
    target: &str,
    line: &[OsString],
    limit: Duration,
    output: &Path,
    mode: Mode,
) -> Result<(Vec<u8>, String), Errors> {
    if mode.dry {
        return Ok((Vec::new(), String::new()));
    }
    let (name, target) = (|| program.to_owned(), || target.to_owned());
    let captured = process::capture_within(program, line, limit);
    let (result, late) = captured.map_err(|source| Error::Start { program: name(), source })?;
    if late {
        return Err(Error::ImageLinkerLate { program: name(), target: target(), limit }.into());
    }
    let messages = String::from_utf8_lossy(&result.stderr).trim().to_owned();
    if !result.status.success() {
        return Err(
            Error::ImageLinker { program: name(), target: target(), status: result.status, output: messages }.into()
        );
    }
    // Maps, cross references and the like.
    messages::report(&program.display().to_string(), &String::from_utf8_lossy(&result.stdout));
    match std::fs::read(output) {
        Ok(bytes) => Ok((bytes, messages)),
        Err(source) => {
            // They may say why.
            shown((Vec::new(), messages));
            Err(Error::NoImage { program: name(), target: target(), source }.into())
        }
    }
}
