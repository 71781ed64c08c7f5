//! Runs programs of LLVM that finish device code: ld.lld, and the translators to SPIR-V.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::response_file;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::machines::error::Error;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// Links objects to a code object with ld.lld and returns its bytes.
///
/// # Errors
/// ld.lld cannot be started, fails or does not finish; the error contains its messages.
pub fn link_code_object(
    lld: &Path,
    target: &str,
    inputs: &[PathBuf],
    arguments: &[String],
    output: &Path,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
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
    finish(lld, target, inputs, &line, output, mode)
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
    finish(llvm_spirv, target, &[input], &line, output, mode)
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
    finish(clang, triple, &[input], &line, output, mode)
}

/// Runs a program that was shown, within a time limit, and reads its output. A dry run gives nothing.
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
    if mode.dry {
        return Ok(Vec::new());
    }
    let (name, target) = (|| program.to_owned(), || target.to_owned());
    let limit = process::limit(inputs);
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
    if !messages.is_empty() {
        messages::show(messages);
    }
    // Maps, cross references and the like.
    messages::report(&program.display().to_string(), &String::from_utf8_lossy(&result.stdout));
    Ok(std::fs::read(output).map_err(|source| Error::NoImage { program: name(), target: target(), source })?)
}
