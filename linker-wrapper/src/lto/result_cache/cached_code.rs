//! Finds results by the code that was compiled, whatever units it came from: after a change of one function, the other partitions of its
//! unit have new keys, but the same code. A worker looks it up as soon as it has the code.

use llvm_passes::{Module, pipeline};

use super::ResultCache;
use crate::lto::compile_job::{CachedCode, CompileJob};
use crate::machines::interface::Machine;
use crate::sys::cache::{Cache, Key, KeyBuilder};

impl CachedCode {
    /// Returns the key of a merged module.
    pub fn key(&self, merged: &Module<'_>) -> Key {
        let hash = pipeline::hash_of(merged);
        KeyBuilder::new("code").field("base", &self.base).field("module", hash.as_bytes()).finish()
    }

    /// Whether the cache probably has the result.
    pub fn has(&self, code: &Key) -> bool {
        let folder = Cache::open(&self.folder);
        result_of(&folder, code).is_some_and(|result| folder.contains(&result))
    }
}

impl ResultCache<'_> {
    /// Returns where the results of a partition's code are. They are found in the folder alone.
    pub fn cached_code<M: Machine>(&self, job: &CompileJob, machine: &M) -> Option<CachedCode> {
        let folder = self.folder.as_ref()?.folder().to_owned();
        let job = CompileJob { ranges: Vec::new(), parts: Vec::new(), ..job.clone() };
        let base = *self.code_key(&job, machine)?.bytes();
        Some(CachedCode { folder, base })
    }

    /// Returns the key of the result of this code.
    pub fn result_of(&self, code: &Key) -> Option<Key> {
        result_of(self.folder.as_ref()?, code)
    }

    /// Records that the result of this code has this key, unless a tool has changed since it was identified for the key.
    pub fn store_code(&self, code: &Key, result: &Key) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.check_tools().is_ok()) {
            folder.put(code, result.bytes());
        }
    }
}

fn result_of(folder: &Cache, code: &Key) -> Option<Key> {
    Some(Key::of_bytes(folder.get_uncounted(code)?.try_into().ok()?))
}
