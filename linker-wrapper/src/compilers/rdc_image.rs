//! Relocatable device code of nvcc in host objects: units whose fatbin holds one entry for each target and form that they were compiled
//! for. A device link takes one entry of each unit for each of its targets.

use std::borrow::Cow;
use std::sync::OnceLock;

use offload_bundle::arch::{GpuArch, LtoIrVersion};
use offload_bundle::fatbin::{self, BuilderOptions, EntryKind, FatbinBuilder, FatbinEntry};
use offload_bundle::host_object::{RdcObject, RdcRegistration, ReferenceLists, host_symbols};
use offload_bundle::{FormatError, FormatErrorKind};

/// One unit that nvcc compiled with `-rdc=true`.
pub struct RdcImage<'a> {
    /// The id that nvcc gave it, which its registration function and its fatbin's record are named after.
    pub id: &'a str,
    /// Whether its host code calls the registration function that a device link has to define.
    pub is_registered: bool,
    /// Whether it is the result of a relocatable device link, made of other units of its object.
    pub is_prelinked: bool,
    /// What its host code refers to; `None` if the object does not record that.
    pub references: Option<ReferenceLists>,
    /// Its object, unless that holds other units, too.
    object: Option<&'a [u8]>,
    /// The entries of its fatbin that can be linked.
    entries: Vec<RdcEntry<'a>>,
}

/// One entry of a unit's fatbin.
pub struct RdcEntry<'a> {
    entry: FatbinEntry<'a>,
    /// The code, decompressed when it is first needed: an entry for a target that is not linked never is. Owned, because a cell with
    /// a lifetime would tie everything that borrows images to it.
    copied: OnceLock<Result<Vec<u8>, FormatError>>,
}

/// The forms of a unit's code, in the order in which nvlink prefers them with link-time optimization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdcForm {
    /// LTO-IR, as a fatbin with one entry: NVIDIA scrambles compressed LTO-IR, so that only its own tools can take it out.
    LtoIr,
    /// A relocatable cubin.
    Cubin,
    /// PTX.
    Ptx,
}

impl<'a> RdcImage<'a> {
    /// Reads the unit's fatbin, without its code. `references` are those of its object, and `alone` is the object if it holds no
    /// other unit.
    ///
    /// # Errors
    /// A damaged fatbin; the offset is one in the file of the object.
    pub fn new(
        object: &RdcObject<'a>,
        references: Option<ReferenceLists>,
        alone: Option<&'a [u8]>,
    ) -> Result<Self, FormatError> {
        let entries = fatbin::read(object.fatbin).map_err(|error| error.shifted(object.offset))?;
        if let Some(unread) = entries.iter().find(|entry| entry.kind.is_unread_code()) {
            let what = format!("fatbin entry of the kind '{}', which fatlink cannot link", unread.kind);
            let kind = FormatErrorKind::Unsupported(what.into());
            return Err(FormatError { offset: unread.offset, kind }.shifted(object.offset));
        }
        let entry = |entry| RdcEntry { entry, copied: OnceLock::new() };
        let entries = entries.into_iter().filter(|entry| form_of(entry).is_some()).map(entry).collect();
        let is_registered = object.registration == RdcRegistration::Undefined;
        let RdcObject { id, is_prelinked, .. } = *object;
        Ok(RdcImage { id, is_registered, is_prelinked, references, object: alone, entries })
    }

    /// The names that its host code defines, neither weak nor local. None if the object holds other units, too.
    ///
    /// # Errors
    /// A damaged symbol table; the offset is one in the object.
    pub fn host_definitions(&self) -> Result<Vec<String>, FormatError> {
        let Some(object) = self.object else { return Ok(Vec::new()) };
        let symbols = host_symbols(object, false)?;
        let strong = symbols.iter().filter(|symbol| symbol.defined && !symbol.weak);
        // Those of device code are UTF-8.
        Ok(strong.filter_map(|symbol| Some(std::str::from_utf8(symbol.name).ok()?.to_owned())).collect())
    }

