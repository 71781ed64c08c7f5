//! Caches results of links: facts about units, compiled partitions, and linked targets. All keys are built here.

mod cached_code;
mod checked;
pub mod images;
pub mod job_times;
mod known_tools;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use llvm_passes::partition::Grouping;
use llvm_passes::unit::{Unit, UnitFacts};
use rayon::prelude::*;
use remote_cache::Tier;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::options::Options;
use crate::cli::values::KernelFolding;
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::diag::messages::{self, warn};
use crate::lto::compile_job::CompileJob;
use crate::machines::interface::{Fields, Machine, NotCached, Planned, Step};
use crate::plan::link_context::{LinkContext, Request};
use crate::sys::cache::{self, Cache, Key, KeyBuilder, ObjectResults, UnitFactsCache};
use crate::sys::stamp::{self, Stamp};
use job_times::{JobId, JobTimes, Unordered};
use known_tools::KnownTools;

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
    /// What earlier links have read of units; `None` without a link.
    unit_facts: Option<&'a UnitFactsCache>,
    /// The identified tools of compilation and of links.
    tools: [OnceLock<Option<KnownTools>>; 2],
    /// How long the jobs of earlier links took.
    job_times: JobTimes,
    /// Stamps of the tools and libraries, taken before any of them was read.
    stamps: Vec<Stamp>,
    /// Reasons why results are not cached.
    notes: Mutex<BTreeSet<String>>,
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
            || cache::is_remote_requested(&options.remote_cache, &options.environment.device().remote_cache)
            || objects.is_some_and(ObjectResults::collects);
        let is_requested = leaves_results || objects.is_some();
        let folder = folder.filter(|_| context.request.may_use_results());
        Ok(ResultCache {
            folder,
            objects,
            remote: context.remote_cache.cloned(),
            is_requested,
            leaves_results,
            unit_facts: Some(context.unit_facts),
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
        let known = self.tools.iter().filter_map(|known| known.get()?.as_ref());
        stamp::check(self.stamps.iter().chain(known.flat_map(|known| &known.stamps)))
    }

    /// Looks up a key in the folder, then in the objects of the link, then in the remote cache. An entry that cannot be decoded, or that
    /// `accept` makes nothing of, is treated as a miss there.
    pub fn get<T: DeserializeOwned, U>(&self, key: Option<&Key>, accept: impl Fn(T) -> Option<U>) -> Option<U> {
        if let Some(found) = self.get_here(key, &accept) {
            return Some(found);
        }
        let bytes = self.remote.as_ref()?.get(key?.bytes())?;
        let value = accept(postcard::from_bytes(&bytes).ok()?)?;
        if let Some(folder) = &self.folder {
            folder.put(key?, &bytes);
        }
        self.collect(key?, &bytes);
        Some(value)
    }

    /// As [`ResultCache::get`], on this machine alone.
    fn get_here<T: DeserializeOwned, U>(&self, key: Option<&Key>, accept: &impl Fn(T) -> Option<U>) -> Option<U> {
        let key = key?;
        let accepted = |bytes: &[u8]| accept(postcard::from_bytes(bytes).ok()?);
        let in_folder = || self.folder.as_ref()?.get_if(key, accepted);
        let in_objects = || {
            let bytes = self.objects?.get(key)?;
            Some((accepted(&bytes)?, bytes))
        };
        let (value, bytes) = in_folder().or_else(in_objects)?;
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
        Some(KeyBuilder::new(kind).field("program", self.unit_facts?.program()?))
    }

    /// Returns the unit with the facts of earlier links. Those that an object claims must not be completed and stored in the folder.
    pub fn with_facts<'u>(&'u self, unit: Unit<'u>) -> Unit<'u> {
        if self.folder.is_some() {
            return unit.with_cached(self.unit_facts.and_then(UnitFactsCache::cached));
        }
        match self.get_here(self.facts_key(&unit).as_ref(), &Some::<UnitFacts>) {
            Some(facts) => unit.with_facts(facts),
            None => unit,
        }
    }

    /// Adds the facts about a unit to what the output holds: those that every link reads which cuts a program, so that the output does not
    /// depend on what is in the folder.
    pub fn collect_facts(&self, unit: &Unit<'_>) {
        let facts = UnitFacts { symbols: None, bodies: None, ..unit.facts() };
        if let (Some(key), Ok(bytes)) = (self.facts_key(unit), postcard::to_allocvec(&facts)) {
            self.collect(&key, &bytes);
        }
    }

    fn facts_key(&self, unit: &Unit<'_>) -> Option<Key> {
        self.objects.and(self.unit_facts)?.key(&unit.content_hash())
    }

    /// Identifies the tools of a step; if that is not possible, notes why.
    fn tools<M: Machine>(&self, step: Step, machine: &M) -> Option<&KnownTools> {
        let probe = || {
            let tools = machine.tools(step).and_then(|tools| KnownTools::probe(&tools, self.folder.as_ref()));
            tools.map_err(|why| self.note(why)).ok()
        };
        self.tools[usize::from(step == Step::Link)].get_or_init(probe).as_ref()
    }

    /// Adds what results of a step depend on to a key: what the machine says, and the tools. Returns `None` if something else may affect
    /// them, and notes what.
    fn complete<M: Machine>(
        &self,
        key: KeyBuilder,
        step: Step,
        fields: Result<Fields, NotCached>,
        machine: &M,
    ) -> Option<KeyBuilder> {
        let fields = fields.map_err(|why| why.into_iter().for_each(|why| self.note(why))).ok()?;
        let known = self.tools(step, machine)?;
        if let Some(why) = machine.unknown_input(step) {
            self.note(why);
            return None;
        }
        let key = key.field("machine", machine.name().as_bytes());
        let key = fields.iter().fold(key, |key, (name, value)| key.field(name, value));
        Some(known.hashes.iter().fold(key, |key, (name, hash)| key.field(name, hash)))
    }

    /// Returns the key of a partition: everything that its code depends on.
    pub fn partition_key<M: Machine>(&self, job: &CompileJob, machine: &M) -> Option<Key> {
        // Without hashes of the units the key would be that of other code, too.
        (!job.ranges.is_empty()).then(|| self.code_key(job, machine)).flatten()
    }

    /// As [`ResultCache::partition_key`], also for a job without units.
    fn code_key<M: Machine>(&self, job: &CompileJob, machine: &M) -> Option<Key> {
        let key = self.key("partition")?;
        Some(job_fields(job, self.complete(key, Step::Compile, machine.code_fields(&job.code), machine)?)?.finish())
    }

    /// Returns the key of what becomes of an image that is no bitcode.
    pub fn assembly_key<M: Machine>(&self, target: &Planned<'_, M>, place: usize, machine: &M) -> Option<Key> {
        let key = self.key("assembly")?;
        Some(self.complete(key, Step::Compile, machine.assembly_fields(target, place), machine)?.finish())
    }

    /// Returns the key of a linked target.
    pub fn target_key<M: Machine>(
        &self,
        kind: &str,
        target: &TargetImages<'_, M::Arch>,
        machine: &M,
        link: &LinkContext<'_>,
    ) -> Option<Key> {
        let options = link.request.options;
        let key = self.key("target")?;
        if options.kernel_folding == KernelFolding::All {
            // What it leaves out depends on all targets of the link.
            self.note("with --offload-icf=all only partitions are cached".to_owned());
            return None;
        }
        let key = self.complete(key, Step::Link, machine.target_fields(target), machine)?;
        let image = |image: &DeviceImage<'_>| [image.code.ending().as_bytes(), content_hash(image).as_bytes()].concat();
        let images: Vec<Vec<u8>> = target.images.par_iter().map(image).collect();
        let key = key
            .field("kind", kind.as_bytes())
            .field("arch", target.arch.to_string().as_bytes())
            .field("images", &images.concat())
            .field("LLVM options", format!("{:?}", machine.llvm_options()).as_bytes())
            .field("object results", &self.object_results());
        let key = link_fields(key, options, link.registered, link.dead_kernels);
        Some(key.finish())
    }
}

