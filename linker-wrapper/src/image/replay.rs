//! The steps of a script (`sys/replay.rs`) that make the fatbin and put it into the registration object.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::cli::device_options::DeviceOptions;
use crate::diag::error::Errors;
use crate::image::fatbin::Parts;
use crate::sys::process;
use crate::sys::replay;
use crate::sys::temp_files::TempFiles;

/// How the fatbin is made.
pub struct Making<'a> {
    /// The options of `offload-bundle create` for its compression.
    pub compression: Vec<String>,
    /// The options of the device link.
    pub device: &'a DeviceOptions,
    /// The section of the registration object that holds it.
    pub section: &'a str,
    /// The registration object.
    pub object: PathBuf,
}

/// Records the steps if there is a script.
///
/// # Errors
/// A file cannot be written.
pub fn record(parts: &Parts<'_>, making: &Making<'_>, temp_files: &TempFiles) -> Result<(), Errors> {
    if !replay::is_on() {
        return Ok(());
    }
    let mut words: Vec<OsString> = vec!["create".into()];
    for (kind, arch, bytes) in parts.entries() {
        let mut image = OsString::from(format!("kind={kind},arch={},file=", number(kind, arch)));
        image.push(file_of(kind, arch, bytes, temp_files)?);
        words.extend(["--image".into(), image]);
    }
    if !making.device.ptxas_arguments.is_empty() {
        words.push(format!("--cmdline={}", making.device.ptxas_arguments.join(" ")).into());
    }
    if making.device.debug {
        words.push("-g".into());
    }
    words.extend(making.compression.iter().map(OsString::from));
    let fatbin = temp_files.file("fatbin");
    words.extend(["-o".into(), fatbin.clone().into()]);
    replay::step(&replay::sibling("offload-bundle"), &words);
    let mut section = OsString::from(format!("{}=", making.section));
    section.push(fatbin);
    // GNU objcopy changes the entry size of .init_array, which differs in the program, without an effect.
    let found = ["llvm-objcopy", "objcopy"].iter().find_map(|name| process::find_program(name.as_ref(), &|_| true));
    let objcopy = found.unwrap_or_else(|| PathBuf::from("objcopy"));
    replay::step(&objcopy, &["--update-section".into(), section, making.object.clone().into()]);
    Ok(())
}

fn number(kind: &str, arch: GpuArch) -> String {
    if kind == "ptx" { arch.virtual_name() } else { arch.to_string() }
}

/// The kept file with these bytes. Where what a tool wrote is changed in this process, the result gets a file of its own.
fn file_of(kind: &str, arch: GpuArch, bytes: &[u8], temp_files: &TempFiles) -> Result<PathBuf, Errors> {
    let candidates = [
        format!("{arch}.linked.cubin"),
        format!("{arch}.0.cubin"),
        format!("{arch}.0.{arch}.cubin"),
        format!("{arch}.0.{}.image.ptx", arch.virtual_name()),
        format!("{}.ptx", arch.virtual_name()),
    ];
    let has_bytes = |path: &Path| std::fs::read(path).is_ok_and(|content| content == bytes);
    let mut files = candidates.iter().map(|name| temp_files.file(name));
    if let Some(found) = files.find(|path| has_bytes(path)) {
        return Ok(found);
    }
    let own = temp_files.write(&format!("image.{arch}.{kind}"), bytes)?;
    replay::note(&format!("{} is as this link left it: no tool makes it of the files above", own.display()));
    Ok(own)
}
