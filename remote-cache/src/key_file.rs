//! The file of `--offload-cache-key-file=`: a secret that those share whose entries this link trusts.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::entry::Seal;
use crate::error::LocationError;

/// A shorter secret could be guessed.
const SMALLEST: usize = 32;
const LARGEST: u64 = 64 << 10;
const ALL_WRITE: u32 = 0o002;

impl Seal {
    /// Reads the secret from a file.
    ///
    /// # Errors
    /// The file cannot be read, may be written by everybody, or is too short or too long for a secret.
    pub fn of_file(path: &Path) -> Result<Self, LocationError> {
        let unusable = |why: String| LocationError::KeyFile { path: path.to_owned(), why };
        let reason = |error: std::io::Error| {
            let text = error.to_string();
            unusable(text.split(" (os error").next().unwrap_or(&text).to_owned())
        };
        let mut secret = Vec::new();
        let file = File::open(path).map_err(reason)?;
        let found = file.metadata().map_err(reason)?;
        if found.is_file() && found.mode() & ALL_WRITE != 0 {
            let why =
                "every user may write to it, and so decide whose entries become part of this program; chmod o-w it";
            return Err(unusable(why.to_owned()));
        }
        file.take(LARGEST + 1).read_to_end(&mut secret).map_err(reason)?;
        if secret.len() < SMALLEST {
            let why = format!(
                "it has {} bytes, and a secret needs {SMALLEST} or more; make one with: openssl rand -hex 32",
                secret.len()
            );
            return Err(unusable(why));
        }
        if secret.len() as u64 > LARGEST {
            return Err(unusable("it is larger than 64 KiB; is it the right file?".to_owned()));
        }
        Ok(Seal::keyed(&secret))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_has_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for (size, why) in [(0, "0 bytes"), (31, "31 bytes"), (32, ""), (64 << 10, ""), ((64 << 10) + 1, "64 KiB")] {
            std::fs::write(&path, vec![b'x'; size]).unwrap();
            let error = Seal::of_file(&path).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(error.contains(why) && error.is_empty() == why.is_empty(), "{size}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = Seal::of_file(&path).unwrap_err().to_string();
        assert!(error.ends_with("No such file or directory"), "{error}");
    }

    #[test]
    fn a_file_that_everybody_may_write_to_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, [b'x'; 32]).unwrap();
        for (mode, is_usable) in [(0o600, true), (0o444, true), (0o664, true), (0o666, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Seal::of_file(&path).map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(error.is_empty(), is_usable, "{mode:o}: {error}");
            assert!(is_usable || error.contains("every user may write to it"), "{mode:o}: {error}");
        }
    }
}
