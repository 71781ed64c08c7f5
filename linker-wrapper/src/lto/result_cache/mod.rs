//! Caches results of links: facts about units, compiled partitions, and linked targets. All keys are built here.

mod bytes_by_target;
mod checked;
pub mod complete;
pub mod images;
pub mod job_times;
mod kept_code;
mod known_tools;
mod objects;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::sync::{Mutex, OnceLock, PoisonError};

use llvm_passes::partition::Grouping;
use llvm_passes::session::Message;
use llvm_passes::unit::{Unit, UnitFacts};
use offload_bundle::arch::{GpuArch, PtxVersion};
use rayon::prelude::*;
use remote_cache::Tier;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::{KernelFolding, Partitioning};
use crate::codegen::Backends;
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::diag::messages::{self, warn};
use crate::lto::compile_job::CompileJob;
use crate::lto::cuda_libraries::CudaLibraries;
use crate::lto::products::{CompiledPartition, LinkedTarget};
use crate::lto::target_code::NvptxCode;
use crate::plan::image_policy::{Entry, ImageEntries};
use crate::plan::link_context::{LinkContext, Request};
use crate::plan::target_link;
use crate::sys::cache::{self, Cache, Key, KeyBuilder, ObjectResults};
use crate::sys::stamp::{self, Stamp};
use complete::Step;
use job_times::{JobId, JobTimes, Unordered};
use known_tools::{KnownTools, Tools};

/// The results of earlier links, if the cache is on.
#[derive(Debug, Default)]
pub struct ResultCache<'a> {
    folder: Option<Cache>,
    /// Results in the objects of the link.
    objects: Option<&'a ObjectResults<'a>>,
    /// The last tier, on another machine.
    remote: Option<Tier>,
    /// Whether the link uses a cache if it runs: a dry run shows what such a link does.
    is_requested: bool,
    /// Whether it leaves results for other links then.
    leaves_results: bool,
    program: OnceLock<Option<[u8; 32]>>,
    tools: OnceLock<Option<KnownTools>>,
    /// How long the jobs of earlier links took.
    job_times: JobTimes,
    /// Stamps of the tools and libraries, taken before any of them was read.
    stamps: Vec<Stamp>,
    /// Reasons why results are not cached.
    notes: Mutex<BTreeSet<String>>,
}

/// Everything besides the code that keys depend on.
#[derive(Clone, Copy)]
pub struct KeyInputs<'a> {
    /// The request, and the names that the host registers.
    pub link: &'a LinkContext<'a>,
    /// The backends that generate machine code.
    pub backends: &'a Backends<'a>,
    /// CUDA's libraries of device code.
    pub libraries: &'a CudaLibraries,
    /// The entries of the image, for all targets.
    pub entries: &'a ImageEntries,
}

/// A compiled partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedPartition {
    /// Relocatable cubins, by target.
    #[serde(with = "bytes_by_target")]
    pub cubins: Vec<(GpuArch, Vec<u8>)>,
    /// PTX for the image, by target.
    #[serde(with = "bytes_by_target")]
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's messages.
    pub messages: Vec<Message>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

/// A relocatable or finished cubin that ptxas assembled from PTX among the images.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedAssembly {
    /// The cubin.
    #[serde(with = "serde_bytes")]
    pub cubin: Vec<u8>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

/// A linked target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedTarget {
    #[serde(with = "bytes_by_target")]
    sass: Vec<(GpuArch, Vec<u8>)>,
    #[serde(with = "bytes_by_target")]
    ptx: Vec<(GpuArch, Vec<u8>)>,
    calls_device_runtime: bool,
    messages: Vec<Message>,
}

