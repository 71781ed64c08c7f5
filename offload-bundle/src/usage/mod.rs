//! Reports the resources that the functions of each cubin take, and what makes a cubin large, for `offload-bundle resources`.

mod shares;
mod text;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;

use serde::Serialize;

use crate::FormatError;
use crate::amdgpu;
use crate::cubin::{self, CubinResources, FunctionResources};
use crate::error::FileError;
use crate::host_object::Search;
use crate::listing::{self, Found, Row};

pub use shares::{FunctionShare, FunctionShares, function_shares};
pub use text::{Layout, Shown, text};

/// The section of code that programs load, and that of code which a device link takes.
const LINKED: &str = ".nv_fatbin";
const OBJECTS: &str = "__nv_relfatbin";

/// One cubin or code object of a file. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CubinUsage {
    /// Its line of `offload-bundle list`, from 1.
    pub index: usize,
    /// `cubin`, or `code object` for AMD's GPUs.
    pub form: &'static str,
    /// The archive member that holds it.
    pub member: Option<String>,
    /// `sm_90a`, `gfx90a:xnack+`.
    pub target: String,
    /// The section that holds it, as in [`Row`].
    pub section: Option<String>,
    /// Its size in bytes, decompressed.
    pub size: u64,
    /// What its bytes are, the largest part first; the parts add up to `size`.
    pub parts: Vec<CubinPart>,
    /// Bytes of variables in the GPU's memory.
    pub global: u64,
    /// Bytes of constant memory that all its kernels share.
    pub constant: u64,
    /// Its functions, as sorted.
    pub functions: Vec<FunctionUsage>,
}

/// A share of a cubin's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CubinPart {
    /// `code`, `constants`, `variables`, `debug information`, `line information`, `symbols`, `relocations`, `attributes` or `headers and
    /// the rest`.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// The resources of one function; `null` where the cubin does not record them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionUsage {
    /// Mangled.
    pub name: String,
    /// Whether the host can launch it.
    pub kernel: bool,
    /// Registers of each thread: vector registers with accumulation registers of AMD's GPUs.
    pub registers: Option<u32>,
    /// Accumulation registers of AMD's GPUs among them.
    pub accumulation_registers: Option<u32>,
    /// Registers of each wave of AMD's GPUs.
    pub scalar_registers: Option<u32>,
    /// Threads of a wave of AMD's GPUs: 32 or 64.
    pub lanes: Option<u32>,
    /// Bytes that each thread spills to local memory.
    pub spill_stores: Option<u64>,
    /// Bytes that each thread reloads.
    pub spill_loads: Option<u64>,
    /// Bytes of local memory of each thread, with those of the functions that it calls.
    pub stack: Option<u32>,
    /// Bytes of shared memory of each block, without what the launch adds.
    pub shared: u64,
    /// Bytes of constant memory of its own, parameters included.
    pub constant: u64,
    /// Bytes of parameters.
    pub parameters: Option<u32>,
    /// Barriers of each block.
    pub barriers: Option<u32>,
    /// Maximum number of threads of a block in each dimension, if the source sets it.
    pub max_threads: Option<[u32; 3]>,
    /// Bytes of machine code.
    pub code: u64,
    /// Remarks, in words.
    pub notes: Vec<String>,
}

/// The order of functions, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the size of their code.
    #[default]
    Code,
    /// By registers.
    Registers,
    /// By bytes spilled.
    Spills,
    /// By local memory.
    Stack,
    /// By shared memory.
    Shared,
    /// By name, ascending.
    Name,
}

/// Reads the cubins and code objects that a search finds in a file.
///
/// # Errors
/// Those of [`listing::list`], and a damaged cubin.
pub fn usage(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
    order: Order,
) -> Result<Vec<CubinUsage>, FileError> {
    let mut cubins = Vec::new();
    let mut index = 0;
    listing::visit_in(data, read_thin, search, |found| {
        index += 1;
        cubins.extend(of_image(found, index, order)?);
        Ok(())
    })?;
    Ok(cubins)
}

/// Leaves out the cubins of nvcc's objects for targets that a device link of the same file has made code for: their functions are in that.
pub fn leave_out_linked_parts(cubins: &mut Vec<CubinUsage>) {
    let linked = cubins.iter().filter(|cubin| cubin.is_in(LINKED)).map(|cubin| cubin.target.clone());
    let linked: BTreeSet<String> = linked.collect();
    cubins.retain(|cubin| !cubin.is_in(OBJECTS) || !linked.contains(&cubin.target));
}

impl CubinUsage {
    fn is_in(&self, section: &str) -> bool {
        self.section.as_deref() == Some(section)
    }
}

