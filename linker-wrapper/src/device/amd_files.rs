//! The files and archives that the line names for AMD's GPUs (`-Xoffload-linker dev.bc`, `-ldev`): bitcode is compiled with that of the images, as
//! ld.lld's own LTO does it, and objects are linked with the result. What is neither is left to ld.lld: linker scripts, libraries that it alone
//! finds, and what it reports.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use llvm_passes::bitcode;
use llvm_passes::unit::CachedFacts;
use offload_bundle::amdgpu;
use offload_bundle::host_object::{self, FileKind};

use crate::cli::amd_options::AmdOptions;
use crate::cli::device_options::DeviceInput;
use crate::cli::options::Options;
use crate::device::error::Error;
use crate::device::line_parts::{self, LineImage, Part};
use crate::device::targets::Code;
use crate::diag::error::{Errors, both};
use crate::host::input_files::InputFiles;
use crate::sys::mapped_file::Mapped;

/// The mapped files and archives for one triple.
pub struct AmdFiles {
    inputs: InputFiles,
    /// What is left to ld.lld.
    left: Vec<DeviceInput>,
}

/// The code of the files for one triple.
pub struct AmdCode<'f> {
    /// The code of each file and member.
    pub parts: Vec<Part<'f>>,
    /// The inputs that are left to ld.lld.
    pub left: &'f [DeviceInput],
}

impl AmdFiles {
    /// Opens what the line names for this triple.
    ///
    /// # Errors
    /// Files that cannot be read, damaged archives, libraries that are in no folder.
    pub fn open(options: &Options, triple: &str) -> Result<Self, Errors> {
        let AmdOptions { inputs, library_paths, .. } = AmdOptions::read(options, triple);
        let (mut files, mut left, mut errors) = (Vec::new(), Vec::new(), Errors::default());
        for input in inputs {
            match (find(&input, &library_paths).filter(|path| is_read_here(path)), &input) {
                (Some(path), _) => files.push((path, input.is_whole())),
                (None, DeviceInput::Library { name, .. }) if !may_be_found(name, &library_paths) => {
                    errors.extend(Error::NoLibrary { name: name.clone(), folders: library_paths.clone() });
                }
                (None, _) => left.push(input),
            }
        }
        let (inputs, ()) = both(InputFiles::of_device_link(&files), errors.or(()))?;
        Ok(AmdFiles { inputs, left })
    }

    /// The files.
    pub fn inputs(&self) -> &InputFiles {
        &self.inputs
    }

    /// The code of the files. `facts` has what earlier links read of its units.
    pub fn code<'a>(&'a self, facts: Option<&'a dyn CachedFacts>) -> AmdCode<'a> {
        let parts = self.inputs.files().iter().map(|file| {
            let bytes = self.inputs.bytes(file);
            let image = |code| LineImage::new(&line_parts::origin(file), code, Cow::Borrowed(bytes), facts);
            Part { file, images: form(bytes).map(image).into_iter().collect() }
        });
        AmdCode { parts: parts.collect(), left: &self.left }
    }
}

fn find(input: &DeviceInput, folders: &[PathBuf]) -> Option<PathBuf> {
    match input {
        DeviceInput::File { path, .. } => Some(path.clone()),
        DeviceInput::Library { name, .. } => line_parts::locate(name, folders),
    }
}

/// Whether ld.lld may find a library whose archive is in none of these folders: a shared one, or one in a folder of the sysroot.
fn may_be_found(name: &str, folders: &[PathBuf]) -> bool {
    let shared = format!("lib{name}.so");
    folders.iter().any(|folder| folder.to_string_lossy().starts_with('=') || folder.join(&shared).is_file())
}

/// Whether a file is one whose code the device link reads itself.
fn is_read_here(path: &Path) -> bool {
    Mapped::open(path).is_ok_and(|content| {
        let is_archive = matches!(host_object::file_kind(content.bytes()), FileKind::Archive | FileKind::ThinArchive);
        is_archive || form(content.bytes()).is_some()
    })
}

/// The form of code that can be linked. ld.lld ignores members of archives that have none, too.
fn form(bytes: &[u8]) -> Option<Code> {
    if bitcode::is_bitcode(bytes) {
        return Some(Code::Bitcode);
    }
    amdgpu::header(bytes).is_ok_and(|header| header.relocatable).then_some(Code::Object)
}
