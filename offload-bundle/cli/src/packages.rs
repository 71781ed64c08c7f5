//! Finds the files that a command inspects: those that the user names, those in folders, and those in packages (wheels, conda and Debian
//! packages, zip and tar files), which are read without being unpacked to disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use offload_bundle::FileError;
use offload_bundle::archive::{self, MemberData};
use offload_bundle::expansion::Limits;
use offload_bundle::hip_bundle;
use offload_bundle::host_object::{self, FileKind};
use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::expansion;

/// Packages in packages deeper than this are not read.
const DEPTH: usize = 4;
/// How many bytes tell what a file is: the magic of a tar file is behind the first ones.
const HEAD: u64 = 512;

/// A file with its bytes.
pub struct Content<'c> {
    /// How messages name it: `x.whl:torch/lib/libtorch_cuda.so`.
    pub name: String,
    /// Its bytes.
    pub data: &'c [u8],
    /// The folder that thin archives refer to.
    pub folder: &'c Path,
    /// Whether the user named it, so that it must be of a kind that the command reads.
    pub is_named: bool,
    /// How far its images may grow: for a file in a package, by the package's size.
    pub limits: Limits,
}

/// What is read of a file on disk. Those in packages are read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// All bytes.
    All,
    /// What [`host_object::device_parts`] names; zeros stand for the rest.
    OfDevice,
}

/// Handles one file.
type See<'s> = dyn FnMut(&Content<'_>) -> Result<()> + 's;

/// Calls `see` for every file that `paths` name or hold. Of folders and packages, only files that may hold device images are seen. Goes on after an
/// error, and returns all.
pub fn visit(paths: &[PathBuf], parts: Parts, see: &mut See<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    for path in paths {
        if !path.is_dir() {
            errors.extend(read_file(path, parts, true, see).err());
            continue;
        }
        for entry in WalkDir::new(path).sort_by_file_name() {
            let seen = match entry {
                Ok(entry) if entry.file_type().is_file() => read_file(entry.path(), parts, false, see),
                Ok(_) => Ok(()),
                Err(error) => Err(Error::Folder { path: path.clone(), error: error.to_string() }),
            };
            errors.extend(seen.err());
        }
    }
    errors
}

/// Whether the paths may be several files.
pub fn are_several(paths: &[PathBuf]) -> bool {
    let is_package = |path: &PathBuf| {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
        read.is_ok() && Package::of(&head).is_some()
    };
    paths.len() != 1 || paths.iter().any(|path| path.is_dir() || path.is_file() && is_package(path))
}

/// A file's name without the hash that tools which repair wheels put into it: `libx-1a2b3c4d.so.4`, `libx.1a2b3c4d.so.4`. With it, if another
/// file has the name without.
pub fn without_hash<F>(name: &str, others: &BTreeMap<String, F>) -> String {
    const DIGITS: usize = 8;
    let unhashed = || {
        let (stem, end) = name.split_at(name.rfind(".so")?);
        let (rest, hash) = stem.split_at_checked(stem.len().checked_sub(DIGITS)?)?;
        let is_hash = hash.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        let rest = rest.strip_suffix(['-', '.']).filter(|rest| is_hash && !rest.ends_with('/'))?;
        Some(format!("{rest}{end}"))
    };
    unhashed().filter(|unhashed| !others.contains_key(unhashed)).unwrap_or_else(|| name.to_owned())
}

/// Whether a file is a zip file.
pub fn is_zip(path: &Path) -> Result<bool> {
    let failed = |source| Error::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(failed)?.take(HEAD).read_to_end(&mut head).map_err(failed)?;
    Ok(Package::of(&head) == Some(Package::Zip))
}

/// The bytes of a file that may hold device images; `None` for others, packages too. `name` is for messages.
pub fn candidate(name: &str, reader: &mut dyn Read, limits: Limits) -> Result<Option<Vec<u8>>> {
    let failed = |error: io::Error| Error::Package { name: name.to_owned(), error: error.to_string() };
    let mut data = Vec::new();
    reader.take(HEAD).read_to_end(&mut data).map_err(failed)?;
    if Package::of(&data).is_some() || !may_hold_images(&data) {
        return Ok(None);
    }
    read_within(name, reader, limits, &mut data)?;
    Ok(Some(data))
}

/// Reads the rest of a file in a package.
fn read_within(name: &str, reader: &mut dyn Read, limits: Limits, data: &mut Vec<u8>) -> Result<()> {
    let most = limits.each.min(limits.total);
    let read = reader.take(most).read_to_end(data);
    read.map_err(|error| Error::Package { name: name.to_owned(), error: error.to_string() })?;
    if data.len() as u64 > most {
        let what = format!("takes over {most} bytes when it is decompressed");
        return Err(Error::Expands { name: name.into(), what });
    }
    Ok(())
}