/// The usage of one image, the one of this number in its file; `None` for an image that is neither a cubin nor a code object.
///
/// # Errors
/// A damaged image.
pub fn of_image(found: &Found<'_>, index: usize, order: Order) -> Result<Option<CubinUsage>, FormatError> {
    if !matches!(found.row.image.as_str(), "object" | "cubin") {
        return Ok(None);
    }
    of_payload(&found.row, &found.payload()?, index, order)
}

/// The same for an image that is decompressed already.
///
/// # Errors
/// A damaged image.
pub fn of_payload(row: &Row, payload: &[u8], index: usize, order: Order) -> Result<Option<CubinUsage>, FormatError> {
    let damaged = |error: FormatError| FormatError::new(row.offset, error.kind);
    let (member, target) = (row.member.clone(), row.target.clone());
    if row.image == "object" && amdgpu::is_code(payload) {
        let usage = code_object(payload, order).map_err(damaged)?;
        return Ok(Some(CubinUsage { index, member, target, section: row.section.clone(), ..usage }));
    }
    if row.image != "cubin" {
        return Ok(None);
    }
    let cubin = cubin::parse(payload).map_err(damaged)?;
    let CubinResources { functions, global, constants } = cubin.resources();
    let size = payload.len() as u64;
    Ok(Some(CubinUsage {
        index,
        form: "cubin",
        member,
        target,
        section: row.section.clone(),
        size,
        parts: shares(cubin.section_sizes(), size),
        global,
        constant: constants.iter().map(|bank| bank.size).fold(0, u64::saturating_add),
        functions: sorted(functions.iter().map(FunctionUsage::new).collect(), order),
    }))
}

/// The usage of a code object for AMD's GPUs, by its metadata.
fn code_object(data: &[u8], order: Order) -> Result<CubinUsage, FormatError> {
    let code = amdgpu::Code::parse(data)?;
    let functions = sorted(code.kernels()?.iter().map(FunctionUsage::of_amd_kernel).collect(), order);
    let size = data.len() as u64;
    let parts = shares(code.section_sizes().into_iter(), size);
    let global = parts.iter().filter(|part| part.name == "variables").map(|part| part.bytes).sum();
    let member = None;
    Ok(CubinUsage {
        index: 0,
        form: "code object",
        member,
        target: String::new(),
        section: None,
        size,
        parts,
        global,
        constant: 0,
        functions,
    })
}

fn sorted(mut functions: Vec<FunctionUsage>, order: Order) -> Vec<FunctionUsage> {
    functions.sort_by(|a, b| order.of(a, b));
    functions
}

impl Order {
    /// The order of two functions; equals are in the order of their names.
    fn of(self, a: &FunctionUsage, b: &FunctionUsage) -> Ordering {
        let by_size = match self {
            Order::Code => b.code.cmp(&a.code),
            Order::Registers => b.registers.cmp(&a.registers),
            Order::Spills => b.spilled().cmp(&a.spilled()),
            Order::Stack => b.stack.cmp(&a.stack),
            Order::Shared => b.shared.cmp(&a.shared),
            Order::Name => Ordering::Equal,
        };
        by_size.then_with(|| a.name.cmp(&b.name))
    }
}

impl FunctionUsage {
    fn new(function: &FunctionResources) -> Self {
        Self {
            name: function.name.clone(),
            kernel: function.is_kernel,
            registers: function.registers,
            spill_stores: function.spills.map(|spills| spills.store_bytes),
            spill_loads: function.spills.map(|spills| spills.load_bytes),
            stack: function.stack,
            shared: function.shared,
            constant: function.constants.iter().map(|bank| bank.size).fold(0, u64::saturating_add),
            parameters: function.parameters,
            barriers: function.barriers,
            max_threads: function.max_threads,
            code: function.code_size,
            notes: notes(function),
            ..Self::default()
        }
    }

    /// A kernel for AMD's GPUs: the registers are vector registers, of which a thread of a GPU has its own.
    fn of_amd_kernel(kernel: &amdgpu::Kernel) -> Self {
        let amdgpu::KernelMetadata { name, registers, total_vgprs, spills, wavefront, .. } = &kernel.metadata;
        let mut notes = vec![format!("{} scalar registers, {wavefront} lanes", registers.sgprs)];
        if registers.agprs > 0 {
            notes.push(format!("{} accumulation registers", registers.agprs));
        }
        let (vectors, scalars) = *spills;
        if vectors > 0 || scalars > 0 {
            notes.push(format!("spills {vectors} vector and {scalars} scalar registers"));
        }
        if kernel.metadata.dynamic_stack {
            notes.push("dynamic stack".to_owned());
        }
        notes.extend(of_descriptor(kernel));
        Self {
            name: name.clone(),
            kernel: true,
            registers: Some(*total_vgprs),
            accumulation_registers: Some(registers.agprs),
            scalar_registers: Some(registers.sgprs),
            lanes: Some(*wavefront),
            // Each lane stores 4 bytes of a register.
            spill_stores: Some(u64::from(vectors) * 4),
            stack: Some(kernel.metadata.private_segment),
            shared: kernel.metadata.group_segment.into(),
            parameters: Some(kernel.metadata.arguments),
            code: kernel.code_size,
            notes,
            ..Self::default()
        }
    }

