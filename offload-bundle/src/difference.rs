//! Compares two files image by image, for `offload-bundle diff`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use serde::Serialize;

use crate::error::FileError;
use crate::fatbin::FatbinEntry;
use crate::listing::{self, Found, Row};
use crate::printable;

mod contents;
mod within;

use contents::{Contents, Functions, Names};
pub use within::{DifferentCubins, TargetDifference};

/// An image of one of the files, prepared for the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedImage {
    row: Row,
    /// Decompressed; as stored if it cannot be.
    contents: Contents,
    /// What else the fatbin records: flags, apart from those of the compression, and options for the driver's compiler.
    recorded: Option<(u64, Vec<u8>)>,
}

/// Reads the images of a file.
///
/// # Errors
/// Those of [`listing::list`].
pub fn images(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<ComparedImage>, FileError> {
    let (mut images, mut names) = (Vec::new(), Names::new());
    listing::visit(data, read_thin, |found| {
        images.push(ComparedImage::new(found, &mut names));
        Ok(())
    })?;
    Ok(images)
}

impl ComparedImage {
    fn new(found: &Found<'_>, names: &mut Names) -> Self {
        let options = |entry: &FatbinEntry<'_>| entry.options.unwrap_or_default().to_vec();
        Self {
            row: found.row.clone(),
            contents: match found.payload() {
                Ok(bytes) => Contents::new(&bytes, names),
                Err(_) => Contents::new(found.stored(), names),
            },
            recorded: found.entry().map(|entry| (entry.flags_but_compression(), options(entry))),
        }
    }
}

/// The differences of two files. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Whether nothing differs.
    pub equal: bool,
    /// Whether the images that are in both come in another order, which can matter to a driver.
    pub reordered: bool,
    /// One for each image that is not the same in both: those of the first file in its order, then what only the second has.
    pub images: Vec<Change>,
}

/// An image that is not the same in both files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The image of the first file, unless only the second has it.
    pub left: Option<Row>,
    /// The image of the second file, unless only the first has it.
    pub right: Option<Row>,
    /// What differs, if both have it.
    pub fields: Vec<Field>,
    /// Of cubins and code objects that differ: the functions that do.
    pub functions: Vec<Function>,
}

/// A property in which two images of the same kind and target differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// `name`, `version`, `compression`, `stored size`, `options`, `flags`, `size` or `contents`; of a kernel `registers`, `stack`, `shared` and so
    /// on.
    pub name: &'static str,
    /// In the first file; empty for contents.
    pub left: String,
    /// In the second file; empty for contents.
    pub right: String,
}

/// A function of a cubin or code object that is not the same in both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Mangled.
    pub name: String,
    /// `removed`, `added` or `changed`.
    pub change: &'static str,
    /// Of a kernel in two code objects for AMD's GPUs: what it takes more or less of. Empty if only its machine code differs.
    pub fields: Vec<Field>,
}

/// The key by which an image is found in the other file, with a number among images of the same key.
type Key<'a> = (&'a Option<String>, &'a str, &'a Option<String>, &'a str, &'a str);

impl Difference {
    /// Compares two files. `contents_only` compares what their images hold, however they are stored, named and labelled.
    pub fn new(left: &[ComparedImage], right: &[ComparedImage], contents_only: bool) -> Self {
        let (left_keys, right_keys) = (keys(left), keys(right));
        let places: HashMap<_, usize> = right_keys.iter().enumerate().map(|(place, key)| (key, place)).collect();
        let mut images = Vec::new();
        let mut met = Vec::new();
        for (image, key) in left.iter().zip(&left_keys) {
            match places.get(key).and_then(|place| Some((*place, right.get(*place)?))) {
                Some((place, other)) => {
                    met.push(place);
                    images.extend(change(image, other, contents_only));
                }
                None => images.push(Change::only(Some(&image.row), None)),
            }
        }
        let known: BTreeSet<_> = left_keys.iter().collect();
        let added = right.iter().zip(&right_keys).filter(|(_, key)| !known.contains(key));
        images.extend(added.map(|(image, _)| Change::only(None, Some(&image.row))));
        let reordered = !met.is_sorted();
        Self { equal: images.is_empty() && !reordered, reordered, images }
    }

    /// Formats a line for each image that differs: `-` only in the first file, `+` only in the second, `!` changed. If they are many, a line
    /// is for all of one kind and target, unless all is to be printed. `shown` turns the name of a function into what is printed.
    pub fn text(&self, is_full: bool, shown: &dyn Fn(&str) -> String) -> String {
        /// What fits a screen.
        const MOST_LINES: usize = 40;
        let mut out: String = match is_full || self.images.len() <= MOST_LINES {
            true => self.images.iter().map(|change| line(change, is_full, shown)).collect(),
            false => self.groups(),
        };
        if self.reordered {
            out += "! the images come in another order\n";
        }
        out
    }

