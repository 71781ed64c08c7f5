//! Reads the members of archives: regular, with GNU or BSD long names, or thin.

use std::borrow::Cow;
use std::io;

use object::read::archive::{ArchiveFile, ArchiveMember};

use crate::bytes::slice;
use crate::error::{FileError, FormatError};

/// A member of an archive; symbol and name tables are not members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// The name as recorded; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Its bytes, or the file that has them.
    pub data: MemberData<'a>,
    /// Where the member's bytes start in the archive file; 0 for a member of a thin archive.
    pub offset: u64,
}

/// Where the bytes of a member are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberData<'a> {
    /// In the archive.
    Inline(&'a [u8]),
    /// In a file of its own.
    Thin {
        /// The path as recorded, relative to the folder of the archive.
        path: String,
        /// The size in bytes that the archive recorded.
        size: u64,
    },
}

impl Member<'_> {
    /// Its bytes; those of a thin archive's member by `read_thin`, given the path that the archive records.
    pub(crate) fn bytes(
        &self,
        mut read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Cow<'_, [u8]>, FileError> {
        match &self.data {
            MemberData::Inline(bytes) => Ok(Cow::Borrowed(*bytes)),
            MemberData::Thin { path, .. } => {
                let failed = |error| FileError::ThinMember { member: path.clone(), error };
                read_thin(path).map(Cow::Owned).map_err(failed)
            }
        }
    }

    /// The error of this member, whose offset is one in its bytes.
    pub(crate) fn error(&self, error: FormatError) -> FileError {
        FileError::Format { member: Some(self.name.clone()), error: error.shifted(self.offset) }
    }
}

/// Reads no member of a thin archive: for readers of files that need other files, where there are none.
///
/// # Errors
/// Always.
pub fn reject_thin_members(_path: &str) -> io::Result<Vec<u8>> {
    Err(io::Error::other("members of thin archives are not read"))
}

/// Reads the members of an archive, in order.
///
/// # Errors
/// Data that is not an archive, or a member that lies outside of it.
pub fn members(archive: &[u8]) -> Result<Vec<Member<'_>>, FormatError> {
    let file = ArchiveFile::parse(archive).map_err(|e| FormatError::parser(0, "damaged archive", e))?;
    let mut members = Vec::new();
    // The reader's errors have no offset; that of the last sound member is close.
    let mut last_good = 0;
    for member in file.members() {
        let member = member.map_err(|e| FormatError::parser(last_good, "damaged archive member", e))?;
        let member = read_member(archive, file.is_thin(), &member)?;
        last_good = member.offset.max(last_good);
        members.push(member);
    }
    Ok(members)
}

fn read_member<'a>(archive: &'a [u8], is_thin: bool, member: &ArchiveMember<'a>) -> Result<Member<'a>, FormatError> {
    let name = String::from_utf8_lossy(member.name()).into_owned();
    let (offset, size) = member.file_range();
    let data = if is_thin {
        MemberData::Thin { path: name.clone(), size }
    } else {
        let what = format!("archive member {name}");
        MemberData::Inline(slice(archive, offset, size, &what)?)
    };
    Ok(Member { name, data, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FormatErrorKind;
    use crate::samples;

    #[test]
    fn members_with_their_places() {
        let contents: [(&str, &[u8]); 2] = [("a_name_longer_than_sixteen_bytes.o", b"odd"), ("b.o", b"even")];
        let archive = samples::archive(&contents);
        let members = members(&archive).expect("a sound archive");
        assert_eq!(members.len(), 2);
        for (member, (name, data)) in members.iter().zip(contents) {
            assert_eq!((member.name.as_str(), &member.data), (name, &MemberData::Inline(data)));
            let at = usize::try_from(member.offset).expect("small");
            assert_eq!(&archive[at..at + data.len()], data);
        }
    }

    #[test]
    fn a_member_that_is_cut_off() {
        let archive = samples::archive(&[("b.o", b"even")]);
        let error = members(&archive[..archive.len() - 1]).expect_err("a damaged archive");
        assert_eq!(error.kind, FormatErrorKind::Truncated { what: "archive member b.o".to_owned() });
    }
}
