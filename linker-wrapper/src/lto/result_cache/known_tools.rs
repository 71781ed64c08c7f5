//! Hashes of this program and of the tools. To hash them takes longer than everything else in a link that compiles nothing, so the cache
//! keeps each hash by the state of its file: device, inode, size, and the times of modification and change. Where these times tell nothing
//! ([`crate::sys::file_times`]), the state is a hash.

use std::fs::File;
use std::path::Path;

use crate::codegen::Backends;
use crate::lto::cuda_libraries::CudaLibraries;
use crate::sys::cache::{Cache, Key, identity_of};
use crate::sys::stamp::Stamp;
use crate::toolchain::identity::{self, Identity};
use crate::toolchain::ptxas::version_text;

/// The program of this process.
const ITSELF: &str = "/proc/self/exe";

/// Hashes of the tools and libraries that the machine code depends on.
#[derive(Debug, Clone)]
pub struct Tools {
    pub ptxas: [u8; 32],
    pub nvlink: Option<[u8; 32]>,
    pub libdevice: Option<[u8; 32]>,
    pub device_library: Option<[u8; 32]>,
}

/// The identified tools.
#[derive(Debug)]
pub struct KnownTools {
    pub tools: Tools,
    pub stamps: Vec<Stamp>,
    /// Why nvlink cannot be identified, if so.
    pub unknown_nvlink: Option<String>,
}

impl KnownTools {
    /// Identifies the tools.
    ///
    /// # Errors
    /// Why a tool cannot be identified.
    pub fn probe(backends: &Backends<'_>, libraries: &CudaLibraries, folder: Option<&Cache>) -> Result<Self, String> {
        let (ptxas, nvlink) = backends.toolkit_files().ok_or("only results of ptxas and nvlink are cached")?;
        let file = |path: Option<&Path>| path.map(identity::of_file).transpose();
        let ptxas_version = || backends.ptxas().map(|ptxas| ptxas.version.clone()).map_err(|errors| errors.to_string());
        let nvlink_version = |path: &Path| Ok(version_text(path).unwrap_or_default());
        let of_nvlink = |path: &Path| of_program(path, folder, || nvlink_version(path));
        // Do not use rayon here: all of its threads may wait for the jobs that need this key.
        let (ptxas, nvlink, libdevice, device_library) = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new;
            let ptxas = thread().spawn_scoped(scope, || of_program(&ptxas, folder, ptxas_version));
            let nvlink = thread().spawn_scoped(scope, || nvlink.as_deref().map(of_nvlink).transpose());
            let (libdevice, library) = (file(libraries.libdevice_path()), file(libraries.device_runtime_path()));
            let failed = || "a thread that identifies the tools failed".to_owned();
            let ptxas = ptxas.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Err(failed()));
            let nvlink = nvlink.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Err(failed()));
            (ptxas, nvlink, libdevice, library)
        });
        let (ptxas, libdevice, device_library) = (ptxas?, libdevice?, device_library?);
        let (nvlink, unknown_nvlink) = nvlink.map_or_else(|why| (None, Some(why)), |nvlink| (nvlink, None));
        let hash = |identity: &Option<Identity>| identity.as_ref().map(|identity| identity.hash);
        let tools = Tools {
            ptxas: ptxas.hash,
            nvlink: hash(&nvlink),
            libdevice: hash(&libdevice),
            device_library: hash(&device_library),
        };
        let all = [Some(ptxas), nvlink, libdevice, device_library];
        let stamps = all.into_iter().flatten().flat_map(|identity| identity.stamps).collect();
        Ok(KnownTools { tools, stamps, unknown_nvlink })
    }
}

/// The hash of this program.
pub fn program(folder: Option<&Cache>) -> Option<[u8; 32]> {
    let metadata = File::open(ITSELF).and_then(|file| file.metadata()).ok()?;
    // A program that was built just now is hashed.
    let stamp = Stamp::new(Path::new(ITSELF), &metadata, || Ok([0; 32])).ok()?;
    let key = Key::of_state("program", &stamp);
    if let Some(known) = known_hash(folder, key.as_ref()) {
        return Some(known);
    }
    let hash = identity_of(Path::new(ITSELF)).ok()?;
    keep_hash(folder, key.as_ref(), &hash);
    Some(hash)
}

/// Identifies a tool. `version` runs it.
fn of_program(
    path: &Path,
    folder: Option<&Cache>,
    version: impl FnOnce() -> Result<String, String>,
) -> Result<Identity, String> {
    let stamp = Stamp::of(path).ok();
    let key = stamp.as_ref().and_then(|stamp| Key::of_state("tool", stamp));
    if let (Some(hash), Some(stamp)) = (known_hash(folder, key.as_ref()), stamp) {
        return Ok(Identity { hash, stamps: vec![stamp] });
    }
    let identity = identity::of_program(path, &version()?)?;
    // What a script runs may change without it.
    if let [stamp] = &identity.stamps[..] {
        keep_hash(folder, Key::of_state("tool", stamp).as_ref(), &identity.hash);
    }
    Ok(identity)
}

fn known_hash(folder: Option<&Cache>, key: Option<&Key>) -> Option<[u8; 32]> {
    folder?.get_uncounted(key?)?.try_into().ok()
}

fn keep_hash(folder: Option<&Cache>, key: Option<&Key>, hash: &[u8; 32]) {
    if let (Some(folder), Some(key)) = (folder, key) {
        folder.put(key, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_tool_is_hashed_again_when_its_file_has_another_state() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"));
        let tool = folder.path().join("ptxas");
        let runs = Cell::new(0);
        let identify = || {
            // Only files that have not been changed for a moment have a state that tells.
            sleep(Duration::from_millis(50));
            let version = || {
                runs.set(runs.get() + 1);
                Ok("13.0".to_owned())
            };
            of_program(&tool, Some(&cache), version).unwrap().hash
        };
        std::fs::write(&tool, "\x7fELF one").unwrap();
        let one = identify();
        assert_eq!((identify(), runs.get()), (one, 1));
        let modified = tool.metadata().unwrap().modified().unwrap();
        std::fs::write(&tool, "\x7fELF two").unwrap();
        File::options().write(true).open(&tool).unwrap().set_modified(modified).unwrap();
        let two = identify();
        assert_ne!(one, two);
        assert_eq!((identify(), runs.get()), (two, 2));
        // What a script runs may change without the script.
        std::fs::write(&tool, format!("#!/bin/sh\nexec {ITSELF} \"$@\"\n")).unwrap();
        identify();
        identify();
        assert_eq!(runs.get(), 4);
        assert_eq!(cache.hits_and_misses(), (0, 0));
    }

    #[test]
    fn this_program_has_one_hash() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"));
        let hash = program(None).unwrap();
        assert_eq!((program(Some(&cache)), program(Some(&cache))), (Some(hash), Some(hash)));
    }
}
