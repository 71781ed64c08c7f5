//! What files ship: the targets and toolkits of their images, to compare with claims.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::code::{Code, Content, Word};
use super::super::containers::FoundContainer;
use crate::GpuArch;

/// What the images of a file are. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Shipped {
    /// The targets of machine code.
    pub machine_code: BTreeSet<GpuArch>,
    /// The targets of PTX.
    pub ptx: BTreeSet<GpuArch>,
    /// The major versions of the CUDA toolkits that made machine code, as far as that is recorded.
    pub cuda: BTreeSet<u32>,
    /// The major version of the CUDA runtime library that the file needs.
    pub runtime: Option<u32>,
}

impl Shipped {
    /// What the fatbins of a file are, and which libraries it needs.
    pub(super) fn new(fatbins: &[FoundContainer], needed: &[&str]) -> Self {
        let codes = || fatbins.iter().flat_map(|found| &found.codes);
        let of = |word| codes().filter(move |code| code.word() == word).map(|code| code.arch).collect();
        Self {
            machine_code: of(Word::Sass),
            ptx: of(Word::Ptx),
            cuda: codes().filter_map(toolkit).collect(),
            runtime: needed.iter().find_map(|name| name.strip_prefix("libcudart.so.")?.split('.').next()?.parse().ok()),
        }
    }

    /// What several files ship together.
    pub(super) fn union<'s>(all: impl Iterator<Item = &'s Shipped>) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.machine_code.extend(&one.machine_code);
            sum.ptx.extend(&one.ptx);
            sum.cuda.extend(&one.cuda);
            sum
        })
    }
}

fn toolkit(code: &Code) -> Option<u32> {
    match &code.content {
        Content::Sass { toolkit, .. } => toolkit.map(|toolkit| toolkit.major),
        _ => None,
    }
}