fn read_file(path: &Path, parts: Parts, is_named: bool, see: &mut See<'_>) -> Result<()> {
    let failed = |source| Error::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut data = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut data).map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    // A pipe does not say how long it is.
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map_or(u64::MAX, |file| file.len());
    let place = Place { name: path.display().to_string(), folder, depth: 0, limits: expansion::limits(size) };
    if let Some(package) = Package::of(&data).or_else(|| Package::of_name(path, is_named))
        && file.rewind().is_ok()
    {
        // Packages of gigabytes are not read into memory.
        return place.visit_package(package, &mut BufReader::new(file), see);
    }
    if !is_named && !may_hold_images(&data) {
        return Ok(());
    }
    match parts {
        Parts::OfDevice if file.metadata().is_ok_and(|file| file.is_file()) => {
            data = device_parts(&mut file).map_err(failed)?;
        }
        _ => drop(file.read_to_end(&mut data).map_err(failed)?),
    }
    place.visit(&data, is_named, see)
}

fn device_parts(file: &mut File) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    // Zeroed memory takes none until it is written.
    let mut data = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    for part in host_object::device_parts(file, size) {
        file.seek(io::SeekFrom::Start(part.start))?;
        let place = usize::try_from(part.start).ok().zip(usize::try_from(part.end).ok());
        file.read_exact(place.and_then(|(start, end)| data.get_mut(start..end)).unwrap_or_default())?;
    }
    Ok(data)
}

/// The bytes of a package.
trait Source: Read + Seek {}

impl<S: Read + Seek> Source for S {}

/// Where a file is.
struct Place<'p> {
    name: String,
    folder: &'p Path,
    /// How many packages it is in.
    depth: usize,
    /// Those of the outermost file.
    limits: Limits,
}

/// The kind of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Package {
    Zip,
    Tar,
    Deb,
    Gzip,
    Xz,
    Zstd,
}

impl Package {
    /// Decides by the first [`HEAD`] bytes, or by all.
    fn of(head: &[u8]) -> Option<Self> {
        const MAGICS: [(&[u8], Package); 5] = [
            (b"PK\x03\x04", Package::Zip),
            (b"!<arch>\ndebian-binary", Package::Deb),
            (b"\x1f\x8b\x08", Package::Gzip),
            (b"\xfd7zXZ\0", Package::Xz),
            (b"\x28\xb5\x2f\xfd", Package::Zstd),
        ];
        let by_magic = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, package)| *package);
        by_magic.or_else(|| (head.get(257..262)? == b"ustar").then_some(Package::Tar))
    }

    /// What a file is by its name: a package whose beginning is damaged is one nevertheless, and tar files from before POSIX have no magic. Of
    /// the files in a folder only those whose names are no other's: environments hold damaged archives as inputs of tests.
    fn of_name(path: &Path, is_named: bool) -> Option<Self> {
        match path.extension()?.to_str()? {
            "whl" | "conda" => Some(Package::Zip),
            "zip" if is_named => Some(Package::Zip),
            "tar" if is_named => Some(Package::Tar),
            "deb" if is_named => Some(Package::Deb),
            _ => None,
        }
    }
}

