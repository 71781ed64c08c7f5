//! Reads versions from files, without running them.

use std::path::Path;

use memchr::memmem;
use object::{Object, ObjectSymbol};
use offload_bundle::CudaRelease;

use crate::sys::mapped_file::Mapped;

/// The versioned names of libnvJitLink's functions: `__nvJitLinkCreate_12_9` is there from release 12.9 on.
pub const NVJITLINK_CREATE: &str = "__nvJitLinkCreate_";

/// The release of a libnvJitLink, from the newest of its versioned symbols.
pub fn of_nvjitlink(path: &Path) -> Option<CudaRelease> {
    let content = Mapped::open(path).ok()?;
    let file = object::File::parse(content.bytes()).ok()?;
    let versions = file.dynamic_symbols().filter_map(|symbol| {
        let (major, minor) = symbol.name().ok()?.strip_prefix(NVJITLINK_CREATE)?.split_once('_')?;
        Some(CudaRelease { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    versions.max()
}

/// The version in the text of NVIDIA's programs: "Cuda compilation tools, release 13.0, V13.0.88" -> "13.0.88".
pub fn of_program(path: &Path) -> Option<String> {
    const BEFORE: &[u8] = b"Cuda compilation tools, release ";
    let content = Mapped::open(path).ok()?;
    let places = memmem::find_iter(content.bytes(), BEFORE);
    places.filter_map(|place| in_text(content.bytes()[place..].chunks(80).next()?)).next()
}

fn in_text(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let version = text.split(", V").nth(1)?;
    let version: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    (!version.is_empty()).then_some(version)
}

/// The release of a toolkit: `version.json` of an installation, `CUDA_VERSION` in cuda.h.
pub fn of_tree(root: &Path) -> Option<String> {
    let json = std::fs::read_to_string(root.join("version.json")).ok();
    let json = json.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let whole = json.and_then(|json| Some(json.get("cuda")?.get("version")?.as_str()?.to_owned()));
    let headers = [
        "include/cuda.h",
        "targets/x86_64-linux/include/cuda.h",
        "targets/sbsa-linux/include/cuda.h",
        "cuda_runtime/include/cuda.h",
    ];
    whole.or_else(|| headers.iter().find_map(|header| of_header(&root.join(header))))
}

/// `#define CUDA_VERSION 13000` -> "13.0".
fn of_header(path: &Path) -> Option<String> {
    let content = Mapped::open(path).ok()?;
    let text = String::from_utf8_lossy(content.bytes());
    let number: u32 = text.split("#define CUDA_VERSION ").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{}.{}", number / 1000, number % 1000 / 10))
}

/// The driver's own release, such as "580.65.06", from the file name of its library.
pub fn of_driver(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let version = real.file_name()?.to_str()?.strip_prefix("libcuda.so.")?.to_owned();
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let program = write(
            "ptxas",
            "\0Cuda compilation tools, release %d.%d,\0x\0Cuda compilation tools, release 12.9, V12.9.86\n\0",
        );
        assert_eq!(of_program(&program).as_deref(), Some("12.9.86"));
        assert_eq!(of_program(&write("other", "Cuda compilation tools, release 12.9")), None);
        assert_eq!(of_tree(folder.path()), None);
        write("include/cuda.h", "/**/\n#define CUDA_VERSION 12080\n");
        assert_eq!(of_tree(folder.path()).as_deref(), Some("12.8"));
        write("version.json", r#"{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}"#);
        assert_eq!(of_tree(folder.path()).as_deref(), Some("12.8.1"));
        assert_eq!(of_nvjitlink(&program), None);
    }

    #[test]
    fn the_driver_is_named_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("libcuda.so.580.65.06");
        std::fs::write(&real, "").unwrap();
        let link = folder.path().join("libcuda.so.1");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(of_driver(&link).as_deref(), Some("580.65.06"));
        assert_eq!(of_driver(folder.path()), None);
    }
}
