//! The bytes of files: by file, archive member, section, target and form, function, and kind.

use std::collections::{BTreeMap, BTreeSet};

use offload_bundle::printable;
use offload_bundle::usage::CubinPart;
use serde::Serialize;

use crate::contents::{FileContents, Image};
use crate::table::{Demangle, Texts};

/// Bytes with a name. In a difference, a node whose bytes are all the same is left out of its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    /// What it is: `files`, `file`, `member`, `section`, `target`, `form` or `rest`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// How many images it has.
    pub images: u64,
    /// Its bytes as stored.
    pub bytes: u64,
    /// Its bytes before compression: the unit of `functions` and `parts`.
    pub uncompressed: u64,
    /// In a difference: the bytes as stored before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_bytes: Option<u64>,
    /// In a difference: the bytes before compression before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_uncompressed: Option<u64>,
    /// What it consists of, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
    /// Of machine code: its functions, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionNode>,
    /// Of machine code: what belongs to no function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// The bytes of all functions of one name: its number, how many there are, and what the bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionNode(pub usize, pub u64, pub Vec<Part>);

/// Bytes of one kind: the kind's place in [`KINDS`], and their number; in a difference also the number before the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Part {
    /// Of a file.
    Plain(usize, u64),
    /// Of a difference: after and before.
    Change(usize, u64, u64),
}

/// The kinds of bytes, as `offload-bundle resources` names them.
pub const KINDS: [&str; 9] = [
    "code",
    "constants",
    "variables",
    "debug information",
    "line information",
    "symbols",
    "relocations",
    "attributes",
    "headers and the rest",
];

/// Bytes by kind.
type Kinds = BTreeMap<usize, u64>;

/// A node while images are added to it.
#[derive(Debug, Default)]
struct Sums {
    images: u64,
    bytes: u64,
    uncompressed: u64,
    children: BTreeMap<(&'static str, String), Sums>,
    functions: BTreeMap<String, (u64, Kinds)>,
    parts: Kinds,
}

/// The tree of files.
pub fn of_files(title: &str, files: &[FileContents], texts: &mut Texts, demangle: Demangle<'_>) -> Node {
    let sums = Sums::of_files(files);
    Writer { texts, demangle, is_change: false }.node("files", title, Some(&sums), None)
}

/// The tree of what differs. Files are compared by their names.
pub fn of_change(
    title: &str,
    (old, new): (&[FileContents], &[FileContents]),
    texts: &mut Texts,
    demangle: Demangle<'_>,
) -> Node {
    let (old, new) = (Sums::of_files(old), Sums::of_files(new));
    Writer { texts, demangle, is_change: true }.node("files", title, Some(&new), Some(&old))
}

impl Sums {
    fn of_files(files: &[FileContents]) -> Self {
        let mut root = Self::default();
        for file in files {
            let name = if files.len() == 1 { file.short_name() } else { &file.name };
            let of_file = root.children.entry(("file", name.to_owned())).or_default();
            file.images.iter().for_each(|image| of_file.add_image(image));
            // An offload binary that is compressed as a whole holds more than the file has.
            let rest = file.size.saturating_sub(of_file.bytes);
            if rest > 0 {
                let name = "everything else in the file".to_owned();
                let others = Sums { bytes: rest, uncompressed: rest, ..Self::default() };
                of_file.children.insert(("rest", name), others);
                of_file.bytes = of_file.bytes.saturating_add(rest);
                of_file.uncompressed = of_file.uncompressed.saturating_add(rest);
            }
            root.images += of_file.images;
            root.bytes = root.bytes.saturating_add(of_file.bytes);
            root.uncompressed = root.uncompressed.saturating_add(of_file.uncompressed);
        }
        root
    }

    fn add_image(&mut self, image: &Image) {
        let row = &image.row;
        let path = [
            row.member.clone().map(|member| ("member", member)),
            row.section.clone().map(|section| ("section", section)),
            Some(("target", image.target().to_owned())),
            Some(("form", image.form())),
        ];
        let mut node = self;
        node.count(image);
        for key in path.into_iter().flatten() {
            node = node.children.entry(key).or_default();
            node.count(image);
        }
        let Some(shares) = &image.shares else { return };
        for function in &shares.functions {
            let (copies, kinds) = node.functions.entry(function.name.clone()).or_default();
            *copies += 1;
            add_parts(kinds, &function.parts);
        }
        add_parts(&mut node.parts, &shares.rest);
    }

