//! Hashes of the tools, which the cache keeps by the states of their files.

use std::path::Path;

use crate::machines::interface::Tool;
use crate::sys::cache::{Cache, Key, known_hash, store_hash};
use crate::sys::stamp::Stamp;
use crate::toolchain::identity::{self, Identity};

/// The identified tools and libraries of a step.
#[derive(Debug)]
pub struct KnownTools {
    /// The name and hash of each.
    pub hashes: Vec<(&'static str, [u8; 32])>,
    pub stamps: Vec<Stamp>,
}

impl KnownTools {
    /// Identifies tools and libraries in parallel.
    ///
    /// # Errors
    /// Why one of them cannot be identified.
    pub fn probe(tools: &[Tool<'_>], folder: Option<&Cache>) -> Result<Self, String> {
        // Do not use rayon here: all of its threads may wait for the jobs that need this key.
        let identities: Vec<Result<Identity, String>> = std::thread::scope(|scope| {
            let identify = |tool| std::thread::Builder::new().spawn_scoped(scope, move || identify(tool, folder));
            let threads: Vec<_> = tools.iter().map(identify).collect();
            let failed = || Err("a thread that identifies the tools failed".to_owned());
            threads
                .into_iter()
                .map(|thread| thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(failed))
                .collect()
        });
        let (mut hashes, mut stamps) = (Vec::new(), Vec::new());
        for (tool, identity) in tools.iter().zip(identities) {
            let identity = identity?;
            hashes.push((tool.name, identity.hash));
            stamps.extend(identity.stamps);
        }
        Ok(KnownTools { hashes, stamps })
    }
}

fn identify(tool: &Tool<'_>, folder: Option<&Cache>) -> Result<Identity, String> {
    match &tool.version {
        Some(version) => of_program(&tool.path, folder, version),
        None => identity::of_file(&tool.path),
    }
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
        store_hash(folder, Key::of_state("tool", stamp).as_ref(), &identity.hash);
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs::File;

    #[test]
    fn a_tool_is_hashed_again_when_its_file_has_another_state() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"));
        let tool = folder.path().join("ptxas");
        let runs = Cell::new(0);
        let identify = || {
            // Only files that have not been changed for a moment have a state that tells.
            Stamp::settled(&tool);
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
        std::fs::write(&tool, "#!/bin/sh\nexec /proc/self/exe \"$@\"\n").unwrap();
        identify();
        identify();
        assert_eq!(runs.get(), 4);
        assert_eq!(cache.hits_and_misses(), (0, 0));
    }
}