/// Whether a file that begins like this may hold device images: one of Linux, Windows or macOS, or a container.
fn may_hold_images(head: &[u8]) -> bool {
    // The rest of a PE file's header may be anywhere, and Mach-O is no kind of its own.
    const OTHERS: [&[u8]; 5] =
        [b"MZ", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce"];
    let kind = host_object::file_kind(head);
    !matches!(kind, FileKind::Unknown | FileKind::Bitcode)
        || hip_bundle::is_bundle(head)
        || OTHERS.iter().any(|magic| head.starts_with(magic))
}

impl Place<'_> {
    fn visit(&self, data: &[u8], is_named: bool, see: &mut See<'_>) -> Result<()> {
        match Package::of(data) {
            Some(package) if self.depth < DEPTH => self.visit_package(package, &mut Cursor::new(data), see),
            Some(_) => Err(self.damaged("packages in packages in packages: unpack it")),
            None => see(&Content { name: self.name.clone(), data, folder: self.folder, is_named, limits: self.limits }),
        }
    }

    fn visit_package(&self, package: Package, source: &mut dyn Source, see: &mut See<'_>) -> Result<()> {
        let mut errors = Vec::new();
        let mut member = |name: &str, reader: &mut dyn Read| {
            if let Err(error) = self.visit_member(name, reader, see) {
                errors.push(error);
            }
        };
        let read = match package {
            Package::Zip => zip_members(source, &mut member),
            Package::Tar => tar_members(source, &mut member),
            Package::Deb => deb_members(source, &mut member),
            // A compressed file is the file: its name stays.
            Package::Gzip => {
                member("", &mut flate2::read::MultiGzDecoder::new(source));
                Ok(())
            }
            Package::Xz => {
                member("", &mut liblzma::read::XzDecoder::new_multi_decoder(source));
                Ok(())
            }
            Package::Zstd => zstd::Decoder::new(source).map(|mut decoder| member("", &mut decoder)),
        };
        errors.extend(read.err().map(|error| self.damaged(error)));
        Error::all(errors)
    }

    fn visit_member(&self, name: &str, reader: &mut dyn Read, see: &mut See<'_>) -> Result<()> {
        let name = if name.is_empty() { self.name.clone() } else { format!("{}:{name}", self.name) };
        let place = Place { name, depth: self.depth + 1, ..*self };
        let mut data = Vec::new();
        reader.take(HEAD).read_to_end(&mut data).map_err(|error| place.damaged(error))?;
        if Package::of(&data).is_none() && !may_hold_images(&data) {
            return Ok(());
        }
        read_within(&place.name, reader, self.limits, &mut data)?;
        place.visit(&data, false, see)
    }

    fn damaged(&self, error: impl std::fmt::Display) -> Error {
        Error::Package { name: self.name.clone(), error: error.to_string() }
    }
}

type Member<'m> = dyn FnMut(&str, &mut dyn Read) + 'm;

fn zip_members(source: &mut dyn Source, member: &mut Member<'_>) -> io::Result<()> {
    let mut zip = zip::ZipArchive::new(source)?;
    for index in 0..zip.len() {
        let mut file = zip.by_index(index)?;
        if file.is_file() {
            let name = file.name()?.into_owned();
            member(&name, &mut Whole { left: file.size(), is_cut: false, reader: &mut file });
        }
    }
    Ok(())
}

fn tar_members(source: &mut dyn Source, member: &mut Member<'_>) -> io::Result<()> {
    for entry in tar::Archive::new(source).entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let name = entry.path()?.display().to_string();
            let mut whole = Whole { left: entry.size(), is_cut: false, reader: &mut entry };
            member(name.trim_start_matches("./"), &mut whole);
            if whole.is_cut {
                // The member's own error says it.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A reader of so many bytes. `tar` takes the end of a file that was cut for the end of its member, and `zip` the size in the directory for a
/// hint.
struct Whole<R> {
    reader: R,
    left: u64,
    is_cut: bool,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| io::Error::other("longer than the size that the package says"))?;
        self.is_cut = read == 0 && self.left > 0 && !buffer.is_empty();
        if self.is_cut {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{} bytes are missing at its end", self.left),
            ));
        }
        Ok(read)
    }
}

/// The files of a Debian package are in its member `data.tar.xz` or `data.tar.zst`.
fn deb_members(source: &mut dyn Source, member: &mut Member<'_>) -> io::Result<()> {
    let mut data = Vec::new();
    source.read_to_end(&mut data)?;
    let other = |error: offload_bundle::FormatError| io::Error::other(FileError::from(error).to_string());
    for file in archive::members(&data).map_err(other)? {
        if let (MemberData::Inline(mut bytes), true) = (file.data, file.name.starts_with("data.tar")) {
            member("", &mut bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_hashes() {
        let none = BTreeMap::<String, ()>::new();
        for (name, unhashed) in [
            ("x.libs/libx-1a2b3c4d.so.4.2", "x.libs/libx.so.4.2"),
            ("x.libs/libx.1a2b3c4d.so", "x.libs/libx.so"),
            ("libx-1a2b3c4.so", "libx-1a2b3c4.so"),
            ("libx-1A2B3C4D.so", "libx-1A2B3C4D.so"),
            ("x/-1a2b3c4d.so", "x/-1a2b3c4d.so"),
            ("libdeadbeef.so", "libdeadbeef.so"),
            ("1a2b3c4d.so", "1a2b3c4d.so"),
            ("libx", "libx"),
        ] {
            assert_eq!(without_hash(name, &none), unhashed, "{name}");
        }
        let taken = BTreeMap::from([("libx.so".to_owned(), ())]);
        assert_eq!(without_hash("libx-1a2b3c4d.so", &taken), "libx-1a2b3c4d.so");
    }
}