impl<'a> ResultCache<'a> {
    /// Opens the cache of this link, if it uses one. `stamps` are those of all files besides the inputs that results depend on.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(context: &LinkContext<'a>, stamps: Vec<Stamp>) -> Result<Self, Errors> {
        let options = context.request.options;
        let folder = cache::of(options.cache.as_ref(), options.cache_size)?;
        let objects = Some(context.object_results).filter(|objects| objects.is_on());
        let leaves_results = folder.is_some()
            || cache::is_remote_requested(&options.remote_cache)
            || objects.is_some_and(ObjectResults::collects);
        let is_requested = leaves_results || objects.is_some();
        let folder = folder.filter(|_| context.request.may_use_results());
        Ok(ResultCache {
            folder,
            objects,
            remote: context.remote_cache.cloned(),
            is_requested,
            leaves_results,
            stamps,
            ..ResultCache::default()
        })
    }

    /// Prints why the cache was not used for all of the link, warns if its folder could not be written, and removes old entries.
    pub fn finish(&self, request: Request<'_>) {
        if request.mode.show {
            // Printed as shell comments, so that the output can be pasted into a shell.
            for why in self.notes() {
                messages::show(format_args!(" # the cache is not used for all of this link: {why}"));
            }
        }
        if let Some(cache) = &self.folder {
            self.job_times.keep(cache);
            cache.warning().into_iter().for_each(|text| warn(request.program, text));
            cache.trim();
        }
    }

    /// Returns the numbers of hits and misses in the folder.
    pub fn counts(&self) -> Option<(u64, u64)> {
        Some(self.folder.as_ref()?.hits_and_misses())
    }

    /// Returns what jobs cost, in the unit of the estimates or, if earlier links had some of the jobs, in microseconds.
    pub fn costs(&self, jobs: &[Unordered]) -> Vec<u64> {
        self.job_times.costs(jobs, self.folder.as_ref())
    }

    /// Notes how long a job took, for later links.
    pub fn note_time(&self, id: JobId, instructions: u64, seconds: f64) {
        if self.folder.is_some() {
            self.job_times.note(id, instructions, seconds);
        }
    }

    /// Whether the cache is on.
    pub fn is_enabled(&self) -> bool {
        self.folder.is_some() || self.objects.is_some() || self.remote.is_some()
    }

    /// Whether programs are cut however small they are, since a relocatable link has compiled partitions of one.
    pub fn cuts_all(&self) -> bool {
        self.objects.is_some()
    }

    /// The results in the inputs, for the keys of what may be made of them.
    fn object_results(&self) -> Vec<u8> {
        self.objects.map(ObjectResults::identity).unwrap_or_default()
    }

    /// Whether what has this key is compiled for this link alone: no input has a result, and no later link will.
    pub fn is_for_this_link(&self, key: &Key) -> bool {
        !self.leaves_results && !self.is_in_inputs(key)
    }

    /// Whether an input of the link has a result, which does not depend on what earlier links left in a folder.
    pub fn is_in_inputs(&self, key: &Key) -> bool {
        self.objects.is_some_and(|objects| objects.has(key))
    }

    /// Returns how programs are cut into partitions: those of a unit are kept for every program that has it.
    pub fn grouping(&self) -> Grouping {
        match self.is_requested {
            true if self.cuts_all() => Grouping::AlwaysUnits,
            true => Grouping::Units,
            false => Grouping::Program,
        }
    }

    /// Returns the reasons why results of this link are not cached, as sentences without a full stop.
    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(text);
    }

    /// Checks that no tool and no library has changed since the link began.
    ///
    /// # Errors
    /// One for each that has changed.
    pub fn check_tools(&self) -> Result<(), Errors> {
        let known = self.tools.get().and_then(Option::as_ref).map_or(&[][..], |known| &known.stamps);
        stamp::check(self.stamps.iter().chain(known))
    }

    /// Looks up a key in the folder, then in the objects of the link, then in the remote cache. An entry that cannot be decoded is treated
    /// as a miss.
    pub fn get<T: DeserializeOwned>(&self, key: Option<&Key>) -> Option<T> {
        if let Some(found) = self.get_here(key) {
            return Some(found);
        }
        let bytes = self.remote.as_ref()?.get(key?.bytes())?;
        let value = postcard::from_bytes(&bytes).ok()?;
        if let Some(folder) = &self.folder {
            folder.put(key?, &bytes);
        }
        self.collect(key?, &bytes);
        Some(value)
    }

    /// As [`ResultCache::get`], on this machine alone.
    fn get_here<T: DeserializeOwned>(&self, key: Option<&Key>) -> Option<T> {
        let key = key?;
        let decoded = |bytes: Vec<u8>| Some((postcard::from_bytes(&bytes).ok()?, bytes));
        let in_folder = || decoded(self.folder.as_ref()?.get(key)?);
        let (value, bytes) = in_folder().or_else(|| decoded(self.objects?.get(key)?))?;
        self.collect(key, &bytes);
        Some(value)
    }

    /// Adds a result to those that the output holds.
    fn collect(&self, key: &Key, bytes: &[u8]) {
        if let Some(objects) = self.objects {
            objects.collect(key, bytes);
        }
    }

    /// Whether there seems to be an entry; [`ResultCache::get`] may still find that it is damaged.
    pub fn contains(&self, key: Option<&Key>) -> bool {
        let Some(key) = key else { return false };
        self.is_here(key) || self.remote.as_ref().is_some_and(|remote| remote.contains(key.bytes()))
    }

    /// As [`ResultCache::contains`], on this machine alone.
    pub fn is_here(&self, key: &Key) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.contains(key))
            || self.objects.is_some_and(|objects| objects.contains(key))
    }

    /// Whether results may come from another machine.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Begins to fetch results from another machine. The keys have the costs of their jobs: the costliest job runs first.
    pub fn prefetch(&self, keys: impl Iterator<Item = (u64, Option<Key>)>) {
        let Some(remote) = &self.remote else { return };
        let mut keys: Vec<(u64, Key)> = keys.filter_map(|(cost, key)| Some((cost, key?))).collect();
        keys.retain(|(_, key)| !self.is_here(key));
        keys.sort_by_key(|(cost, _)| Reverse(*cost));
        remote.prefetch(keys.iter().map(|(_, key)| *key.bytes()));
    }

    /// Stores a value, unless a tool has changed since it was identified for the key.
    pub fn put<T: Serialize>(&self, key: Option<&Key>, value: &T) {
        let Some(key) = key.filter(|_| self.check_tools().is_ok()) else { return };
        let Ok(bytes) = postcard::to_allocvec(value) else { return };
        if let Some(folder) = &self.folder {
            folder.put(key, &bytes);
        }
        self.collect(key, &bytes);
        if let Some(remote) = &self.remote {
            remote.put(key.bytes(), bytes);
        }
    }

    /// As [`ResultCache::put`], for what stays on this machine.
    fn put_here<T: Serialize>(&self, key: Option<&Key>, value: &T) {
        if let (Some(key), Ok(bytes)) = (key, postcard::to_allocvec(value)) {
            self.folder.iter().for_each(|folder| folder.put(key, &bytes));
            self.collect(key, &bytes);
        }
    }

    /// Begins a key with a hash of this program, which covers its LLVM.
    fn key(&self, kind: &str) -> Option<KeyBuilder> {
        if !self.is_enabled() {
            return None;
        }
        let program = self.program.get_or_init(|| known_tools::program(self.folder.as_ref()));
        Some(KeyBuilder::new(kind).field("program", program.as_ref()?))
    }

    /// Returns the key of the facts about a unit, which depend on no tool. They stay in the folder: to read a unit takes less time than
    /// a request.
    fn facts_key(&self, unit: &Unit<'_>) -> Option<Key> {
        Some(self.key("unit facts")?.field("bitcode", unit.content_hash().as_bytes()).finish())
    }

    /// Returns the unit with the facts that earlier links cached.
    pub fn with_facts<'u>(&self, unit: Unit<'u>) -> Unit<'u> {
        let key = self.facts_key(&unit);
        // Facts that an object claims must not be completed and stored in the folder.
        let in_folder = |folder: &Cache| {
            let (key, bytes) = (key.as_ref()?, folder.get(key.as_ref()?)?);
            let facts = postcard::from_bytes(&bytes).ok()?;
            self.collect(key, &bytes);
            Some(facts)
        };
        let facts = match &self.folder {
            Some(folder) => in_folder(folder),
            None => self.get_here::<UnitFacts>(key.as_ref()),
        };
        match facts {
            Some(facts) => unit.with_facts(facts),
            None => unit,
        }
    }

    /// Stores the facts about a unit, unless [`ResultCache::with_facts`] found the same ones.
    pub fn keep_facts(&self, unit: &Unit<'_>) {
        if unit.has_new_facts() {
            self.put_here(self.facts_key(unit).as_ref(), &unit.facts());
        }
    }

    fn tools(&self, inputs: &KeyInputs<'_>) -> Option<&KnownTools> {
        let probe = || {
            KnownTools::probe(inputs.backends, inputs.libraries, self.folder.as_ref())
                .map_err(|why| self.note(why))
                .ok()
        };
        self.tools.get_or_init(probe).as_ref()
    }

    /// Whether keys cover everything that a step reads; if not, notes why.
    fn is_complete(&self, step: Step, options: &DeviceOptions) -> bool {
        let variables: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
        let unknown = complete::unknown_input(step, options, &variables);
        unknown.map(|why| self.note(why)).is_none()
    }

    /// Returns the key of a partition: everything that its PTX and machine code depend on.
    pub fn partition_key(&self, job: &CompileJob, code: &NvptxCode, inputs: &KeyInputs<'_>) -> Option<Key> {
        let key = self.key("partition")?;
        let KnownTools { tools, .. } = self.tools(inputs)?;
        let fields = PartitionFields {
            job,
            code,
            ptxas: &tools.ptxas,
            libdevice: tools.libdevice.as_ref().map_or(&[], |hash| &hash[..]),
            options: inputs.link.request.device,
            ptx_version: inputs.link.request.options.ptx_version,
            ptx: &inputs.entries.ptx,
        };
        self.is_complete(Step::Compile, inputs.link.request.device).then(|| fields.key(key)).flatten()
    }

    /// Returns the key of what ptxas makes of PTX among the images.
    pub fn assembly_key(&self, text: &[u8], arch: GpuArch, relocatable: bool, inputs: &KeyInputs<'_>) -> Option<Key> {
        let key = self.key("assembly")?;
        let KnownTools { tools, .. } = self.tools(inputs)?;
        let options = inputs.link.request.device;
        let key = key
            .field("text", text)
            .field("arch", arch.to_string().as_bytes())
            .field("relocatable", &[u8::from(relocatable)])
            .field("options", options_text(options).as_bytes())
            .field("ptxas", &tools.ptxas);
        self.is_complete(Step::Compile, options).then(|| key.finish())
    }

    /// Returns the key of a linked target.
    pub fn target_key(&self, target: &TargetImages<'_>, inputs: &KeyInputs<'_>) -> Option<Key> {
        if inputs.link.request.options.kernel_folding == KernelFolding::All && self.is_enabled() {
            // What it leaves out depends on all targets of the link.
            self.note("with --offload-icf=all only partitions are cached".to_owned());
            return None;
        }
        let key = self.key("target")?;
        let KnownTools { tools, unknown_nvlink, .. } = self.tools(inputs)?;
        // Results of a library are not cached: the key would have to cover the library.
        if !self.is_complete(Step::Link, inputs.link.request.device)
            || !inputs.backends.is_toolkit(&target_link::most_needs(target, inputs.link.request.device))
        {
            return None;
        }
        if let Some(why) = unknown_nvlink {
            self.note(why.clone());
            return None;
        }
        let hash = |image: &DeviceImage<'_>| {
            let content = content_hash(image);
            let references = image.rdc.map(|rdc| blake3::hash(&rdc.reference_bytes()));
            let references = references.as_ref().map_or(&[][..], |hash| hash.as_bytes());
            [image.code.ending().as_bytes(), content.as_bytes(), references].concat()
        };
        let images: Vec<Vec<u8>> = target.images.par_iter().map(hash).collect();
        let fields = TargetFields {
            arch: target.arch,
            images: images.concat(),
            registered: inputs.link.registered,
            dead: inputs.link.dead_kernels,
            sass: &inputs.entries.sass,
            ptx: &inputs.entries.ptx,
            ptx_version: inputs.link.request.options.ptx_version,
            options: inputs.link.request.device,
            partitioning: inputs.link.request.options.partitioning,
            folding: inputs.link.request.options.kernel_folding,
            object_results: self.object_results(),
            tools,
        };
        Some(fields.key(key))
    }
}