    /// `! 54 cubin sm_90: contents 54, size 30`.
    fn groups(&self) -> String {
        /// Their number, and that of each field that differs.
        type Counts<'f> = (usize, BTreeMap<&'f str, usize>);
        let mut groups: BTreeMap<(char, String), Counts<'_>> = BTreeMap::new();
        for change in &self.images {
            let (sign, row) = match (&change.left, &change.right) {
                (Some(row), Some(_)) => ('!', row),
                (Some(row), None) => ('-', row),
                (None, Some(row)) => ('+', row),
                (None, None) => continue,
            };
            let (count, fields) = groups.entry((sign, kind_and_target(row))).or_default();
            *count += 1;
            for field in &change.fields {
                *fields.entry(field.name).or_default() += 1;
            }
        }
        let mut out = String::new();
        for ((sign, name), (count, fields)) in groups {
            let fields: Vec<String> = fields.into_iter().map(|(name, number)| format!("{name} {number}")).collect();
            let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
            out += &format!("{sign} {count} {name}{fields}\n");
        }
        out + &format!("{} images differ; --full has a line for each\n", self.images.len())
    }
}

fn keys(images: &[ComparedImage]) -> Vec<(Key<'_>, usize)> {
    let mut counts: HashMap<Key<'_>, usize> = HashMap::new();
    let mut keys = Vec::new();
    for ComparedImage { row, .. } in images {
        let key = (&row.member, row.kind.as_str(), &row.triple, row.target.as_str(), row.image.as_str());
        let count = counts.entry(key).or_default();
        *count += 1;
        keys.push((key, *count));
    }
    keys
}

impl Change {
    fn only(left: Option<&Row>, right: Option<&Row>) -> Self {
        Self { left: left.cloned(), right: right.cloned(), fields: Vec::new(), functions: Vec::new() }
    }
}

fn change(left: &ComparedImage, right: &ComparedImage, contents_only: bool) -> Option<Change> {
    let mut fields = Vec::new();
    if !contents_only {
        fields.extend(stored_fields(left, right));
    }
    let (ours, theirs) = (&left.contents, &right.contents);
    let is_same = ours.hash == theirs.hash;
    fields.extend(field("size", ours.size.to_string(), theirs.size.to_string()));
    if !is_same {
        fields.push(Field { name: "contents", left: String::new(), right: String::new() });
    }
    if fields.is_empty() {
        return None;
    }
    let functions = match (&ours.functions, &theirs.functions) {
        (Some(ours), Some(theirs)) if !is_same => different(ours, theirs),
        _ => Vec::new(),
    };
    Some(Change { left: Some(left.row.clone()), right: Some(right.row.clone()), fields, functions })
}

fn stored_fields(left: &ComparedImage, right: &ComparedImage) -> Vec<Field> {
    let (a, b) = (&left.row, &right.row);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let flags =
        |image: &ComparedImage| image.recorded.as_ref().map_or("none".to_owned(), |(flags, _)| format!("{flags:#x}"));
    let options = |image: &ComparedImage| {
        let options = image.recorded.as_ref().map(|(_, options)| String::from_utf8_lossy(options).into_owned());
        format!("'{}'", options.unwrap_or_default())
    };
    let fields = [
        field("name", text(&a.name), text(&b.name)),
        field("version", text(&a.version), text(&b.version)),
        field("compression", a.compression.clone(), b.compression.clone()),
        field("stored size", a.size.to_string(), b.size.to_string()),
        field("options", options(left), options(right)),
        field("flags", flags(left), flags(right)),
    ];
    fields.into_iter().flatten().collect()
}

fn field(name: &'static str, left: String, right: String) -> Option<Field> {
    (left != right).then_some(Field { name, left, right })
}

/// The functions of two cubins or code objects that differ, by name.
fn different(ours: &Functions, theirs: &Functions) -> Vec<Function> {
    let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let function = |name: &Arc<str>| {
        let (one, two) = (ours.get(name), theirs.get(name));
        let fields = one.zip(two).map_or_else(Vec::new, |(one, two)| resources(one, two));
        let change = match (one, two) {
            (Some(one), Some(two)) if one.code == two.code && fields.is_empty() => return None,
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
            _ => "added",
        };
        Some(Function { name: name.to_string(), change, fields })
    };
    names.into_iter().filter_map(function).collect()
}

/// What a kernel takes more or less of.
fn resources(one: &contents::Function, two: &contents::Function) -> Vec<Field> {
    let pairs = one.resources.iter().flatten().zip(two.resources.iter().flatten());
    pairs.filter_map(|((name, one), (_, two))| field(name, one.to_string(), two.to_string())).collect()
}

