//! Compares what a linked program or library registers with the images that it registers it for.
//!
//! The runtimes of CUDA and HIP find a kernel by the address of its stub, and look for its name in the image that they load. A kernel
//! without code, or two of one address, show only when the program launches them.

mod absent;
mod images;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::FormatError;
use crate::cubin::UncoveredCall;
use crate::demangle::readable;
use crate::host_object::{self, FoundWrapper, HostEntry, LinkedEntry};
use crate::offload_binary::OffloadKinds;

use absent::AbsentKernels;
pub use absent::{SECTION as ABSENT_SECTION, write as write_absent};
pub(crate) use images::Content;
pub use images::{ReadImages, lost_containers};
use images::{RegisteredImage, registered_images};

/// The kind of variable in an entry's flags, and the numbers of surfaces and textures: `OffloadEntryKindFlag` of LLVM's
/// `Frontend/Offloading/Utility.h`.
const VARIABLE_KIND: u32 = 7;
const REFERENCES: [u32; 2] = [2, 3];

/// The flag of a variable that is defined elsewhere, which device code need not use.
const EXTERN: u32 = 8;

/// The flag of an entry of OpenMP that says what the runtime has to support (`#pragma omp requires`): `OMP_REGISTER_REQUIRES` of LLVM's
/// `omptarget.h`.
const REQUIRES: u32 = 0x10;

/// What is wrong with what a program registers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Kernels and variables that no image of their programming model has.
    pub missing: Vec<MissingSymbol>,
    /// Kernels and variables that some images of a container have and others lack.
    pub partial: Vec<PartialSymbol>,
    /// Two kernels that the runtime cannot tell apart, because their stubs have one address.
    pub same_address: Option<(String, String)>,
    /// Where in the file the wrappers are whose pointers lead to no container that can be read, with the reason.
    pub lost_containers: Vec<LostContainer>,
    /// Kernels with less registers or stack than something that they call needs.
    pub uncovered: Vec<Uncovered>,
}

/// A kernel of an image with too little for one of its callees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered {
    /// The target of the image: `sm_90`.
    pub target: String,
    /// The kernel and the callee.
    pub call: UncoveredCall,
}

impl LostContainer {
    fn new(wrapper: &FoundWrapper, reason: String) -> Self {
        LostContainer { section: wrapper.kind.section(), offset: wrapper.offset, reason }
    }
}

impl fmt::Display for LostContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the wrapper at {:#x} ({}) has no container: {}", self.offset, self.section, self.reason)
    }
}

impl fmt::Display for Uncovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Uncovered { target, call: UncoveredCall { kernel, function, resource, has, needs } } = self;
        let (kernel, function) = (readable(kernel), readable(function));
        write!(
            f,
            "kernel '{kernel}' for {target} has {has} {resource}, and calls '{function}', for which it needs {needs}"
        )
    }
}

/// A kernel or variable that no image has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSymbol {
    /// The symbol on the device.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Its programming model.
    pub kinds: OffloadKinds,
    /// The targets of the images in which it is missing: `sm_90`. None if there are no images.
    pub targets: Vec<String>,
}

/// A kernel or variable that some images have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSymbol {
    /// The symbol on the device.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// The targets of the images that have it.
    pub with: Vec<String>,
    /// The targets of those that lack it.
    pub without: Vec<String>,
}

/// A wrapper without its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostContainer {
    /// The section of the wrapper.
    pub section: &'static str,
    /// Where the wrapper is in the file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Audits a linked 64-bit little-endian ELF file. Nothing is missing where an image of the programming model cannot be read, such as LTO-IR.
///
/// # Errors
/// A damaged ELF file, or offload entries that are damaged.
pub fn audit(elf: &[u8]) -> Result<Audit, FormatError> {
    audit_with(elf, &ReadImages::default())
}

