//! Kernels that several fatbins of a program have under one host function.
//!
//! Units that are compiled without relocatable device code register a fatbin each. Of an instance of a template that several units have, linkers
//! keep one host function, whose address stands for the kernel: the CUDA runtime launches that of the fatbin that is registered first, and
//! tries no other. (Seen with driver 580 on sm_90, in both orders, lazily and eagerly loaded, of nvcc and clang.) nvcc of CUDA 13 gives each unit a
//! function of its own, unless `-static-global-template-stub=false` is given.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use object::read::{Object, ObjectSymbol};

use super::check::CheckOptions;
use super::containers::{FoundContainer, Role};
use super::driver::Runtime;
use super::findings::{Finding, FindingCode, Severity};
use super::select::{chosen, judge};
use crate::arch::GpuArch;
use crate::demangle::readable;
use crate::host_object::{self, kernels_of_function};

/// The kernels of a program or library that the runtime takes from a fatbin without code for a GPU that another one has code for. None where
/// the host code has no symbols.
pub fn shared_kernels(data: &[u8], all: &[FoundContainer], options: &CheckOptions) -> Vec<Finding> {
    let registered = registered(data, all);
    let mut homes: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, found) in registered.iter().enumerate() {
        let names: HashSet<&str> = kernels(found).collect();
        names.into_iter().for_each(|name| homes.entry(name).or_default().push(place));
    }
    homes.retain(|_, places| places.len() > 1);
    let mut served = Served { registered: &registered, options, known: HashMap::new() };
    let mut lacking: BTreeMap<(Vec<usize>, Vec<GpuArch>), BTreeSet<&str>> = BTreeMap::new();
    for (name, places) in homes {
        let gpus = served.lacking(name, &places);
        if !gpus.is_empty() {
            lacking.entry((places, gpus)).or_default().insert(name);
        }
    }
    if lacking.is_empty() {
        return Vec::new();
    }
    let wanted: HashSet<&str> = lacking.values().flatten().copied().collect();
    let shared = of_one_function(data, &wanted);
    let numbers = |places: &[usize]| places.iter().map(|place| registered[*place].place.container).collect();
    let finding = |((places, gpus), names): ((Vec<usize>, Vec<GpuArch>), BTreeSet<&str>)| {
        let names: Vec<&str> = names.into_iter().filter(|name| shared.contains(name)).collect();
        (!names.is_empty()).then(|| finding(&names, numbers(&places), &gpus))
    };
    lacking.into_iter().filter_map(finding).collect()
}

fn finding(names: &[&str], containers: Vec<usize>, gpus: &[GpuArch]) -> Finding {
    let more = if names.len() == 1 { String::new() } else { format!(" and {} more", names.len() - 1) };
    let first = readable(names[0]);
    let (taken, others) = (containers[0], containers[1..].iter().map(usize::to_string).collect::<Vec<_>>().join(", "));
    let message = format!(
        "kernel '{first}'{more}: the runtime takes it from fatbin {taken}, which is registered first, and not from fatbin {others}, \
         which has code for these GPUs"
    );
    Finding::new(FindingCode::SharedKernel, Severity::Warning, Vec::new(), message).on(gpus)
}

/// The fatbins that the start-up code registers by themselves, in this order.
fn registered<'f>(data: &[u8], all: &'f [FoundContainer]) -> Vec<&'f FoundContainer> {
    use host_object::FileKind::{ElfExecutable, ElfShared};
    if !matches!(host_object::file_kind(data), ElfExecutable | ElfShared) {
        return Vec::new();
    }
    let loaded = all.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)));
    let of_offset: HashMap<u64, &FoundContainer> = loaded.map(|found| (found.place.offset, found)).collect();
    let wrappers = host_object::wrappers(data).into_iter();
    wrappers.filter_map(|wrapper| of_offset.get(&wrapper.fatbin).copied()).collect()
}

fn kernels(found: &FoundContainer) -> impl Iterator<Item = &str> {
    found.symbols.iter().flat_map(|symbols| &symbols.kernels).map(AsRef::as_ref)
}

/// What becomes of each fatbin on each GPU.
struct Served<'f> {
    registered: &'f [&'f FoundContainer],
    options: &'f CheckOptions,
    /// Of a fatbin: each GPU that runs an entry, with the kernels of that.
    known: HashMap<usize, Vec<(GpuArch, HashSet<&'f str>)>>,
}

impl<'f> Served<'f> {
    /// The GPUs that lack a kernel in the first of these fatbins, and have it in another.
    fn lacking(&mut self, name: &str, places: &[usize]) -> Vec<GpuArch> {
        let mut with = |place: usize| {
            let gpus = self.known.entry(place).or_insert_with(|| served(self.registered[place], self.options));
            gpus.iter().filter(|(_, kernels)| kernels.contains(name)).map(|(gpu, _)| *gpu).collect::<BTreeSet<_>>()
        };
        let Some((first, others)) = places.split_first() else { return Vec::new() };
        let first = with(*first);
        let others: BTreeSet<GpuArch> = others.iter().flat_map(|place| with(*place)).collect();
        others.difference(&first).copied().collect()
    }
}

fn served<'f>(found: &'f FoundContainer, options: &CheckOptions) -> Vec<(GpuArch, HashSet<&'f str>)> {
    let runtime = Runtime::from(options.driver);
    let on = |gpu: GpuArch| {
        let code = chosen(&found.codes, gpu, runtime).filter(|code| judge(code, gpu, runtime).0.may_run())?;
        let symbols = found.symbols.get(code.number.checked_sub(1)?)?;
        Some((gpu, symbols.kernels.iter().map(AsRef::as_ref).collect()))
    };
    options.targets.all_gpus().filter_map(on).collect()
}

/// The kernels among these of which the host code has exactly one function.
fn of_one_function<'n>(data: &[u8], wanted: &HashSet<&'n str>) -> HashSet<&'n str> {
    let Ok(file) = object::File::parse(data) else { return HashSet::new() };
    let mut addresses: HashMap<&'n str, BTreeSet<u64>> = HashMap::new();
    let functions = file.symbols().chain(file.dynamic_symbols());
    let functions = functions.filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
    for symbol in functions {
        let Ok(name) = symbol.name() else { continue };
        for kernel in kernels_of_function(name).iter().filter_map(|kernel| wanted.get(kernel.as_str())) {
            addresses.entry(kernel).or_default().insert(symbol.address());
        }
    }
    addresses.into_iter().filter(|(_, addresses)| addresses.len() == 1).map(|(name, _)| name).collect()
}
