//! Keeps finished containers by the code in them. To compress machine code takes longer than everything else in a link that compiles
//! nothing.

use llvm_passes::session::Message;
use serde::{Deserialize, Serialize};

use crate::cli::device_options::DeviceOptions;
use crate::cli::options::Options;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::{CachedTarget, ResultCache};
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
    /// Returns the key of the container of the code that is kept under these keys.
    pub fn image_key(&self, targets: &[Key], options: &Options, device: &DeviceOptions) -> Option<Key> {
        // The container stays in the folder: to make it takes less time than to fetch it.
        self.folder.as_ref()?;
        Some(key_of(self.key("image")?, targets, options, device))
    }

    /// Looks up a container of some targets, each of which counts as a hit. Counts no misses: those are of targets.
    pub fn image(&self, key: &Key, targets: usize) -> Option<CachedImage> {
        let folder = self.folder.as_ref()?;
        let image: CachedImage = postcard::from_bytes(&folder.get_uncounted(key)?).ok()?;
        if image.messages.len() != targets {
            return None;
        }
        folder.count_hits(targets);
        Some(image)
    }

    /// Stores a container, unless a tool has changed since it was identified for the keys of the targets.
    pub fn keep_image(&self, key: &Key, image: &CachedImage) {
        if self.check_tools().is_ok() {
            self.put_here(Some(key), image);
        }
    }

    /// Stores the linked targets that did not come from the cache. With the container in the folder, only other machines need those that were
    /// joined from partitions: they are many times its size, and nvlink joins them again in about twice the time that it takes to store them.
    pub fn keep_targets(&self, linked: &[LinkedTarget], has_image: bool) {
        let is_needed = |target: &LinkedTarget| self.remote.is_some() || !(has_image && target.is_joined);
        for target in linked.iter().filter(|target| !target.is_cached && is_needed(target)) {
            self.put(target.key.as_ref(), &CachedTarget::of(target));
        }
    }
}

/// Adds everything that a container depends on: the keys of the targets have their code and the order of the entries.
fn key_of(key: KeyBuilder, targets: &[Key], options: &Options, device: &DeviceOptions) -> Key {
    let key = key
        .field("compression", format!("{:?}", options.compress).as_bytes())
        .field("driver", format!("{:?}", options.driver).as_bytes())
        .field("debug", &[u8::from(device.debug)])
        .field("PTX options", format!("{:?}", device.ptxas_arguments).as_bytes());
    targets.iter().fold(key, |key, target| key.field("target", target.bytes())).finish()
}

#[cfg(test)]
mod tests {
    use offload_bundle::coverage::Driver;
    use offload_bundle::fatbin::CompressMode;

    use super::*;
    use crate::cli::values::ImageCompression;

    #[test]
    fn everything_that_a_container_depends_on_changes_the_key() {
        let target = |name: &str| KeyBuilder::new(name).finish();
        let (options, device) = (Options::default(), DeviceOptions::default());
        let key = |targets: &[Key], options: &Options, device: &DeviceOptions| {
            key_of(KeyBuilder::new("image"), targets, options, device)
        };
        let (one, two) = (target("one"), target("two"));
        let fast = Options { compress: ImageCompression::AsFatbinary(CompressMode::Speed), ..Options::default() };
        let old = Options { driver: Some(Driver::Branch(525)), ..Options::default() };
        let debug = DeviceOptions { debug: true, ..DeviceOptions::default() };
        let words = DeviceOptions { ptxas_arguments: vec!["-x".to_owned()], ..DeviceOptions::default() };
        let keys = [
            key(&[one, two], &options, &device),
            key(&[two, one], &options, &device),
            key(&[one], &options, &device),
            key(&[one, two], &fast, &device),
            key(&[one, two], &old, &device),
            key(&[one, two], &options, &debug),
            key(&[one, two], &options, &words),
        ];
        for (place, other) in keys.iter().enumerate() {
            assert!(!keys[..place].contains(other), "change {place} does not change the key");
        }
        assert_eq!(keys[0], key(&[one, two], &options, &device));
    }
}
