//! Drops images from the members of archives.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Choice, EditedFile, strip_file};
use crate::archive::{self, Member, MemberData};
use crate::archive_edit;
use crate::error::FileError;
use crate::listing::Row;

pub(super) fn strip(data: &[u8], choice: &Choice) -> Result<EditedFile<'static>, FileError> {
    let members = archive::members(data)?;
    let members: BTreeMap<u64, &Member<'_>> = members.iter().map(|member| (member.offset, member)).collect();
    let (mut zeroed, mut dropped) = (0, Vec::new());
    let bytes = archive_edit::rewrite(data, |at, content| {
        // Tables of the archive are no members.
        let Some(member) = members.get(&at).filter(|member| matches!(member.data, MemberData::Inline(_))) else {
            return Ok::<_, FileError>(None);
        };
        let of_member = strip_file(content, choice).map_err(|error| member.error(error))?;
        zeroed += of_member.zeroed;
        dropped.extend(of_member.dropped.into_iter().map(|row| {
            let offset = row.offset.saturating_add(at);
            Row { member: Some(member.name.clone()), offset, ..row }
        }));
        let is_changed = of_member.bytes != content;
        Ok(is_changed.then(|| of_member.bytes.into_owned()))
    })?;
    Ok(EditedFile { bytes: Cow::Owned(bytes), zeroed, dropped, stays: Default::default() })
}
