//! Rewrites files in a wheel. The entries keep their order, times and permissions, and those that stay their bytes; `RECORD` gets the new
//! hashes and sizes.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use offload_bundle::host_object::Search;
use sha2::{Digest, Sha256, Sha384, Sha512};
use zip::{ZipArchive, ZipWriter};

use crate::error::{Error, Result};
use crate::file_change::{Edit, FileChange};
use crate::{expansion, files, packages};

/// A changed entry, by its place in the wheel.
struct Changed {
    name: String,
    /// The new bytes, in a file without a name.
    bytes: File,
    digest: [u8; 32],
    size: u64,
}

/// Edits the files of a wheel that may hold device images, and writes the result to `path`, if that is given. Returns the changes, and the
/// sizes of the wheel before and after. `accept` is told whether anything changes.
pub fn rewrite(
    file: &Path,
    path: Option<&Path>,
    edit: &Edit<'_>,
    accept: &dyn Fn(bool) -> Result<()>,
) -> Result<(Vec<FileChange>, u64, u64)> {
    let mut wheel = Wheel::open(file)?;
    let record = wheel.record()?;
    let (changed, mut changes) = wheel.edited(edit)?;
    accept(!changed.is_empty())?;
    if changed.is_empty() {
        return Ok((Vec::new(), 0, 0));
    }
    let new_record = wheel.new_record(record, &changed)?;
    let beside = path.unwrap_or(file);
    let mut output = files::Beside::create(beside, Some(file))?;
    wheel.write(output.file(), record, &new_record, &changed)?;
    let after = output.size()?;
    verify(file, output.file(), record, &new_record, &changed)?;
    if path.is_some() {
        output.keep()?;
    }
    let prefix = file.display();
    changes.iter_mut().for_each(|change| change.file = format!("{prefix}:{}", change.file));
    Ok((changes, wheel.size, after))
}

struct Wheel<'p> {
    path: &'p Path,
    zip: ZipArchive<BufReader<File>>,
    size: u64,
}

