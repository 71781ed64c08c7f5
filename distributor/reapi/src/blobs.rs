//! Content by its hash, as the Remote Execution API names it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bazel_remote_apis::build::bazel::remote::execution::v2::Digest;
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Something to upload.
#[derive(Debug, Clone)]
pub struct Blob {
    /// Its name.
    pub digest: Digest,
    /// Its bytes.
    pub content: Content,
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone)]
pub enum Content {
    /// Here.
    Bytes(Vec<u8>),
    /// In a file.
    File(PathBuf),
}

impl Blob {
    /// A blob of these bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        Blob { digest: digest_of(&bytes), content: Content::Bytes(bytes) }
    }

    /// A blob of a message.
    pub fn of_message(message: &impl Message) -> Self {
        Self::of(message.encode_to_vec())
    }

    /// A blob of a file's content.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_file(file: &Path) -> Result<Self, Error> {
        let hashed = File::open(file).and_then(|mut open| {
            let (mut hasher, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 20]);
            loop {
                let read = open.read(&mut buffer)?;
                if read == 0 {
                    return Ok((hasher, size));
                }
                hasher.update(buffer.get(..read).unwrap_or_default());
                size += read as i64;
            }
        });
        let (hasher, size_bytes) = hashed.map_err(|source| Error::Read { file: file.to_owned(), source })?;
        let digest = Digest { hash: hexadecimal(&hasher.finalize()), size_bytes };
        Ok(Blob { digest, content: Content::File(file.to_owned()) })
    }

    /// Its bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::File(file) => std::fs::read(file).map_err(|source| Error::Read { file: file.clone(), source }),
        }
    }
}

/// The name of these bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest { hash: hexadecimal(&Sha256::digest(bytes)), size_bytes: bytes.len() as i64 }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_of_its_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        let blob = Blob::of_file(file.path()).unwrap();
        assert_eq!(blob.digest, digest_of(b"abc"));
        assert_eq!(blob.digest.hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((blob.digest.size_bytes, blob.bytes().unwrap()), (3, b"abc".to_vec()));
    }
}