    fn count(&mut self, image: &Image) {
        self.images += 1;
        self.bytes = self.bytes.saturating_add(image.row.size);
        self.uncompressed = self.uncompressed.saturating_add(image.uncompressed());
    }
}

fn add_parts(kinds: &mut Kinds, parts: &[CubinPart]) {
    for part in parts {
        let kind = KINDS.iter().position(|kind| *kind == part.name).unwrap_or(KINDS.len() - 1);
        let bytes = kinds.entry(kind).or_default();
        *bytes = bytes.saturating_add(part.bytes);
    }
}

/// Turns sums into nodes.
struct Writer<'w> {
    texts: &'w mut Texts,
    demangle: Demangle<'w>,
    is_change: bool,
}

impl Writer<'_> {
    fn node(&mut self, kind: &'static str, name: &str, new: Option<&Sums>, old: Option<&Sums>) -> Node {
        let (none, is_change) = (Sums::default(), self.is_change);
        let (new, old) = (new.unwrap_or(&none), old.unwrap_or(&none));
        let keys: BTreeSet<_> = new.children.keys().chain(old.children.keys()).collect();
        let children = keys.into_iter().map(|key| {
            let (kind, name) = key;
            self.node(kind, name, new.children.get(key), old.children.get(key))
        });
        let mut children: Vec<Node> = children.filter(|child| !is_change || child.differs()).collect();
        children.sort_by_key(|child| std::cmp::Reverse(child.largest()));
        Node {
            kind,
            name: printable::name(name).into_owned(),
            images: new.images.max(old.images),
            bytes: new.bytes,
            uncompressed: new.uncompressed,
            old_bytes: is_change.then_some(old.bytes),
            old_uncompressed: is_change.then_some(old.uncompressed),
            children,
            functions: self.functions(new, old),
            parts: self.parts(&new.parts, &old.parts),
        }
    }

    fn functions(&mut self, new: &Sums, old: &Sums) -> Vec<FunctionNode> {
        let names: BTreeSet<&String> = new.functions.keys().chain(old.functions.keys()).collect();
        let none = (0, Kinds::new());
        let mut functions = Vec::with_capacity(names.len());
        for name in names {
            let (copies, new) = new.functions.get(name).unwrap_or(&none);
            let (old_copies, old) = old.functions.get(name).unwrap_or(&none);
            let parts = self.parts(new, old);
            if !parts.is_empty() {
                functions.push(FunctionNode(self.texts.name(name, self.demangle), *copies.max(old_copies), parts));
            }
        }
        functions
            .sort_by_key(|FunctionNode(_, _, parts)| std::cmp::Reverse(parts.iter().map(Part::weight).sum::<u64>()));
        functions
    }

    fn parts(&self, new: &Kinds, old: &Kinds) -> Vec<Part> {
        if !self.is_change {
            return new.iter().map(|(kind, bytes)| Part::Plain(*kind, *bytes)).collect();
        }
        let kinds: BTreeSet<&usize> = new.keys().chain(old.keys()).collect();
        let bytes = |of: &Kinds, kind| of.get(kind).copied().unwrap_or(0);
        let parts = kinds.into_iter().map(|kind| Part::Change(*kind, bytes(new, kind), bytes(old, kind)));
        parts.filter(|part| part.weight() > 0).collect()
    }
}

impl Node {
    fn differs(&self) -> bool {
        self.old_bytes != Some(self.bytes)
            || self.old_uncompressed != Some(self.uncompressed)
            || !(self.children.is_empty() && self.functions.is_empty() && self.parts.is_empty())
    }

    fn largest(&self) -> u64 {
        self.bytes.max(self.old_bytes.unwrap_or(0))
    }
}

impl Part {
    fn weight(&self) -> u64 {
        match self {
            Part::Plain(_, bytes) => *bytes,
            Part::Change(_, new, old) => new.abs_diff(*old),
        }
    }
}