/// As [`audit`]. The images that were read before are not read again.
///
/// # Errors
/// As [`audit`].
pub fn audit_with(elf: &[u8], read: &ReadImages) -> Result<Audit, FormatError> {
    let sections = host_object::sections(elf)?;
    let entries = host_object::registered_entries(elf, &sections)?;
    let (images, lost_containers) = registered_images(elf, &sections, read);
    let mut found = Audit {
        same_address: same_address(&entries),
        lost_containers,
        uncovered: images.iter().flat_map(uncovered).collect(),
        ..Audit::default()
    };
    let absent = AbsentKernels::of_program(elf, &sections);
    let mut seen = HashSet::new();
    for LinkedEntry { entry, .. } in &entries {
        if is_optional(entry) || !seen.insert((entry.kinds, entry.name.as_str())) {
            continue;
        }
        let Some(name) = absent.compiled_name(&entry.name) else { continue };
        let is_kernel = entry.size == 0;
        let of_kind: Vec<_> = images.iter().filter(|image| image.kinds.contains(entry.kinds)).collect();
        let is_unknown = of_kind.iter().any(|image| image.content.is_none());
        // Without an image of its programming model nothing registers a variable, and a program need not use each.
        if is_unknown || (of_kind.is_empty() && !is_kernel) {
            continue;
        }
        let holders: BTreeSet<usize> =
            of_kind.iter().filter(|image| image.has(name)).map(|image| image.container).collect();
        if holders.is_empty() {
            let targets = targets(of_kind.iter().copied());
            found.missing.push(MissingSymbol { name: name.to_owned(), is_kernel, kinds: entry.kinds, targets });
            continue;
        }
        let rivals = || of_kind.iter().copied().filter(|image| holders.contains(&image.container));
        let without = targets(rivals().filter(|image| !image.has(name)));
        if !without.is_empty() {
            let with = targets(rivals().filter(|image| image.has(name)));
            found.partial.push(PartialSymbol { name: name.to_owned(), is_kernel, with, without });
        }
    }
    Ok(found)
}

fn uncovered(image: &RegisteredImage) -> impl Iterator<Item = Uncovered> {
    let calls = image.content.iter().flat_map(|content| &content.uncovered);
    calls.map(|call| Uncovered { target: image.target.clone(), call: call.clone() })
}

/// Whether an image need not have what an entry names: a variable that is defined elsewhere, CUDA's references to textures and surfaces, which
/// nothing registers since CUDA 12, and what OpenMP's runtime has to support, which clang 22 names `.requires`, and others do not name.
fn is_optional(entry: &HostEntry) -> bool {
    if entry.kinds == OffloadKinds::OPENMP && entry.flags & REQUIRES != 0 {
        return true;
    }
    let is_reference = entry.kinds == OffloadKinds::CUDA && REFERENCES.contains(&(entry.flags & VARIABLE_KIND));
    entry.name.is_empty() || (entry.size != 0 && (entry.flags & EXTERN != 0 || is_reference))
}

/// The targets of images, each once, in order.
fn targets<'a>(images: impl Iterator<Item = &'a RegisteredImage>) -> Vec<String> {
    let mut targets = Vec::new();
    for image in images {
        if !targets.contains(&image.target) {
            targets.push(image.target.clone());
        }
    }
    targets
}

/// `kernel 'f(int)'` or `variable 'v'`, for messages.
pub fn describe(name: &str, is_kernel: bool) -> String {
    let what = if is_kernel { "kernel" } else { "variable" };
    format!("{what} '{}'", readable(name))
}

/// Two kernels of CUDA or HIP at one address. OpenMP's runtime looks for regions by addresses of their own.
fn same_address(entries: &[LinkedEntry]) -> Option<(String, String)> {
    let mut names: HashMap<u64, &str> = HashMap::new();
    let kernels = entries.iter().filter(|linked| linked.entry.size == 0 && !linked.entry.name.is_empty());
    kernels.filter_map(|kernel| Some((kernel.address?, kernel.entry.name.as_str()))).find_map(|(address, name)| {
        let first = *names.entry(address).or_insert(name);
        (first != name).then(|| (first.to_owned(), name.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_object::EntryForm;

    fn entry(name: &str, size: u64, address: Option<u64>) -> LinkedEntry {
        let kinds = OffloadKinds::CUDA;
        let entry = HostEntry { name: name.to_owned(), kinds, flags: 0, size, data: 0, form: EntryForm::Current };
        LinkedEntry { entry, address }
    }

    #[test]
    fn kernels_at_one_address() {
        let (a, b) = (|address| entry("a", 0, address), |address| entry("b", 0, address));
        assert_eq!(same_address(&[a(Some(1)), b(Some(1))]), Some(("a".to_owned(), "b".to_owned())));
        // The units of a template, a variable, and entries whose address the loader finds.
        assert_eq!(same_address(&[a(Some(1)), a(Some(1)), b(Some(2)), entry("v", 4, Some(1))]), None);
        assert_eq!(same_address(&[a(None), b(None)]), None);
    }
}