impl<'p> Wheel<'p> {
    fn open(path: &'p Path) -> Result<Self> {
        let failed = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, error))?;
        // The archive keeps one entry of each name.
        let names =
            File::open(path).and_then(|file| directory_names(file, zip.central_directory_start())).map_err(failed)?;
        if let Some(name) = repeated(names) {
            return Err(Error::EntryTwice { file: path.to_owned(), name });
        }
        Ok(Self { path, zip, size })
    }

    /// The place of `NAME.dist-info/RECORD`.
    fn record(&self) -> Result<usize> {
        let is_in_info = |index: &usize, ends: &[&str]| {
            let name = name_of(&self.zip, *index);
            let (folder, file) = name.split_once('/').unwrap_or_default();
            folder.ends_with(".dist-info") && ends.contains(&file)
        };
        if (0..self.zip.len()).any(|index| is_in_info(&index, &["RECORD.jws", "RECORD.p7s"])) {
            return Err(Error::SignedWheel { file: self.path.to_owned() });
        }
        let mut records = (0..self.zip.len()).filter(|index| is_in_info(index, &["RECORD"]));
        match (records.next(), records.next()) {
            (Some(index), None) => Ok(index),
            _ => Err(Error::NotAWheel { file: self.path.to_owned() }),
        }
    }

    /// The entries that change, by their place, and what changes in them.
    fn edited(&mut self, edit: &Edit<'_>) -> Result<(BTreeMap<usize, Changed>, Vec<FileChange>)> {
        let (mut changed, mut changes) = (BTreeMap::new(), Vec::new());
        let limits = expansion::limits(self.size);
        for index in 0..self.zip.len() {
            let mut entry = self.zip.by_index(index).map_err(|error| damaged(self.path, error))?;
            let name = entry.name().map_err(|error| damaged(self.path, error))?.into_owned();
            let inside = format!("{}:{name}", self.path.display());
            let Some(data) = packages::candidate(&inside, &mut entry, limits)? else { continue };
            expansion::check(inside.as_ref(), &data, Search::Sections, limits)?;
            let Some(edited) = edit(inside.as_ref(), &data)? else { continue };
            changes.push(FileChange::new(&name, &data, &edited)?);
            let failed = |source| Error::Write { path: inside.clone().into(), source };
            let mut bytes = tempfile::tempfile().map_err(failed)?;
            bytes.write_all(&edited.bytes).map_err(failed)?;
            let digest = Sha256::digest(&edited.bytes).into();
            changed.insert(index, Changed { name, bytes, digest, size: edited.bytes.len() as u64 });
        }
        Ok((changed, changes))
    }

    /// `RECORD` with the hashes and sizes of the entries that change; its other lines stay as they are. All of its lines must fit the wheel,
    /// and those that change must have a hash: a new one would hide what somebody changed.
    fn new_record(&mut self, record: usize, changed: &BTreeMap<usize, Changed>) -> Result<String> {
        let mut text = String::new();
        let mut entry = self.zip.by_index(record).map_err(|error| damaged(self.path, error))?;
        entry.read_to_string(&mut text).map_err(|error| damaged(self.path, error))?;
        drop(entry);
        let mut by_name: BTreeMap<&str, &Changed> =
            changed.values().map(|entry| (entry.name.as_str(), entry)).collect();
        let mut lines = String::with_capacity(text.len());
        let mut seen = HashSet::new();
        for line in text.split_inclusive('\n') {
            let (field, name) = first_field(line);
            let content = line.trim_end_matches(['\r', '\n']);
            // Neither a hash nor a size has a quote in it, but either may be in quotes.
            let said = content.get(field.len() + 1..).unwrap_or_default().replace('"', "");
            let is_compared = self.is_as_recorded(&name, &said)?;
            match by_name.remove(name.as_str()) {
                Some(_) if !is_compared => {
                    return Err(Error::RecordedWithoutHash { file: self.path.to_owned(), name, said });
                }
                Some(Changed { digest, size, .. }) => {
                    let end = line.get(content.len()..).unwrap_or_default();
                    lines += &format!("{field},sha256={},{size}{end}", URL_SAFE_NO_PAD.encode(digest));
                }
                None => lines += line,
            }
            if !name.trim().is_empty() && !seen.insert(name.clone()) {
                return Err(Error::RecordedTwice { file: self.path.to_owned(), name });
            }
        }
        match by_name.keys().next() {
            Some(name) => Err(Error::NotInRecord { file: self.path.to_owned(), name: (*name).to_owned() }),
            None => Ok(lines),
        }
    }

    /// Compares an entry with what `RECORD` says of it behind its name. `false` if that has no hash to compare: `RECORD` has none of itself.
    fn is_as_recorded(&mut self, name: &str, said: &str) -> Result<bool> {
        let path = self.path;
        let Some(index) = self.zip.index_for_name(name) else { return Ok(false) };
        let entry = self.zip.by_index(index).map_err(|error| damaged(path, error))?;
        match recorded_as(said, entry).map_err(|error| damaged(path, error))? {
            Some(found) if found != said => {
                let (name, recorded) = (name.to_owned(), said.to_owned());
                Err(Error::OtherThanRecorded { file: path.to_owned(), name, recorded, found })
            }
            compared => Ok(compared.is_some()),
        }
    }

    fn write(
        &mut self,
        out: &mut File,
        record: usize,
        new_record: &str,
        changed: &BTreeMap<usize, Changed>,
    ) -> Result<()> {
        let path = self.path;
        let failed = |error: std::io::Error| damaged(path, error);
        let comment: Box<[u8]> = self.zip.comment().into();
        let mut writer = ZipWriter::new(BufWriter::new(out));
        for index in 0..self.zip.len() {
            let raw = self.zip.by_index_raw(index).map_err(|error| damaged(path, error))?;
            let new = changed.get(&index);
            if new.is_none() && index != record {
                writer.raw_copy_file(raw).map_err(|error| damaged(path, error))?;
                continue;
            }
            let name = raw.name().map_err(|error| damaged(path, error))?.into_owned();
            let large = new.is_some_and(|new| new.size >= u64::from(u32::MAX));
            let options = raw.options().large_file(large);
            drop(raw);
            writer.start_file(name, options).map_err(|error| damaged(path, error))?;
            match new {
                Some(new) => {
                    let mut bytes = &new.bytes;
                    bytes.rewind().map_err(failed)?;
                    std::io::copy(&mut BufReader::new(bytes), &mut writer).map_err(failed)?;
                }
                None => writer.write_all(new_record.as_bytes()).map_err(failed)?,
            }
        }
        writer.set_raw_comment(comment).map_err(|error| damaged(path, error))?;
        let mut out = writer.finish().map_err(|error| damaged(path, error))?;
        out.flush().map_err(failed)
    }
}

/// What `RECORD` should say of this content, in the form of what it says; `None` if it says nothing, or uses a hash that wheels do not have.
fn recorded_as(said: &str, content: impl Read) -> std::io::Result<Option<String>> {
    let (hash, size) = said.split_once(',').unwrap_or((said, ""));
    let algorithm = hash.split_once('=').map_or("", |(algorithm, _)| algorithm);
    let (digest, length) = match algorithm {
        "sha256" => hashed::<Sha256>(content)?,
        "sha384" => hashed::<Sha384>(content)?,
        "sha512" => hashed::<Sha512>(content)?,
        _ => return Ok(None),
    };
    let length = if size.is_empty() { String::new() } else { length.to_string() };
    let comma = if said.contains(',') { "," } else { "" };
    Ok(Some(format!("{algorithm}={digest}{comma}{length}")))
}

/// The hash of this content, as `RECORD` writes it, and its length.
fn hashed<D: Digest>(mut content: impl Read) -> std::io::Result<(String, u64)> {
    let (mut hasher, mut length) = (D::new(), 0);
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = content.read(&mut piece)?;
        if read == 0 {
            return Ok((URL_SAFE_NO_PAD.encode(hasher.finalize()), length));
        }
        hasher.update(piece.get(..read).unwrap_or_default());
        length += read as u64;
    }
}