/// The hash of an image.
fn content_hash(image: &DeviceImage<'_>) -> blake3::Hash {
    image.unit.map_or_else(|| blake3::hash(image.bytes), Unit::content_hash)
}

/// The hashes of the units that a job reads.
fn unit_hashes(job: &CompileJob) -> String {
    job.ranges.iter().map(|range| format!("{}\n", range.hash)).collect()
}

/// Prints every option that the code depends on.
fn options_text(options: &DeviceOptions) -> String {
    let DeviceOptions { level, ptxas_level, debug, lto, relocatable, .. } = options;
    let DeviceOptions { ptxas_arguments, nvlink_arguments, llvm_options, .. } = options;
    format!(
        "{level:?} {ptxas_level} {debug} {lto:?} {relocatable} {ptxas_arguments:?} {nvlink_arguments:?} {llvm_options:?}"
    )
}

/// All fields of a partition's key.
#[derive(Clone, Copy)]
struct PartitionFields<'f> {
    job: &'f CompileJob,
    code: &'f NvptxCode,
    ptxas: &'f [u8],
    libdevice: &'f [u8],
    options: &'f DeviceOptions,
    ptx_version: Option<PtxVersion>,
    ptx: &'f [Entry],
}

impl PartitionFields<'_> {
    fn key(&self, key: KeyBuilder) -> Option<Key> {
        let PartitionFields { job, code, .. } = self;
        let units = unit_hashes(job);
        let version = |version: PtxVersion| (version.major, version.minor);
        let emissions = code.emissions.iter();
        let emissions = emissions.map(|one| (one.arch.to_string(), version(one.version), one.visible_functions));
        let emissions: Vec<_> = emissions.collect();
        let machine_code = code.outputs.machine_code.iter().map(|code| (code.emission, code.relocatable));
        let machine_code = postcard::to_allocvec(&machine_code.collect::<Vec<_>>()).ok()?;
        let key = key
            .field("units", units.as_bytes())
            .field("parts", &postcard::to_allocvec(&job.parts).ok()?)
            .field("keep", &postcard::to_allocvec(&job.keep).ok()?)
            .field("declared kernels", &postcard::to_allocvec(&code.declared_kernels).ok()?)
            .field("arch", code.arch.to_string().as_bytes())
            .field("version", &[code.version.major, code.version.minor])
            .field("emissions", format!("{emissions:?}").as_bytes())
            .field("machine code", &machine_code)
            .field("ptx", format!("{:?}", self.ptx).as_bytes())
            .field("ptx version", format!("{:?}", self.ptx_version).as_bytes())
            .field("options", options_text(self.options).as_bytes())
            .field("ptxas", self.ptxas)
            .field("libdevice", self.libdevice);
        Some(key.finish())
    }
}

