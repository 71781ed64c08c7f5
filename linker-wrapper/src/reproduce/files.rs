//! The files of the archive, by the names that they have in it.
//!
//! A file keeps its whole path, below the archive's folder. Members of thin archives and libraries of `-L` are then where the linkers look
//! for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// What is in a file of the archive.
enum Content {
    /// The content of this file.
    Of(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// The files so far.
#[derive(Default)]
pub struct Files {
    contents: BTreeMap<PathBuf, Content>,
    /// What the archive lacks or has otherwise than the link had it, as sentences without a full stop.
    notes: Vec<String>,
}

impl Files {
    /// Adds a file, and returns its name in the archive, which is a relative path.
    pub fn add(&mut self, path: &Path) -> PathBuf {
        let name = name_of(path);
        self.contents.entry(name.clone()).or_insert_with(|| Content::Of(path.to_owned()));
        name
    }

    /// Adds a file with another content than it has.
    pub fn add_changed(&mut self, path: &Path, bytes: Vec<u8>) {
        self.contents.insert(name_of(path), Content::Bytes(bytes));
    }

    /// Adds a remark for the reader.
    pub fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The remarks.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the archive has this very file.
    pub fn contains(&self, path: &Path) -> bool {
        let real = path.canonicalize().ok();
        let same = |content: &Content| match content {
            Content::Of(own) => real.is_some() && own.canonicalize().ok() == real,
            Content::Bytes(_) => false,
        };
        self.contents.values().any(same)
    }

    /// Writes the archive. Its entries are below `folder`, in the order of their names, all of one date: the same link has the same archive.
    ///
    /// # Errors
    /// A file cannot be read, the archive cannot be written.
    pub fn write(&self, folder: &Path, texts: &[(&str, Vec<u8>)], output: &mut dyn Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(output);
        for (name, text) in texts {
            append(&mut archive, &folder.join(name), text.len() as u64, text.as_slice())?;
        }
        for (name, content) in &self.contents {
            let name = folder.join(name);
            match content {
                Content::Bytes(bytes) => append(&mut archive, &name, bytes.len() as u64, bytes.as_slice())?,
                Content::Of(path) => add_file(&mut archive, &name, path)?,
            }
        }
        archive.into_inner().map(drop)
    }
}

fn add_file<W: Write>(archive: &mut tar::Builder<W>, name: &Path, path: &Path) -> io::Result<()> {
    let unreadable = |error| cannot_read(path, &error);
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    // A file that grows meanwhile must not spoil what follows; one that shrinks is an error.
    let mut content = Input { inner: file.take(size), path, count: 0 };
    append(archive, name, size, &mut content)?;
    let cut_off = || cannot_read(path, &io::Error::other("it was cut off meanwhile"));
    if content.count == size { Ok(()) } else { Err(cut_off()) }
}

fn cannot_read(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
}

fn append<W: Write>(archive: &mut tar::Builder<W>, name: &Path, size: u64, content: impl Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content)
}

/// A file that is read. Counts its bytes, and names it in errors.
struct Input<'p, R> {
    inner: R,
    path: &'p Path,
    count: u64,
}

impl<R: Read> Read for Input<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).map_err(|error| cannot_read(self.path, &error))?;
        self.count += read as u64;
        Ok(read)
    }
}

/// The path from the root, without `.` and `..`.
pub fn name_of(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut name = PathBuf::new();
    for component in whole.components() {
        match component {
            Component::ParentDir => {
                name.pop();
            }
            Component::Normal(part) => name.push(part),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive_of(files: &Files) -> Vec<(String, Vec<u8>)> {
        let mut bytes = Vec::new();
        files.write(Path::new("r"), &[("first.txt", b"text".to_vec())], &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entry = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        };
        archive.entries().unwrap().map(entry).collect()
    }

    #[test]
    fn names_are_paths_below_the_root() {
        assert_eq!(name_of(Path::new("/a/./b/../c.o")), Path::new("a/c.o"));
        assert_eq!(name_of(Path::new("/../../a")), Path::new("a"));
        assert!(name_of(Path::new("x.o")).is_relative() && name_of(Path::new("x.o")).ends_with("x.o"));
    }

    #[test]
    fn each_file_is_there_once_with_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("l".repeat(150));
        std::fs::write(&long, "long").unwrap();
        let mut files = Files::default();
        let name = files.add(&long);
        assert_eq!(files.add(&folder.path().join("other/..").join(long.file_name().unwrap())), name);
        files.add_changed(Path::new("/script"), b"INPUT(a)".to_vec());
        assert!(files.contains(&long) && !files.contains(Path::new("/script")));
        let entries = archive_of(&files);
        assert_eq!(entries[0], ("r/first.txt".to_owned(), b"text".to_vec()));
        assert_eq!(entries[1], ("r/script".to_owned(), b"INPUT(a)".to_vec()));
        assert_eq!(entries[2], (format!("r/{}", name.display()), b"long".to_vec()));
        assert_eq!(entries.len(), 3);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let mut files = Files::default();
        files.add(Path::new("/no/such/file"));
        let error = files.write(Path::new("r"), &[], &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /no/such/file: "), "{error}");
    }
}