fn line(change: &Change, is_full: bool, shown: &dyn Fn(&str) -> String) -> String {
    /// More functions are counted.
    const MOST_FUNCTIONS: usize = 8;
    match (&change.left, &change.right) {
        (Some(left), None) => format!("- {}\n", name(left)),
        (None, Some(right)) => format!("+ {}\n", name(right)),
        (Some(row), Some(_)) => {
            let fields = change.fields.iter().map(words);
            let function = |function: &Function| {
                let fields: Vec<String> = function.fields.iter().map(words).collect();
                let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
                format!("{} {}{fields}", printable::name(&shown(&function.name)), function.change)
            };
            let most = if is_full { usize::MAX } else { MOST_FUNCTIONS };
            let functions = change.functions.iter().take(most).map(function);
            let others = change.functions.len().saturating_sub(most);
            let others = (others > 0).then(|| format!("and {others} functions more (--full)"));
            format!("! {}: {}\n", name(row), fields.chain(functions).chain(others).collect::<Vec<_>>().join(", "))
        }
        (None, None) => String::new(),
    }
}

/// `size 3432 -> 3560`.
fn words(field: &Field) -> String {
    match field.name {
        "contents" => "contents differ".to_owned(),
        name => format!("{name} {} -> {}", printable::name(&field.left), printable::name(&field.right)),
    }
}

/// `ptx sm_90 (a.o)`.
fn name(row: &Row) -> String {
    let member = row.member.as_ref().map(|member| format!(" ({member})")).unwrap_or_default();
    kind_and_target(row) + &printable::name(&member)
}

/// `ptx sm_90`.
fn kind_and_target(row: &Row) -> String {
    let target = row.target_or_triple().unwrap_or("-");
    printable::name(&format!("{} {target}", row.image)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn read(data: &[u8]) -> Vec<ComparedImage> {
        images(data, crate::archive::reject_thin_members).expect("a sound file")
    }

    #[test]
    fn the_same() {
        let images = read(&samples::fatbin(true));
        let difference = Difference::new(&images, &images, false);
        assert!(difference.equal && difference.text(false, &str::to_owned).is_empty());
    }

    #[test]
    fn many_are_counted() {
        let images = read(&samples::fatbin(true).repeat(20));
        let difference = Difference::new(&images, &[], false);
        let text = difference.text(false, &str::to_owned);
        assert!(
            text.contains("- 20 cubin sm_90\n") && text.ends_with("60 images differ; --full has a line for each\n")
        );
        assert_eq!(difference.text(true, &str::to_owned).lines().count(), 60);
    }

    #[test]
    fn stored_otherwise() {
        let (plain, packed) = (samples::fatbin(false), samples::fatbin(true));
        let (plain, packed) = (read(&plain), read(&packed));
        let difference = Difference::new(&plain, &packed, false);
        assert_eq!(difference.images.len(), 3);
        assert!(
            difference.text(false, &str::to_owned).starts_with("! cubin sm_90: compression none -> zstd, "),
            "{}",
            difference.text(false, &str::to_owned)
        );
        assert!(Difference::new(&plain, &packed, true).equal);
    }

    #[test]
    fn kernels_of_code_objects() {
        let bundle = |vgprs, code: &[u8]| {
            let code = samples::amd_code(vgprs, code);
            read(&crate::hip_bundle::write(&[("hip-amdgcn-amd-amdhsa--gfx90a", &code)], 256))
        };
        let text =
            |one: &[ComparedImage], two: &[ComparedImage]| Difference::new(one, two, false).text(false, &str::to_owned);
        let one = bundle(8, &[7; 32]);
        assert_eq!(
            text(&one, &bundle(12, &[7; 32])),
            "! object gfx90a: contents differ, first changed (registers 8 -> 12)\n"
        );
        assert_eq!(text(&one, &bundle(8, &[8; 32])), "! object gfx90a: contents differ, first changed\n");
        assert_eq!(text(&one, &one), "");
    }

    #[test]
    fn images_that_one_file_lacks_and_their_order() {
        let images = read(&samples::fatbin(true));
        let backwards: Vec<ComparedImage> = images.iter().rev().cloned().collect();
        assert_eq!(
            Difference::new(&images, &backwards, false).text(false, &str::to_owned),
            "! the images come in another order\n"
        );
        assert_eq!(Difference::new(&images, &images[1..], false).text(false, &str::to_owned), "- cubin sm_90\n");
        assert_eq!(Difference::new(&images[..2], &images, false).text(false, &str::to_owned), "+ ptx sm_90\n");
    }
}