/// All fields of a linked target's key.
struct TargetFields<'f> {
    arch: GpuArch,
    /// The form and hash of each image.
    images: Vec<u8>,
    registered: &'f HashSet<String>,
    dead: &'f BTreeSet<String>,
    sass: &'f [Entry],
    ptx: &'f [Entry],
    ptx_version: Option<PtxVersion>,
    options: &'f DeviceOptions,
    partitioning: Partitioning,
    folding: KernelFolding,
    object_results: Vec<u8>,
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
            .field("dead", self.dead.iter().map(String::as_str).collect::<Vec<_>>().join("\0").as_bytes())
            .field("sass", entries(self.sass).as_bytes())
            .field("ptx", entries(self.ptx).as_bytes())
            .field("ptx version", format!("{:?}", self.ptx_version).as_bytes())
            .field("options", options_text(self.options).as_bytes())
            .field("partitioning", format!("{:?}", self.partitioning).as_bytes())
            .field("folding", format!("{:?}", self.folding).as_bytes())
            .field("object results", &self.object_results)
            .field("ptxas", &self.tools.ptxas)
            .field("nvlink", &tool(&self.tools.nvlink))
            .field("libdevice", &tool(&self.tools.libdevice))
            .field("device library", &tool(&self.tools.device_library));
        key.finish()
    }
}

impl CachedPartition {
    /// Returns what is cached of a partition.
    pub fn of(compiled: &CompiledPartition) -> Self {
        let objects = compiled.objects.iter();
        CachedPartition {
            cubins: objects.map(|object| (object.arch, object.bytes.clone())).collect(),
            ptx: compiled.ptx.clone(),
            messages: compiled.messages.clone(),
            diagnostics: compiled.diagnostics.clone(),
        }
    }
}

impl CachedTarget {
    /// Returns what is cached of a target.
    pub fn of(linked: &LinkedTarget) -> Self {
        let LinkedTarget { sass, ptx, calls_device_runtime, messages, .. } = linked.clone();
        CachedTarget { sass, ptx, calls_device_runtime, messages }
    }

    /// Returns the linked target.
    pub fn into_linked(self) -> LinkedTarget {
        let CachedTarget { sass, ptx, calls_device_runtime, messages } = self;
        LinkedTarget { sass, ptx, calls_device_runtime, messages, ..LinkedTarget::default() }
    }
}