    /// The kernels that its host code names, patterns apart.
    pub fn launched_kernels(&self) -> Vec<String> {
        // The second list is that of kernels with external linkage; the others have local stubs.
        let lists = self.references.iter().flat_map(|lists| lists.lists().skip(1).take(1));
        let names = lists.flat_map(|list| list.split(|byte| *byte == 0)).filter(|name| !name.is_empty());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).filter(|name| !name.contains('*')).collect()
    }

    /// The entries that can be linked.
    pub fn entries(&self) -> &[RdcEntry<'a>] {
        &self.entries
    }

    /// The entry that a device link for `arch` takes: LTO-IR if `lto` allows it, else machine code that runs on the target, else PTX
    /// that can be assembled for it; of several, the one for the highest architecture. This is what nvlink takes of a host object.
    pub fn entry_for(&self, arch: GpuArch, lto: bool) -> Option<&RdcEntry<'a>> {
        let best = |form: RdcForm, fits: &dyn Fn(GpuArch) -> bool| {
            let fitting = self.entries.iter().filter(|entry| entry.form() == form && fits(entry.arch()));
            fitting.max_by_key(|entry| (entry.arch() == arch, entry.arch()))
        };
        let lto_ir = || best(RdcForm::LtoIr, &|own| lto && arch.assembles_ptx_of(own));
        let cubin = || best(RdcForm::Cubin, &|own| arch.runs_sass_of(own));
        let ptx = || best(RdcForm::Ptx, &|own| arch.assembles_ptx_of(own));
        lto_ir().or_else(cubin).or_else(ptx)
    }

    /// Whether the unit has PTX that the driver or ptxas can compile for `arch`.
    pub fn has_ptx_for(&self, arch: GpuArch) -> bool {
        self.entries.iter().any(|entry| entry.form() == RdcForm::Ptx && arch.assembles_ptx_of(entry.arch()))
    }

    /// Whether only NVIDIA's tools can read the unit's symbols: it has nothing but LTO-IR.
    pub fn has_unreadable_symbols(&self) -> bool {
        !self.entries.is_empty() && self.entries.iter().all(|entry| entry.form() == RdcForm::LtoIr)
    }

    /// Whether the unit has PTX, which the driver can compile for GPUs that the link has no machine code for.
    pub fn has_ptx(&self) -> bool {
        self.entries.iter().any(|entry| entry.form() == RdcForm::Ptx)
    }

    /// The id and what the host code refers to, which the linked code depends on beside the code itself.
    pub fn reference_bytes(&self) -> Vec<u8> {
        let lists = self.references.iter().flat_map(ReferenceLists::lists);
        std::iter::once(self.id.as_bytes()).chain(lists).flat_map(|list| list.iter().chain(&[0]).copied()).collect()
    }

    /// Lists the entries for messages: "machine code for sm_80, PTX for compute_75".
    pub fn described(&self) -> String {
        let words: Vec<String> = self.entries.iter().map(RdcEntry::described).collect();
        if words.is_empty() { "nothing that can be linked".to_owned() } else { words.join(", ") }
    }
}

impl RdcEntry<'_> {
    /// Its architecture.
    pub fn arch(&self) -> GpuArch {
        self.entry.arch
    }

    /// Its form.
    pub fn form(&self) -> RdcForm {
        form_of(&self.entry).unwrap_or(RdcForm::Cubin)
    }

    /// Its code, decompressed. LTO-IR comes as a fatbin with this one entry.
    ///
    /// # Errors
    /// Damaged code; the offset is one in the unit's fatbin.
    pub fn code(&self) -> Result<&[u8], FormatError> {
        let read = || match self.form() {
            RdcForm::LtoIr => alone(&self.entry),
            _ => self.entry.payload().map(Cow::into_owned),
        };
        self.copied.get_or_init(read).as_deref().map_err(Clone::clone)
    }

    fn described(&self) -> String {
        match self.form() {
            RdcForm::LtoIr => format!("LTO-IR for {}", self.arch()),
            RdcForm::Cubin => format!("machine code for {}", self.arch()),
            RdcForm::Ptx => format!("PTX for {}", self.arch().virtual_name()),
        }
    }
}

fn form_of(entry: &FatbinEntry<'_>) -> Option<RdcForm> {
    match entry.kind {
        EntryKind::LtoIr => Some(RdcForm::LtoIr),
        EntryKind::Elf => Some(RdcForm::Cubin),
        EntryKind::Ptx => Some(RdcForm::Ptx),
        _ => None,
    }
}

/// A fatbin with a copy of one entry.
fn alone(entry: &FatbinEntry<'_>) -> Result<Vec<u8>, FormatError> {
    let mut builder = FatbinBuilder::new(BuilderOptions::default());
    builder.add_entry(entry)?;
    builder.finish().map_err(|error| FormatError::unwritable(entry.offset, &error))
}

/// The version of LTO-IR, which comes as it is or as a fatbin with one entry.
pub fn lto_ir_version(bytes: &[u8]) -> Option<LtoIrVersion> {
    let of_fatbin = || {
        let entries = fatbin::read(bytes).ok()?;
        let entry = entries.iter().find(|entry| entry.kind == EntryKind::LtoIr)?;
        let (major, minor) = entry.code_version;
        Some(LtoIrVersion { major: major.try_into().ok()?, minor: minor.try_into().ok()? })
    };
    offload_bundle::ltoir::version(bytes).or_else(of_fatbin)
}
