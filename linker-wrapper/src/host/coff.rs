//! Objects of Windows hosts (COFF).
//!
//! Their device code cannot be linked yet and is rejected; a link without device code is passed to the host linker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use memchr::memmem;
use offload_bundle::host_object::{CarrierKind, carriers};

use crate::diag::error::Errors;
use crate::host::error::{Error, damaged};

/// Whether objects of this host are COFF files.
pub fn is_host(triple: &str) -> bool {
    let of_windows = ["windows", "win32", "mingw", "cygwin", "uefi"].iter().any(|system| triple.contains(system));
    of_windows && !triple.ends_with("-elf") && !triple.ends_with("-macho")
}

/// The error for device code of a Windows host in `what`.
pub fn refused(what: &str) -> Errors {
    Error::WindowsHost { what: what.to_owned() }.into()
}

/// Rejects a COFF object with device code; the object starts at `base` in its file. Libraries and programs (PE) are finished.
///
/// # Errors
/// The object has device code, or is damaged.
pub fn reject_device_code(name: &str, object: &[u8], base: u64) -> Result<(), Errors> {
    if object.starts_with(b"MZ") {
        return Ok(());
    }
    let carriers = match carriers(object) {
        Ok(carriers) => carriers,
        // A file of another kind may begin as COFF objects do, and host linkers accept any file.
        Err(_) if memmem::find(object, b".llvm.offloading").is_none() => return Ok(()),
        Err(error) => return Err(damaged(name, base, &error)),
    };
    let device_code = carriers.iter().find(|carrier| carrier.kind == CarrierKind::OffloadBinaries);
    match device_code {
        Some(found) => Err(refused(&format!("{name} at offset {:#x}", base + found.offset))),
        None => Ok(()),
    }
}

/// The files that link.exe and lld-link find by name, in the folders of `/libpath:` and of the variable LIB.
pub fn libraries(line: &[OsString], variable: Option<OsString>) -> Vec<PathBuf> {
    let words: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let valued = |name: &'static str| words.iter().filter_map(move |word| value_of(word, name));
    let variable = variable.unwrap_or_default().to_string_lossy().into_owned();
    let folders: Vec<&str> = valued("libpath").chain(variable.split(';').filter(|folder| !folder.is_empty())).collect();
    let plain = words.iter().map(String::as_str).filter(|word| !word.starts_with(['-', '/']));
    let names = plain.chain(valued("defaultlib")).chain(valued("wholearchive"));
    let file = |name: &str| {
        let name = if Path::new(name).extension().is_some() { name.to_owned() } else { format!("{name}.lib") };
        // A file that is found without a search is an ordinary input, unless an option names it.
        let places = std::iter::once("").chain(folders.iter().copied());
        places.map(|folder| Path::new(folder).join(&name)).find(|path| path.is_file())
    };
    names.filter_map(file).collect()
}

/// The value of `/name:value` or `-name:value`, ignoring case.
fn value_of<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    let (option, value) = word.strip_prefix(['-', '/'])?.split_once(':')?;
    option.eq_ignore_ascii_case(name).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_their_headers() {
        for (triple, coff) in [
            ("x86_64-pc-windows-msvc", true),
            ("x86_64-w64-mingw32", true),
            ("aarch64-unknown-windows-gnu", true),
            ("x86_64-pc-windows-msvc-elf", false),
            ("x86_64-pc-linux-gnu", false),
            ("", false),
        ] {
            assert_eq!(is_host(triple), coff, "{triple}");
        }
    }

    #[test]
    fn libraries_are_told_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for (place, names) in [(&one, &["a.lib", "c.lib"][..]), (&other, &["a.lib", "b.lib"])] {
            std::fs::create_dir(place).unwrap();
            names.iter().for_each(|name| std::fs::write(place.join(name), "").unwrap());
        }
        let line = ["-out:x.exe", &format!("/LIBPATH:{}", one.display()), "a.lib", "-defaultlib:b", "none.lib"];
        let line: Vec<OsString> =
            [&line[..], &["/wholearchive:c.lib", "/wholearchive"]].concat().iter().map(OsString::from).collect();
        let found = libraries(&line, Some(format!("/no/such/folder;{};", other.display()).into()));
        assert_eq!(found, [one.join("a.lib"), other.join("b.lib"), one.join("c.lib")]);
    }
}
