//! Paths in the descriptions of jobs. A path is bytes, and JSON has only text: one that is not UTF-8 is written as a list of its bytes.
//!
//! For fields: `#[serde(with = "written_path")]`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What holds paths.
pub trait Paths: Sized {
    /// What is written of it.
    type Written: Serialize + for<'de> Deserialize<'de>;

    /// To what is written.
    fn write(&self) -> Self::Written;

    /// From what was written.
    fn read(written: Self::Written) -> Self;
}

/// The bytes of a path.
pub struct Written(Vec<u8>);

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) if serializer.is_human_readable() => text.serialize(serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

/// A path in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Vec::deserialize(deserializer).map(Written);
        }
        Ok(match TextOrBytes::deserialize(deserializer)? {
            TextOrBytes::Text(text) => Written(text.into_bytes()),
            TextOrBytes::Bytes(bytes) => Written(bytes),
        })
    }
}

impl Paths for PathBuf {
    type Written = Written;

    fn write(&self) -> Written {
        Written(self.as_os_str().as_bytes().to_owned())
    }

    fn read(written: Written) -> Self {
        OsString::from_vec(written.0).into()
    }
}

impl<T: Paths> Paths for Option<T> {
    type Written = Option<T::Written>;

    fn write(&self) -> Self::Written {
        self.as_ref().map(T::write)
    }

    fn read(written: Self::Written) -> Self {
        written.map(T::read)
    }
}

impl<T: Paths> Paths for (T, T) {
    type Written = (T::Written, T::Written);

    fn write(&self) -> Self::Written {
        (self.0.write(), self.1.write())
    }

    fn read(written: Self::Written) -> Self {
        (T::read(written.0), T::read(written.1))
    }
}

/// Writes a field.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Paths, S: Serializer>(field: &T, serializer: S) -> Result<S::Ok, S::Error> {
    field.write().serialize(serializer)
}

/// Reads a field.
///
/// # Errors
/// It holds no path.
pub fn deserialize<'de, T: Paths, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Written::deserialize(deserializer).map(T::read)
}

/// Whether a path can be named where only text can be.
pub fn is_text(path: &Path) -> bool {
    path.to_str().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Fields {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super")]
        perhaps: Option<PathBuf>,
        #[serde(with = "super")]
        pair: Option<(PathBuf, PathBuf)>,
    }

    #[test]
    fn every_path_comes_back() {
        let plain = PathBuf::from("/tmp/a b/é.bc");
        let other = PathBuf::from(OsString::from_vec(b"/tmp/na\xffme".to_vec()));
        for (one, two) in [(&plain, &other), (&other, &plain)] {
            let fields =
                Fields { one: one.clone(), perhaps: Some(two.clone()), pair: Some((two.clone(), one.clone())) };
            let text = serde_json::to_string(&fields).unwrap();
            assert_eq!(serde_json::from_str::<Fields>(&text).unwrap(), fields, "{text}");
            // Results of jobs are not JSON.
            let bytes = postcard::to_allocvec(&fields).unwrap();
            assert_eq!(postcard::from_bytes::<Fields>(&bytes).unwrap(), fields, "{bytes:?}");
        }
        let fields = Fields { one: plain.clone(), perhaps: None, pair: None };
        let text = serde_json::to_string(&fields).unwrap();
        assert_eq!(text, r#"{"one":"/tmp/a b/é.bc","perhaps":null,"pair":null}"#);
        assert!(is_text(&plain) && !is_text(&other));
    }
}
