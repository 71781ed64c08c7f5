//! Remembers which inputs passed all compatibility checks, because the checks read all of their code.

use std::fmt::Display;

use crate::cli::values::Levels;
use crate::device::targets::TargetImages;
use crate::lto::result_cache::{ResultCache, content_hash};
use crate::sys::cache::Key;

impl ResultCache<'_> {
    /// Returns the key for the checks of these targets: what they read, and what they compare it with.
    pub fn checks_key<A: Display>(&self, targets: &[TargetImages<'_, A>], levels: &Levels) -> Option<Key> {
        let mut key = self.key("checks")?.field("levels", format!("{levels:?}").as_bytes());
        key = key.field("object results", &self.object_results());
        for target in targets {
            key = key.field("target", target.arch.to_string().as_bytes());
            for image in &target.images {
                key = key
                    .field("code", image.code.ending().as_bytes())
                    .field("content", content_hash(image).as_bytes())
                    .field("from host", &[u8::from(image.from_host)])
                    .field("file", image.origin.file.as_bytes());
            }
        }
        Some(key.finish())
    }

    /// Whether an earlier link had nothing to say.
    pub fn is_checked(&self, key: Option<&Key>) -> bool {
        self.folder.as_ref().zip(key).is_some_and(|(folder, key)| folder.get_uncounted(key).is_some())
    }

    /// Keeps that there is nothing to say.
    pub fn store_checked(&self, key: Option<&Key>) {
        if let Some((folder, key)) = self.folder.as_ref().zip(key) {
            folder.put(key, &[]);
        }
    }
}
