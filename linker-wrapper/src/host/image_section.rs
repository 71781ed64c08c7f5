//! Places the section with the device images in the program: see [`ImageSection`].
//!
//! With images of more than 2 GiB between them, code and data are out of each other's 32-bit reach, and the host link
//! fails. lld, mold and gold place a section that is marked `SHF_X86_64_LARGE` away from the others; only 64-bit addresses
//! reference it. GNU ld ignores the mark and needs a linker script. So does lld: it places a marked section in front of the
//! code, which is then out of reach of absolute 32-bit addresses (`-no-pie`) and of address 0, to which undefined weak
//! symbols resolve. Sections of the same name in other objects are placed with it.

use std::ffi::OsString;
use std::path::Path;

use crate::cli::options::Options;
use crate::cli::values::ImageSection;
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::linker_kind::{self, LinkerKind};
use crate::host::linker_script;
use crate::sys::process::Mode;
use crate::sys::temp_files::TempFiles;

/// Places the sections behind everything else, in a segment of their own, as GNU ld's default script places `.lrodata`. `_end`
/// stays in front of them: a static C library allocates its first memory there.
fn gnu_script() -> String {
    let [first, second] = ImageSection::NAMES;
    format!(
        "\
SECTIONS
{{
  __fatlink_near_end = .;
  {first} ALIGN(CONSTANT (MAXPAGESIZE)) + (. & (CONSTANT (MAXPAGESIZE) - 1)) : {{ *({first}) }}
  {second} ALIGN(CONSTANT (MAXPAGESIZE)) : {{ *({second}) }}
  . = __fatlink_near_end;
}}
INSERT AFTER .ldata;
"
    )
}

/// The same for lld, which defines `_end` behind all sections unless a script does. The first section belongs to static C
/// libraries; lld would place it behind the image.
fn lld_script() -> String {
    let [first, second] = ImageSection::NAMES;
    format!(
        "\
SECTIONS
{{
  __libc_freeres_ptrs : {{ *(__libc_freeres_ptrs) PROVIDE(_end = .); PROVIDE(end = .); }}
  {first} : {{ *({first}) }}
  {second} : {{ *({second}) }}
}}
INSERT AFTER .bss;
"
    )
}

/// From this size on, in bytes, the default section causes a warning: the rest of the program must fit into 2 GiB with it.
const RISKY: u64 = 7 << 28;

/// Warns about a size that may cause a relocation overflow.
pub fn warn_of_size(section: ImageSection, program: &str, size: u64) {
    if section == ImageSection::Default && size >= RISKY {
        let gigabytes = size as f64 / 1e9;
        warn(
            program,
            format_args!(
                "the {} has {gigabytes:.1} GB, and what lies on both sides of it may be too far apart for the host \
                 linker (a relocation overflow); say {}large",
                ImageSection::CONTENT,
                ImageSection::OPTION
            ),
        );
    }
}

/// The arguments with which the host linker places the section away from the others.
///
/// # Errors
/// The script cannot be written.
pub fn linker_words(
    linker: &Path,
    options: &Options,
    temp_files: &TempFiles,
    mode: Mode,
    program: &str,
) -> Result<Vec<OsString>, Errors> {
    // The link that consumes the output of `-r` places the section.
    if options.image_section == ImageSection::Default || options.relocatable {
        return Ok(Vec::new());
    }
    let Some(script) = script_for(linker_kind::of(linker, mode)) else { return Ok(Vec::new()) };
    if !linker_script::of_line(&options.host_line).is_empty() {
        warn(
            program,
            format_args!(
                "{}large: the host link has a linker script of its own, and none is added to it; place {} behind .bss in it",
                ImageSection::OPTION,
                ImageSection::NAMES.join(" and ")
            ),
        );
        return Ok(Vec::new());
    }
    Ok(vec!["-T".into(), temp_files.write(&format!("{}.ld", ImageSection::CONTENT), script.as_bytes())?.into()])
}

/// The script that a linker needs.
fn script_for(kind: LinkerKind) -> Option<String> {
    match kind {
        LinkerKind::Gnu => Some(gnu_script()),
        LinkerKind::Lld => Some(lld_script()),
        LinkerKind::Gold | LinkerKind::Other => None,
    }
}