/// The names in the central directory of a zip file that starts at `start`, in its order.
fn directory_names(file: File, start: u64) -> std::io::Result<Vec<Vec<u8>>> {
    const SIGNATURE: [u8; 4] = *b"PK\x01\x02";
    let mut directory = BufReader::new(file);
    directory.seek(SeekFrom::Start(start))?;
    let mut names = Vec::new();
    let mut header = [0; 46];
    while directory.read_exact(&mut header).is_ok() && header.starts_with(&SIGNATURE) {
        let length = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let mut name = vec![0; length(28).into()];
        directory.read_exact(&mut name)?;
        directory.seek_relative(i64::from(length(30)) + i64::from(length(32)))?;
        names.push(name);
    }
    Ok(names)
}

/// A name that occurs twice.
fn repeated(mut names: Vec<Vec<u8>>) -> Option<String> {
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(String::from_utf8_lossy(&pair[0]).into_owned())
}

/// The first field of a line of comma separated values, as written and as meant.
fn first_field(line: &str) -> (&str, String) {
    let Some(quoted) = line.strip_prefix('"') else {
        let field = line.split(',').next().unwrap_or_default();
        return (field, field.to_owned());
    };
    let mut end = 0;
    // Two quotes stand for one.
    while let Some(at) = quoted.get(end..).and_then(|rest| rest.find('"')) {
        end += at + 1;
        if !quoted.get(end..).is_some_and(|rest| rest.starts_with('"')) {
            let field = line.get(..end + 1).unwrap_or_default();
            return (field, quoted.get(..end - 1).unwrap_or_default().replace("\"\"", "\""));
        }
        end += 1;
    }
    (line, line.to_owned())
}

/// Reads the result: the same entries, and the changed ones and `RECORD` as they were to be.
fn verify(
    file: &Path,
    written: &mut File,
    record: usize,
    new_record: &str,
    changed: &BTreeMap<usize, Changed>,
) -> Result<()> {
    let wrong = |what: String| Error::WheelReadBack { file: file.to_owned(), what };
    let unreadable = |error: zip::result::ZipError| wrong(error.to_string());
    let before = Wheel::open(file)?.zip;
    written.rewind().map_err(|error| wrong(error.to_string()))?;
    let mut after = ZipArchive::new(BufReader::new(written)).map_err(unreadable)?;
    if before.len() != after.len() {
        return Err(wrong(format!("{} entries instead of {}", after.len(), before.len())));
    }
    for index in 0..after.len() {
        let name = name_of(&after, index);
        if name_of(&before, index) != name {
            return Err(wrong(format!("{name} is not in its place")));
        }
        if index != record && !changed.contains_key(&index) {
            continue;
        }
        // Reading to the end checks the sum of the entry, too.
        let entry = after.by_index(index).map_err(unreadable)?;
        let (digest, _) = hashed::<Sha256>(entry).map_err(|error| wrong(format!("{name}: {error}")))?;
        let expected: [u8; 32] =
            changed.get(&index).map_or_else(|| Sha256::digest(new_record.as_bytes()).into(), |new| new.digest);
        if digest != URL_SAFE_NO_PAD.encode(expected) {
            return Err(wrong(format!("{name} has other contents")));
        }
    }
    Ok(())
}

/// The name of an entry; one that cannot be read is that of no entry.
fn name_of<R: Read + Seek>(zip: &ZipArchive<R>, index: usize) -> String {
    let name = zip.name_for_index(index).and_then(std::result::Result::ok);
    name.map_or_else(|| format!("entry {index}"), std::borrow::Cow::into_owned)
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Package { name: path.display().to_string(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_records_say_is_compared_in_their_form() {
        fn found(said: &str) -> Option<String> {
            recorded_as(said, &b"a"[..]).unwrap()
        }
        let sha256 = "sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs";
        assert_eq!(found(&format!("{sha256},1")), Some(format!("{sha256},1")));
        assert_eq!(found(&format!("{sha256},")), Some(format!("{sha256},")));
        assert_eq!(found(&format!("{sha256},2")), Some(format!("{sha256},1")));
        assert_eq!(found("sha512=x,1").map(|text| text.len()), Some("sha512=".len() + 86 + ",1".len()));
        assert_eq!((found(","), found(""), found("md5=x,1")), (None, None, None));
    }

    #[test]
    fn fields_of_records() {
        let field = |line| first_field(line).1;
        assert_eq!(field("a/b.so,sha256=x,5\r\n"), "a/b.so");
        assert_eq!(first_field("\"a,b\"\"c\",sha256=x,5\n"), ("\"a,b\"\"c\"", "a,b\"c".to_owned()));
        assert_eq!(field("alone\n"), "alone\n");
        for odd in ["\"", "\"open,1", "", "\"\"", "\"\"\""] {
            field(odd);
        }
    }
}
