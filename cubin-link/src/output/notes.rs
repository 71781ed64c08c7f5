//! What tools made the cubin, and what it needs: the notes and `.nv.compat`.

use crate::error::LinkError;
use crate::unit::{Kind, Unit, records};

/// The notes of the cubin.
pub(super) struct Notes {
    /// `.note.nv.tkinfo`: a note of this linker, and those of all units.
    pub(super) tools: Vec<u8>,
    /// `.note.nv.cuinfo`.
    pub(super) release: Vec<u8>,
    /// `.nv.compat`.
    pub(super) compatibility: Vec<u8>,
}

/// `CAN_FASTPATH_FINALIZE`, which nvlink leaves out.
const FAST_PATH: u8 = 0x0b;
/// The type of a note about tools, its owner, and the version of its form.
const TOOL_NOTE: u32 = 2000;
const OWNER: &[u8; 12] = b"NVIDIA Corp\0";
const TOOL_NOTE_VERSION: u32 = 2;

impl Notes {
    /// Joins the notes of all units.
    ///
    /// # Errors
    /// Units that were compiled for different virtual architectures or by different releases: what nvlink makes of them is not known.
    pub(super) fn merge(units: &[Unit<'_>], target: &str) -> Result<Self, LinkError> {
        let mut tools = own_note(target);
        for (_, section) in sections(units, Kind::ToolNote) {
            tools.extend_from_slice(section.data);
        }
        let release = same(units, Kind::ReleaseNote, |_, data| Some(data.to_vec()))?;
        let compatibility = same(units, Kind::Compatibility, |_, data| compatibility(data))?;
        Ok(Notes { tools, release, compatibility })
    }
}

fn sections<'u, 'a>(
    units: &'u [Unit<'a>],
    kind: Kind,
) -> impl Iterator<Item = (&'u Unit<'a>, &'u crate::unit::Section<'a>)> {
    units.iter().flat_map(move |unit| {
        unit.sections.iter().filter(move |section| section.kind == kind).map(move |section| (unit, section))
    })
}

/// What all units have in a section.
fn same(
    units: &[Unit<'_>],
    kind: Kind,
    read: impl Fn(&Unit<'_>, &[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, LinkError> {
    let mut first: Option<Vec<u8>> = None;
    for (unit, section) in sections(units, kind) {
        let unknown =
            |what: &str| LinkError::unsupported(unit.file, section.offset, format!("{} {what}", section.name));
        let bytes = read(unit, section.data).ok_or_else(|| unknown("with a record that is not known"))?;
        match &first {
            Some(first) if *first != bytes => return Err(unknown("of another content than in other inputs")),
            _ => first = Some(bytes),
        }
    }
    let file = units.first().map_or("", |unit| unit.file);
    let count = sections(units, kind).count();
    first.filter(|_| count == units.len()).ok_or_else(|| LinkError::unsupported(file, 0, "cubin without notes"))
}

fn compatibility(data: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for record in records(data)? {
        if record.attribute != FAST_PATH {
            bytes.extend_from_slice(record.whole);
        } else if record.bytes().iter().any(|byte| *byte != 0) {
            return None;
        }
    }
    Some(bytes)
}

/// The note of this linker, in the form of NVIDIA's tools: offsets of texts, and the texts.
fn own_note(target: &str) -> Vec<u8> {
    let version = concat!("fatlink ", env!("CARGO_PKG_VERSION"));
    let texts = ["", "fatlink", version, "", &format!("-arch {target} ")];
    let mut offsets = Vec::new();
    let mut strings = Vec::new();
    for text in texts {
        offsets.extend((strings.len() as u32).to_le_bytes());
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
    }
    strings.resize(strings.len().next_multiple_of(4), 0);
    let content = [&TOOL_NOTE_VERSION.to_le_bytes()[..], &offsets, &strings].concat();
    let header = [OWNER.len() as u32, content.len() as u32, TOOL_NOTE].map(u32::to_le_bytes).concat();
    [&header[..], OWNER, &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::u32_at;

    #[test]
    fn own_note_has_the_form_of_others() {
        let note = own_note("sm_90");
        assert_eq!(u32_at(&note, 0), Some(12));
        assert_eq!(u32_at(&note, 4).map(|size| size as usize + 24), Some(note.len()));
        let text = |number: usize| {
            let offset = u32_at(&note, 28 + number * 4).expect("an offset") as usize;
            crate::bytes::c_str(&note[48..], offset).expect("a text")
        };
        assert_eq!((text(1), text(4)), ("fatlink", "-arch sm_90 "));
    }

    #[test]
    fn fast_path_is_left_out() {
        let record = [2, 9, 0, 0, 4, 11, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(compatibility(&record), Some(vec![2, 9, 0, 0]));
        let other = [4, 11, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(compatibility(&other), None);
    }
}