    fn spilled(&self) -> u64 {
        self.spill_stores.unwrap_or(0).saturating_add(self.spill_loads.unwrap_or(0))
    }
}

/// What the descriptor of a kernel says, which the GPU follows, if the metadata says otherwise.
fn of_descriptor(kernel: &amdgpu::Kernel) -> Option<String> {
    let amdgpu::Kernel { metadata, descriptor, .. } = kernel;
    let lanes = if descriptor.is_wave32() { 32 } else { 64 };
    let differing = [
        (descriptor.group_segment != metadata.group_segment)
            .then(|| format!("{} bytes of shared memory", descriptor.group_segment)),
        (descriptor.private_segment != metadata.private_segment)
            .then(|| format!("{} bytes of stack", descriptor.private_segment)),
        (lanes != metadata.wavefront).then(|| format!("{lanes} lanes")),
    ];
    let differing: Vec<String> = differing.into_iter().flatten().collect();
    (!differing.is_empty()).then(|| format!("descriptor: {}", differing.join(", ")))
}

/// What a reader should see first.
fn notes(function: &FunctionResources) -> Vec<String> {
    /// No thread can have more.
    const MOST_REGISTERS: u32 = 255;
    /// A block can have more only if the launch allows it.
    const STATIC_SHARED: u64 = 48 * 1024;
    let mut notes = Vec::new();
    let registers = function.registers.unwrap_or(0);
    if function.spills.is_some_and(|spills| spills.store_bytes > 0 || spills.load_bytes > 0) {
        let threads = function.max_threads.map(|[x, y, z]| u64::from(x) * u64::from(y) * u64::from(z));
        notes.push(match threads {
            _ if registers >= MOST_REGISTERS => {
                format!("spills, since a thread has {MOST_REGISTERS} registers at most")
            }
            Some(threads) if threads > 1 => {
                format!("spills, with {registers} registers for blocks of {threads} threads")
            }
            _ => format!("spills, with {registers} registers"),
        });
    }
    if function.shared > STATIC_SHARED {
        notes.push("more than 48 KiB of shared memory".to_owned());
    }
    notes
}

/// The kind of bytes that no section of a known kind has.
const REST: &str = "headers and the rest";

/// What the bytes of a file are, by its sections.
fn shares<'n>(sections: impl Iterator<Item = (&'n str, u64)>, size: u64) -> Vec<CubinPart> {
    let mut parts: Vec<CubinPart> = Vec::new();
    let mut left = size;
    for (name, bytes) in sections {
        // Sections of a damaged cubin may share their bytes.
        let bytes = bytes.min(left);
        if let Some(part) = part_of(name) {
            left -= bytes;
            add(&mut parts, part, bytes);
        }
    }
    add(&mut parts, REST, left);
    parts.retain(|part| part.bytes > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    parts
}

fn add(parts: &mut Vec<CubinPart>, name: &'static str, bytes: u64) {
    match parts.iter_mut().find(|part| part.name == name) {
        Some(part) => part.bytes = part.bytes.saturating_add(bytes),
        None => parts.push(CubinPart { name, bytes }),
    }
}

fn part_of(section: &str) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 17] = [
        (".text", "code"),
        (".rodata", "constants"),
        (".data", "variables"),
        (".dyn", "symbols"),
        (".note", "attributes"),
        (".nv.constant", "constants"),
        (".nv.global", "variables"),
        (".nv.shared", "variables"),
        (".debug_line", "line information"),
        (".nv_debug_line", "line information"),
        (".debug", "debug information"),
        (".nv_debug", "debug information"),
        (".rel", "relocations"),
        (".nv.info", "attributes"),
        (".symtab", "symbols"),
        (".strtab", "symbols"),
        (".shstrtab", "symbols"),
    ];
    PREFIXES.iter().find(|(prefix, _)| section.starts_with(prefix)).map(|(_, part)| *part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuArch, samples};

    #[test]
    fn a_cubin() {
        let data = samples::cubin(GpuArch::plain(90), false);
        let found = usage(&data, crate::archive::reject_thin_members, Search::Sections, Order::default())
            .expect("a sound cubin");
        let total: u64 = found[0].parts.iter().map(|part| part.bytes).sum();
        assert_eq!((found.len(), total), (1, data.len() as u64));
        assert_eq!((found[0].functions[0].name.as_str(), found[0].functions[0].code), ("first", 16));
        let shown = |names: &[&str], _: Option<usize>| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(text(&[(None, &found)], &Layout::new(&shown)).contains("CODE    %  REGISTERS"));
        assert_eq!(text(&[], &Layout::new(&shown)), "no cubins and no code objects\n");
    }
}
