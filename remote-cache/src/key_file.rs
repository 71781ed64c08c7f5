//! The file of `--offload-cache-key-file=`: a secret that those share whose entries this link trusts.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::entry::Seal;
use crate::error::LocationError;

/// A shorter secret could be guessed.
const SMALLEST: usize = 32;
const LARGEST: u64 = 64 << 10;

impl Seal {
    /// Reads the secret from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is too short or too long for a secret.
    pub fn of_file(path: &Path) -> Result<Self, LocationError> {
        let unusable = |why: String| LocationError::KeyFile { path: path.to_owned(), why };
        let reason = |error: std::io::Error| {
            let text = error.to_string();
            unusable(text.split(" (os error").next().unwrap_or(&text).to_owned())
        };
        let mut secret = Vec::new();
        File::open(path).map_err(reason)?.take(LARGEST + 1).read_to_end(&mut secret).map_err(reason)?;
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
    use super::*;

    #[test]
    fn a_secret_has_a_size() {
        let folder = std::env::temp_dir().join(format!("fatlink-key-file-{}", std::process::id()));
        for (size, why) in [(0, "0 bytes"), (31, "31 bytes"), (32, ""), (64 << 10, ""), ((64 << 10) + 1, "64 KiB")] {
            std::fs::write(&folder, vec![b'x'; size]).unwrap();
            let error = Seal::of_file(&folder).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(error.contains(why) && error.is_empty() == why.is_empty(), "{size}: {error}");
        }
        std::fs::remove_file(&folder).unwrap();
        let error = Seal::of_file(&folder).unwrap_err().to_string();
        assert!(error.ends_with("No such file or directory"), "{error}");
    }
}
