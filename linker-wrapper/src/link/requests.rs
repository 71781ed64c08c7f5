//! Options that are carried out, answered or rejected before anything is linked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::device_options::DeviceOptions;
use crate::cli::mistyped;
use crate::cli::options::{Help, Options};
use crate::cli::unsupported::Unsupported;
use crate::cli::values::RelocatableCode;
use crate::diag::error::Errors;
use crate::diag::messages::{self, warn};
use crate::host::{coff, host_linker};
use crate::kinds::interface::DeviceLink;
use crate::plan::link_context::Request;
use crate::toolchain::{Toolchain, print};

/// The name by which persons, not compilers, start the program.
const FATLINK: &str = "fatlink";

/// Returns the output of `--help` and of `--version` under the wrapper's name.
pub fn answer(options: &Options, program: &str) -> Option<String> {
    let version = || {
        // clang -Wl,--version: a build system wants to know the linker.
        let linkers = options.linker_path.as_ref().and_then(|_| host_linker::version(options, program));
        format!(
            "{}{program} version {} (fatlink, LLVM {})\n",
            linkers.unwrap_or_default(),
            env!("CARGO_PKG_VERSION"),
            llvm_passes::bitcode::our_version()
        )
    };
    options.help.map(|help| help.text(program)).or_else(|| options.version.then(version))
}

/// The answer to `--print-toolchain`.
pub fn toolchain_table(options: &Options, device: &DeviceOptions, program: &str) -> String {
    print::table(&Toolchain::of(options, device), host_linker::find_with_source(options, program))
}

/// Prints the short help if the line is the name `fatlink` alone, or that and `-h`. Returns the exit code.
///
/// # Errors
/// The help cannot be written.
pub fn brief_help(line: &[OsString], program: &str) -> Result<Option<u8>, Errors> {
    let code = match line {
        _ if program != FATLINK => return Ok(None),
        [] => 1,
        [word] if word == "-h" => 0,
        _ => return Ok(None),
    };
    messages::answer(&Help::Brief.text(program)).map(|()| Some(code))
}

/// Rejects words that resemble an option in a line of the name `fatlink` without inputs, which a person wrote. Other lines without inputs go to
/// the host linker, which may answer them.
///
/// # Errors
/// One for each word.
pub fn reject_mistyped(line: &[OsString], options: &Options, program: &str) -> Result<(), Errors> {
    let is_written = program == FATLINK && options.inputs.is_empty();
    let words = line.iter().filter(|_| is_written);
    words.filter_map(|word| mistyped::without_inputs(word)).collect::<Errors>().or(())
}

/// What the names of kept intermediate files begin with: the output's path, or its name in the folder of `--save-temps=`.
pub fn saved_files(options: &Options, output: &Path) -> Option<PathBuf> {
    let in_folder = |folder: &PathBuf| folder.join(output.file_name().unwrap_or_default());
    options.save_temps.then(|| options.temps_folder.as_ref().map_or_else(|| output.to_owned(), in_folder))
}

/// Passes LLVM its own options. LLVM itself prints the help of `-mllvm --help` and the error for an unknown option.
pub fn apply_llvm_options(program: &str, device: &DeviceOptions) -> Result<(), Errors> {
    if device.llvm_options.is_empty() {
        return Ok(());
    }
    llvm_passes::initialize();
    if llvm_passes::parse_llvm_options(program, &device.llvm_options) {
        return Ok(());
    }
    Err(Unsupported::LlvmOptions { options: device.llvm_options.join(" ") }.into())
}

/// Warns about arguments of `--device-linker=` for a triple that this link has no code for. Libraries are exempt: a library that is
/// not referenced is not a mistake.
pub fn warn_of_unused_arguments(request: &Request<'_>, links: &[Box<dyn DeviceLink + '_>]) {
    let triples: Vec<&str> = links.iter().flat_map(|link| link.triples()).collect();
    for (triple, word) in &request.options.device_linker {
        let is_library = word.starts_with("-l") || word.starts_with("-L");
        let is_useful = match triple {
            Some(triple) => triples.contains(&triple.as_str()),
            None => !triples.is_empty(),
        };
        if !is_useful && !is_library {
            let of = triple.as_ref().map_or_else(String::new, |triple| format!("{triple}="));
            let what = triple.as_ref().map_or_else(String::new, |triple| format!(" for {triple}"));
            warn(
                request.program,
                format_args!("--device-linker={of}{word} has no effect: this link has no device code{what}"),
            );
        }
    }
}

/// Rejects options that this version does not support, before anything is compiled.
pub fn reject_unsupported(options: &Options, device: &DeviceOptions) -> Result<(), Errors> {
    let mut errors = Errors::default();
    if options.merges_device_code() {
        for file in &device.inputs {
            errors.extend(Unsupported::NoHostObject { file: file.to_string() });
        }
    }
    if options.relocatable_code == RelocatableCode::Merged && (options.dlink || options.emit_image_only) {
        errors.extend(Unsupported::NotRelocatable);
    }
    let others = [("-r", options.relocatable), ("--dlink", options.dlink)];
    for (option, _) in others.into_iter().filter(|(_, is_given)| *is_given && options.code_object.is_some()) {
        errors.extend(Unsupported::CodeObjectWith { option });
    }
    if options.embed_bitcode {
        errors.extend(Unsupported::EmbedBitcode);
    }
    if let Some(triple) = options.host_triple.as_deref().filter(|triple| coff::is_host(triple))
        && !options.emit_image_only
    {
        errors.extend(coff::refused(&format!("--host-triple={triple}")));
    }
    errors.or(())
}
