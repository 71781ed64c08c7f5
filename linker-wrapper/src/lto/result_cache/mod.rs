//! What earlier links made and this one can use again: what units say of themselves, compiled partitions, whole
//! linked targets. The keys are made here and nowhere else.

mod complete;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use llvm_passes::reference_graph::ReferenceGraph;
use llvm_passes::session::Warning;
use offload_bundle::arch::{GpuArch, PtxVersion};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::Partitioning;
use crate::device::targets::{PlannedImage, TargetPlan};
use crate::diag::error::Errors;
use crate::lto::device_link::{self, LinkedTarget, Surroundings};
use crate::lto::worker::Work;
use crate::plan::image_policy::Entry;
use crate::sys::cache::{Cache, Key, KeyBuilder, identity_of};
use crate::sys::stamp::{self, Stamp};
use crate::toolchain::identity::{self, Identity};
use crate::toolchain::ptxas::version_text;
use complete::Step;

/// Results of earlier links, if there is a cache.
#[derive(Debug, Default)]
pub struct Results {
    cache: Option<Cache>,
    program: OnceLock<Option<[u8; 32]>>,
    tools: OnceLock<Option<KnownTools>>,
    /// Of the tools and libraries, from before anything was read of them.
    stamps: Vec<Stamp>,
    /// Why results are not kept.
    notes: Mutex<BTreeSet<String>>,
}

/// What the machine code depends on beside the code.
#[derive(Debug, Clone)]
struct Tools {
    ptxas: [u8; 32],
    nvlink: Option<[u8; 32]>,
    libdevice: Option<[u8; 32]>,
    device_library: Option<[u8; 32]>,
}

/// The tools, as far as they are known.
#[derive(Debug)]
struct KnownTools {
    tools: Tools,
    stamps: Vec<Stamp>,
    /// Why it is not known what nvlink makes, if so.
    unknown_nvlink: Option<String>,
}

/// A compiled partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompiledPartition {
    /// Relocatable cubins, by target.
    pub cubins: Vec<(GpuArch, Vec<u8>)>,
    /// PTX for the image, by target.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's warnings.
    pub warnings: Vec<Warning>,
    /// What ptxas said.
    pub said: Vec<String>,
}

/// A linked target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedTarget {
    sass: Vec<(GpuArch, Vec<u8>)>,
    ptx: Vec<(GpuArch, Vec<u8>)>,
    warnings: Vec<Warning>,
}

impl Results {
    /// Those in a cache; `stamps` are of all files beside the inputs that results depend on.
    pub fn new(cache: Option<Cache>, stamps: Vec<Stamp>) -> Self {
        Results { cache, stamps, ..Results::default() }
    }

    /// Whether results are looked for and kept at all.
    pub fn are_kept(&self) -> bool {
        self.cache.is_some()
    }

