//! What becomes of one fatbin with one driver on one GPU, and which of its kernels run.

use std::collections::HashSet;

use super::super::code::{Code, Content, Word};
use super::super::containers::FoundContainer;
use super::super::driver::{Driver, Runtime};
use super::super::relink::{may_define, outcome_in, sources};
use super::super::select::{CONCATENATED, Verdict, chosen, judge};
use super::known_drivers::known_failure;
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;

/// What becomes of a fatbin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// Machine code runs, or links of machine code.
    Runs(Taken<'a>),
    /// The driver compiles PTX first.
    Compiles(Taken<'a>),
    /// Nothing runs.
    Fails(String),
    /// What the driver does is not known.
    Unknown(String),
}

/// What a driver takes of a fatbin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken<'a> {
    /// `sass 90`, `link ptx 80`.
    pub brief: String,
    /// The container and the entry of each image, the fatbin's own or those of its objects.
    pub entries: Vec<(usize, &'a Code)>,
}

/// Predicts what becomes of a fatbin of a file.
pub(super) fn fate<'a>(found: &'a FoundContainer, all: &'a [FoundContainer], gpu: GpuArch, driver: Driver) -> Fate<'a> {
    let runtime = Runtime::from(driver);
    let Some(code) = chosen(&found.codes, gpu, runtime) else {
        return without_own(found, all, gpu, driver);
    };
    if let Some(why) = unknown(code, driver) {
        return Fate::Unknown(why);
    }
    if let Some(what) = known_failure(&found.codes, code, driver) {
        return Fate::Fails(format!("bad driver: {what}"));
    }
    let (verdict, problem) = judge(code, gpu, runtime);
    let taken = || Taken { brief: code.name(), entries: vec![(found.place.container, code)] };
    match verdict {
        Verdict::Ptx => Fate::Compiles(taken()),
        _ if verdict.runs() => Fate::Runs(taken()),
        _ => Fate::Fails(format!("{}: {}", verdict.word(), problem.unwrap_or_default())),
    }
}

/// What becomes of a fatbin of which no entry fits: the driver links its objects again, if it was linked.
fn without_own<'a>(found: &'a FoundContainer, all: &'a [FoundContainer], gpu: GpuArch, driver: Driver) -> Fate<'a> {
    let outcome = outcome_in(found, all, gpu, Runtime::from(driver));
    if !outcome.verdict.runs() {
        let others = found.codes.iter().any(|code| code.word() == Word::Other);
        let why = format!("{}: {}", outcome.verdict.word(), outcome.reason);
        return if others { Fate::Unknown(why) } else { Fate::Fails(why) };
    }
    let entries: Vec<(usize, &Code)> = outcome.parts.iter().map(|part| (part.container, part.code)).collect();
    if let Some(why) = entries.iter().find_map(|(_, code)| unknown(code, driver)) {
        return Fate::Unknown(why);
    }
    let bad = |(container, code): &(usize, &Code)| {
        let object = numbered(all, *container)?;
        known_failure(&object.codes, code, driver)
    };
    if let Some(what) = entries.iter().find_map(bad) {
        return Fate::Fails(format!("bad driver: {what}"));
    }
    let taken = Taken { brief: outcome.brief(), entries };
    match taken.entries.iter().any(|(_, code)| code.word() == Word::Ptx) {
        true => Fate::Compiles(taken),
        false => Fate::Runs(taken),
    }
}

/// Why nothing is known of an entry: it is a part of a concatenation, or it and the driver are both newer than the table of releases.
fn unknown(code: &Code, driver: Driver) -> Option<String> {
    if code.is_concatenated {
        return Some(format!("{} is {CONCATENATED}", code.name()));
    }
    let Driver::Branch(branch) = driver else { return None };
    let newest = KNOWN.releases.last().filter(|newest| branch > newest.driver_branch)?;
    let what = match &code.content {
        Content::Ptx { version, .. } if *version > newest.ptx => format!("PTX {version}"),
        Content::Sass { toolkit: Some(toolkit), .. } if toolkit.major > newest.release.major => {
            format!("machine code of CUDA {}", toolkit.major)
        }
        _ => return None,
    };
    Some(format!("{} has {what}, which is newer than this program knows, as is driver {branch}", code.name()))
}

/// The kernels of a fatbin, with those that its entries define.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kernels<'a> {
    /// All that one of its entries defines, or if it has none, one of its objects'.
    pub all: Vec<&'a str>,
    /// Whether it defines anything at all, or may: code that cannot be read may define something.
    pub may_define: bool,
}

impl<'a> Kernels<'a> {
    pub(super) fn of(found: &'a FoundContainer, all: &'a [FoundContainer]) -> Self {
        let parts = sources(found, all);
        let mut kernels: Vec<&str> = parts.iter().flat_map(|part| names(part)).collect();
        kernels.sort_unstable();
        kernels.dedup();
        Self { all: kernels, may_define: parts.iter().any(|part| may_define(part)) }
    }

    /// Those that none of the entries defines that a driver takes.
    pub(super) fn lacking(&self, taken: &Taken<'a>, all: &'a [FoundContainer]) -> Vec<&'a str> {
        let symbols = |(container, code): &(usize, &Code)| {
            numbered(all, *container).and_then(|found| found.symbols.get(code.number.checked_sub(1)?))
        };
        // Nearly always the only entry has all.
        if let [one] = taken.entries.as_slice()
            && symbols(one).is_some_and(|symbols| symbols.kernels.len() == self.all.len())
        {
            return Vec::new();
        }
        let taken = taken.entries.iter().filter_map(symbols);
        let served: HashSet<&str> = taken.flat_map(|symbols| &symbols.kernels).map(AsRef::as_ref).collect();
        self.all.iter().filter(|name| !served.contains(**name)).copied().collect()
    }
}

/// The container of a number. Those of a file are numbered in their order.
pub(super) fn numbered(all: &[FoundContainer], number: usize) -> Option<&FoundContainer> {
    all.get(number.checked_sub(1)?).filter(|found| found.place.container == number)
}

fn names(found: &FoundContainer) -> impl Iterator<Item = &str> {
    found.symbols.iter().flat_map(|symbols| &symbols.kernels).map(AsRef::as_ref)
}
