//! Facts about units, kept under the hashes of their bytes. They depend on no tool and stay in the folder: to read a unit takes less time
//! than a request to another machine.

use std::sync::OnceLock;

use llvm_passes::unit::{CachedFacts, Unit, UnitFacts};

use crate::sys::cache::cached_hashes;
use crate::sys::cache::key::{Key, KeyBuilder};
use crate::sys::cache::store::Cache;

/// The facts that links keep for each other. They are no results, so what is found and not found is not counted.
#[derive(Debug, Default)]
pub struct UnitFactsCache {
    folder: Option<Cache>,
    program: OnceLock<Option<[u8; 32]>>,
}

impl UnitFactsCache {
    /// The facts in this folder; without one, nothing is kept.
    pub fn of(folder: Option<Cache>) -> Self {
        UnitFactsCache { folder, program: OnceLock::new() }
    }

    /// The hash of this program, which covers its LLVM.
    pub fn program(&self) -> Option<&[u8; 32]> {
        self.program.get_or_init(|| cached_hashes::program(self.folder.as_ref())).as_ref()
    }

    /// Returns the key of the facts about the unit whose bytes have this hash.
    pub fn key(&self, content: &blake3::Hash) -> Option<Key> {
        let key = KeyBuilder::new("unit facts").field("program", self.program()?);
        Some(key.field("bitcode", content.as_bytes()).finish())
    }

    /// Where units look before they are opened, if there is a folder.
    pub fn cached(&self) -> Option<&dyn CachedFacts> {
        self.folder.as_ref().map(|_| self as &dyn CachedFacts)
    }

    /// Keeps what was read of a unit, unless it is kept already.
    pub fn keep(&self, unit: &Unit<'_>) {
        let Some(folder) = &self.folder else { return };
        unit.store_facts(|facts| {
            if let (Some(key), Ok(bytes)) = (self.key(&unit.content_hash()), postcard::to_allocvec(&facts)) {
                folder.put(&key, &bytes);
            }
        });
    }
}

impl CachedFacts for UnitFactsCache {
    fn of(&self, content: &blake3::Hash) -> Option<UnitFacts> {
        let bytes = self.folder.as_ref()?.get_uncounted(&self.key(content)?)?;
        postcard::from_bytes(&bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use llvm_passes::pipeline;
    use llvm_passes::session::Session;

    use super::*;

    #[test]
    fn a_unit_of_the_same_bytes_is_not_opened_again() {
        let session = Session::new();
        let bitcode = pipeline::bitcode_of(&session.context().create_module("m"));
        let folder = tempfile::tempdir().unwrap();
        let in_folder = || UnitFactsCache::of(Some(Cache::open(folder.path().join("cache"))));
        let times_opened = |facts: &UnitFactsCache| {
            let unit = Unit::new("a.o", &bitcode).with_cached(facts.cached());
            unit.symbols().unwrap();
            facts.keep(&unit);
            unit.times_opened()
        };
        assert_eq!([times_opened(&in_folder()), times_opened(&in_folder())], [1, 0]);
        let none = UnitFactsCache::default();
        assert_eq!([times_opened(&none), times_opened(&none)], [1, 1]);
    }
}