    /// Why results of this link are not kept, as sentences without a full stop.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(text);
    }

    /// Checks that no tool and no library has changed since the link began.
    ///
    /// # Errors
    /// One for each that has.
    pub fn check_tools(&self) -> Result<(), Errors> {
        let known = self.tools.get().and_then(Option::as_ref).map_or(&[][..], |known| &known.stamps);
        stamp::check(self.stamps.iter().chain(known))
    }

    /// The cache, for what is said of it at the end.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// What was kept under the key. What cannot be read is none.
    pub fn get<T: DeserializeOwned>(&self, key: Option<&Key>) -> Option<T> {
        postcard::from_bytes(&self.cache.as_ref()?.get(key?)?).ok()
    }

    /// Keeps it, unless a tool has changed since it was identified for the key.
    pub fn put<T: Serialize>(&self, key: Option<&Key>, value: &T) {
        if key.is_some() && self.check_tools().is_ok() {
            self.keep(key, value);
        }
    }

    fn keep<T: Serialize>(&self, key: Option<&Key>, value: &T) {
        if let (Some(cache), Some(key), Ok(bytes)) = (&self.cache, key, postcard::to_allocvec(value)) {
            cache.put(key, &bytes);
        }
    }

    /// The start of every key: this very program, with its LLVM.
    fn key(&self, kind: &str) -> Option<KeyBuilder> {
        self.cache.as_ref()?;
        let program = self.program.get_or_init(|| identity_of(Path::new("/proc/self/exe")).ok());
        Some(KeyBuilder::new(kind).field("program", program.as_ref()?))
    }

    /// What a unit says of itself, read by `make` if it is not known.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn references<E>(
        &self,
        bitcode: &[u8],
        make: impl FnOnce() -> Result<ReferenceGraph, E>,
    ) -> Result<ReferenceGraph, E> {
        let key = self.key("summary").map(|key| key.field("bitcode", blake3::hash(bitcode).as_bytes()).finish());
        if let Some(graph) = self.get(key.as_ref()) {
            return Ok(graph);
        }
        let graph = make()?;
        // No tool has a part in it.
        self.keep(key.as_ref(), &graph);
        Ok(graph)
    }

    fn tools(&self, around: &Surroundings<'_>) -> Option<&KnownTools> {
        let probe = || KnownTools::probe(around).map_err(|why| self.note(why)).ok();
        self.tools.get_or_init(probe).as_ref()
    }

    /// Whether the keys cover everything that a step reads.
    fn is_complete(&self, step: Step, options: &DeviceOptions) -> bool {
        let variables: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
        let unknown = complete::what_is_unknown(step, options, &variables);
        unknown.map(|why| self.note(why)).is_none()
    }

    /// The key of one partition: all that its PTX and machine code depend on.
    pub fn partition_key(&self, work: &Work, around: &Surroundings<'_>) -> Option<Key> {
        self.cache.as_ref()?;
        let KnownTools { tools, .. } = self.tools(around)?;
        let fields = PartitionFields {
            work,
            ptxas: &tools.ptxas,
            libdevice: tools.libdevice.as_ref().map_or(&[], |hash| &hash[..]),
            options: around.options,
            ptx_version: around.ptx_version,
            ptx: around.ptx,
        };
        self.is_complete(Step::Compile, around.options).then(|| fields.key(self.key("partition")?)).flatten()
    }

    /// The key of a whole target.
    pub fn target_key(&self, target: &TargetPlan<'_>, around: &Surroundings<'_>) -> Option<Key> {
        let key = self.key("target")?;
        let KnownTools { tools, unknown_nvlink, .. } = self.tools(around)?;
        // What a library made is not kept: the key would have to know the library.
        if !self.is_complete(Step::Link, around.options)
            || !around.backends.is_toolkit(&device_link::most_needs(target, around.options))
        {
            return None;
        }
        if let Some(why) = unknown_nvlink {
            self.note(why.clone());
            return None;
        }
        let hash =
            |image: &PlannedImage<'_>| [image.code.ending().as_bytes(), blake3::hash(image.bytes).as_bytes()].concat();
        let images: Vec<Vec<u8>> = target.images.par_iter().map(hash).collect();
        let fields = TargetFields {
            arch: target.arch,
            images: images.concat(),
            registered: around.registered,
            sass: around.sass,
            ptx: around.ptx,
            ptx_version: around.ptx_version,
            options: around.options,
            partitioning: around.partitioning,
            tools,
        };
        Some(fields.key(key))
    }
}

impl KnownTools {
    /// Identifies the tools.
    ///
    /// # Errors
    /// Why it is not known what they make.
    fn probe(around: &Surroundings<'_>) -> Result<Self, String> {
        let backend = "only what ptxas and nvlink make is kept";
        let (ptxas, nvlink) = around.backends.toolkit_files().ok_or(backend)?;
        let file = |path: Option<&Path>| path.map(identity::of_file).transpose();
        let ptxas_version =
            || around.backends.ptxas().map(|ptxas| &*ptxas.version).map_err(|errors| errors.to_string());
        let of_nvlink = |path: &Path| identity::of_program(path, &version_text(path).unwrap_or_default());
        // Not by rayon: its threads may all wait for the jobs that ask this.
        let (ptxas, nvlink, libdevice, device_library) = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new;
            let ptxas = thread().spawn_scoped(scope, || identity::of_program(&ptxas, ptxas_version()?));
            let nvlink = thread().spawn_scoped(scope, || nvlink.as_deref().map(of_nvlink).transpose());
            let (libdevice, library) = (file(around.libdevice.as_deref()), file(around.device_library.as_deref()));
            let failed = || "a thread that identifies the tools failed".to_owned();
            let ptxas = ptxas.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Err(failed()));
            let nvlink = nvlink.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Err(failed()));
            (ptxas, nvlink, libdevice, library)
        });
        let (ptxas, libdevice, device_library) = (ptxas?, libdevice?, device_library?);
        let (nvlink, unknown_nvlink) = nvlink.map_or_else(|why| (None, Some(why)), |nvlink| (nvlink, None));
        let hash = |identity: &Option<Identity>| identity.as_ref().map(|identity| identity.hash);
        let tools = Tools {
            ptxas: ptxas.hash,
            nvlink: hash(&nvlink),
            libdevice: hash(&libdevice),
            device_library: hash(&device_library),
        };
        let all = [Some(ptxas), nvlink, libdevice, device_library];
        let stamps = all.into_iter().flatten().flat_map(|identity| identity.stamps).collect();
        Ok(KnownTools { tools, stamps, unknown_nvlink })
    }
}

