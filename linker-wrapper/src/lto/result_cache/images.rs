//! Keeps finished containers by the code in them. To compress machine code takes longer than everything else in a link that compiles
//! nothing.

use llvm_passes::session::Message;
use serde::{Deserialize, Serialize};

use crate::lto::products::{CachedTarget, LinkedTarget};
use crate::lto::result_cache::ResultCache;
use crate::machines::interface::Fields;
use crate::sys::cache::{Key, KeyBuilder};

/// A container, with what a link that finds it has to print.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedImage {
    /// The container.
    #[serde(with = "serde_bytes")]
    pub container: Vec<u8>,
    /// LLVM's messages, by target.
    pub messages: Vec<Vec<Message>>,
}

impl ResultCache<'_> {
    /// Returns the key of the container of the code that is kept under these keys. `fields` are what else it depends on.
    pub fn image_key(&self, targets: &[Key], fields: &Fields) -> Option<Key> {
        // The container stays in the folder: to make it takes less time than to fetch it.
        self.folder.as_ref()?;
        Some(key_of(self.key("image")?, targets, fields))
    }

    /// Looks up the container of some targets. Each target counts as a hit; misses are counted by target lookups.
    pub fn image(&self, key: &Key, targets: usize) -> Option<CachedImage> {
        let folder = self.folder.as_ref()?;
        let image: CachedImage = postcard::from_bytes(&folder.get_uncounted(key)?).ok()?;
        if image.messages.len() != targets || image.container.is_empty() {
            return None;
        }
        folder.count_hits(targets);
        Some(image)
    }

    /// Stores a container, unless a tool has changed since it was identified for the keys of the targets.
    pub fn store_image(&self, key: &Key, image: &CachedImage) {
        if self.check_tools().is_ok() {
            self.put_here(Some(key), image);
        }
    }

    /// Stores the linked targets that did not come from the cache. With the container in the folder, only other machines need those that were
    /// joined from partitions: they are many times its size, and nvlink joins them again in about twice the time that it takes to store them.
    pub fn store_targets<L: Clone + Serialize>(&self, linked: &[LinkedTarget<L>], has_image: bool) {
        let is_needed = |target: &LinkedTarget<L>| self.remote.is_some() || !(has_image && target.is_joined);
        for target in linked.iter().filter(|target| !target.is_cached && is_needed(target)) {
            let cached = CachedTarget { code: target.code.clone(), messages: target.messages.clone() };
            self.put(target.key.as_ref(), &cached);
        }
    }
}

/// Adds everything that a container depends on: the keys of the targets have their code and the order of the entries.
fn key_of(key: KeyBuilder, targets: &[Key], fields: &Fields) -> Key {
    let key = fields.iter().fold(key, |key, (name, value)| key.field(name, value));
    targets.iter().fold(key, |key, target| key.field("target", target.bytes())).finish()
}