/// Adds all fields of a job to a key that do not depend on its machine.
fn job_fields(job: &CompileJob, key: KeyBuilder) -> Option<KeyBuilder> {
    // The machine has the fields of the code. Names and places do not affect it.
    #[rustfmt::skip]
    let CompileJob {
        ranges, parts, promoted, keep, llvm_options, code: _, name: _, units: _, saved_stages: _, cached_code: _, traced: _,
        // Which kernels there are follows from the parts.
        kernels: _,
    } = job;
    let units: String = ranges.iter().map(|range| format!("{}\n", range.hash)).collect();
    let key = key
        .field("units", units.as_bytes())
        .field("parts", &postcard::to_allocvec(parts).ok()?)
        .field("promoted", &postcard::to_allocvec(promoted).ok()?)
        .field("keep", &postcard::to_allocvec(keep).ok()?)
        .field("LLVM options", format!("{llvm_options:?}").as_bytes());
    Some(key)
}

/// Adds what a linked target depends on besides its code and machine: options, and the names that the host registers or cannot launch.
fn link_fields(
    key: KeyBuilder,
    options: &Options,
    registered: &HashSet<String>,
    dead: &BTreeSet<String>,
) -> KeyBuilder {
    let mut registered: Vec<&str> = registered.iter().map(String::as_str).collect();
    registered.sort_unstable();
    let dead: Vec<&str> = dead.iter().map(String::as_str).collect();
    key.field("registered", registered.join("\0").as_bytes())
        .field("dead", dead.join("\0").as_bytes())
        .field("options", format!("{:?}", options.keyed().target).as_bytes())
}

/// The hash of an image.
fn content_hash(image: &DeviceImage<'_>) -> blake3::Hash {
    image.unit.map_or_else(|| blake3::hash(image.bytes), Unit::content_hash)
}