/// Every option that the code depends on.
fn options_text(options: &DeviceOptions) -> String {
    let DeviceOptions { level, ptxas_level, debug, lto, ptxas_arguments, nvlink_arguments, llvm_options, .. } = options;
    format!("{level:?} {ptxas_level} {debug} {lto:?} {ptxas_arguments:?} {nvlink_arguments:?} {llvm_options:?}")
}

/// All fields of a partition's key.
#[derive(Clone, Copy)]
struct PartitionFields<'f> {
    work: &'f Work,
    ptxas: &'f [u8],
    libdevice: &'f [u8],
    options: &'f DeviceOptions,
    ptx_version: Option<PtxVersion>,
    ptx: &'f [Entry],
}

impl PartitionFields<'_> {
    fn key(&self, key: KeyBuilder) -> Option<Key> {
        let work = self.work;
        let units: String = work.ranges.iter().map(|range| format!("{}\n", range.hash)).collect();
        let version = |version: PtxVersion| (version.major, version.minor);
        let emissions = work.emissions.iter().map(|emission| (emission.arch.to_string(), version(emission.version)));
        let emissions: Vec<_> = emissions.collect();
        let key = key
            .field("units", units.as_bytes())
            .field("parts", &postcard::to_allocvec(&work.parts).ok()?)
            .field("keep", &postcard::to_allocvec(&work.keep).ok()?)
            .field("arch", work.arch.to_string().as_bytes())
            .field("version", &[work.version.major, work.version.minor])
            .field("emissions", format!("{emissions:?}").as_bytes())
            .field("ptx", format!("{:?}", self.ptx).as_bytes())
            .field("ptx version", format!("{:?}", self.ptx_version).as_bytes())
            .field("options", options_text(self.options).as_bytes())
            .field("ptxas", self.ptxas)
            .field("libdevice", self.libdevice);
        Some(key.finish())
    }
}

/// All fields of a whole target's key.
struct TargetFields<'f> {
    arch: GpuArch,
    /// Of each image its form and a hash.
    images: Vec<u8>,
    registered: &'f HashSet<String>,
    sass: &'f [Entry],
    ptx: &'f [Entry],
    ptx_version: Option<PtxVersion>,
    options: &'f DeviceOptions,
    partitioning: Partitioning,
    tools: &'f Tools,
}

impl TargetFields<'_> {
    fn key(&self, key: KeyBuilder) -> Key {
        let mut registered: Vec<&str> = self.registered.iter().map(String::as_str).collect();
        registered.sort_unstable();
        let entries = |entries: &[Entry]| format!("{entries:?}");
        let tool = |hash: &Option<[u8; 32]>| hash.map(Vec::from).unwrap_or_default();
        let key = key
            .field("arch", self.arch.to_string().as_bytes())
            .field("images", &self.images)
            .field("registered", registered.join("\0").as_bytes())
            .field("sass", entries(self.sass).as_bytes())
            .field("ptx", entries(self.ptx).as_bytes())
            .field("ptx version", format!("{:?}", self.ptx_version).as_bytes())
            .field("options", options_text(self.options).as_bytes())
            .field("partitioning", format!("{:?}", self.partitioning).as_bytes())
            .field("ptxas", &self.tools.ptxas)
            .field("nvlink", &tool(&self.tools.nvlink))
            .field("libdevice", &tool(&self.tools.libdevice))
            .field("device library", &tool(&self.tools.device_library));
        key.finish()
    }
}

impl CachedTarget {
    /// What is kept of a target.
    pub fn of(linked: &LinkedTarget) -> Self {
        CachedTarget { sass: linked.sass.clone(), ptx: linked.ptx.clone(), warnings: linked.warnings.clone() }
    }

    /// The target.
    pub fn into_linked(self) -> LinkedTarget {
        LinkedTarget { sass: self.sass, ptx: self.ptx, warnings: self.warnings, said: Vec::new() }
    }
}
