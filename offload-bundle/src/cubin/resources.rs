//! Reads the resources that a cubin's code takes: registers, memory of each kind, code size.
//!
//! They are recorded in three places (found by comparing cubins of ptxas 12.9 and 13.0 with the output of `ptxas -v`):
//!
//! - the sizes of the sections `.text.F`, `.nv.shared.F` and `.nv.constantN.F` of a function `F`;
//! - the attributes in `.nv.info`, for all functions, and `.nv.info.F` (`records` reads them);
//! - the width of the instructions that an attribute marks as spills.

use std::collections::HashMap;

use super::records::{Record, Value, records};
use super::{Cubin, SymbolKind};

/// The resources of a cubin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubinResources {
    /// Its kernels, and the functions that they call and that have code of their own, in the order of the symbol table.
    pub functions: Vec<FunctionResources>,
    /// Bytes of variables in the GPU's memory (`__device__`).
    pub global: u64,
    /// Constant memory that all kernels share: bank 3 holds `__constant__` variables.
    pub constants: Vec<ConstantBank>,
}

/// The resources of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionResources {
    /// Its name, mangled.
    pub name: String,
    /// Whether the host can launch it.
    pub is_kernel: bool,
    /// Registers of each thread.
    pub registers: Option<u32>,
    /// Bytes of local memory of each thread for this function alone.
    pub frame: Option<u32>,
    /// Bytes of local memory of each thread, including callees that the compiler knows; `None` if nobody can know, as with recursion.
    pub stack: Option<u32>,
    /// Registers spilled to local memory; `None` if the cubin records no spills.
    pub spills: Option<Spills>,
    /// Bytes of shared memory of each block, without what the launch adds. From sm_90 on, in linked code, includes the 1024 that the system
    /// keeps.
    pub shared: u64,
    /// Constant memory of its own: bank 0 holds its parameters.
    pub constants: Vec<ConstantBank>,
    /// Bytes of its parameters.
    pub parameters: Option<u32>,
    /// Barriers of each block.
    pub barriers: Option<u32>,
    /// Maximum number of threads of a block in each dimension, if the source sets it (`__launch_bounds__`).
    pub max_threads: Option<[u32; 3]>,
    /// Bytes of machine code.
    pub code_size: u64,
}

/// A bank of constant memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConstantBank {
    /// Its number.
    pub bank: u32,
    /// Its size in bytes.
    pub size: u64,
}

/// Register spills: the numbers of `ptxas -v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Spills {
    /// Bytes of each thread that the code's stores write, each instruction counted once.
    pub store_bytes: u64,
    /// Bytes of each thread that the code's loads read, each instruction counted once.
    pub load_bytes: u64,
}

/// The stack that nvlink records for a kernel whose callees call themselves.
const ENDLESS: u32 = u32::MAX;

/// Attributes of `.nv.info`.
mod attribute {
    pub(super) const MAX_THREADS: u8 = 0x05;
    pub(super) const FRAME_SIZE: u8 = 0x11;
    pub(super) const MIN_STACK_SIZE: u8 = 0x12;
    pub(super) const PARAMETERS_SIZE: u8 = 0x19;
    pub(super) const REGISTERS: u8 = 0x2f;
    pub(super) const BARRIERS: u8 = 0x4c;
    pub(super) const ANNOTATIONS: u8 = 0x55;
}

impl Cubin<'_> {
    /// The resources of its functions, as far as they are recorded.
    pub fn resources(&self) -> CubinResources {
        let sections: HashMap<&str, super::CubinSection<'_>> =
            self.sections.iter().map(|section| (section.name, *section)).collect();
        let shared_info = self.attributes_of_all();
        let functions =
            self.symbols.iter().zip(&self.symbol_indices).filter(|(symbol, _)| {
                symbol.defined && matches!(symbol.kind, SymbolKind::Kernel | SymbolKind::Function)
            });
        let functions = functions.filter_map(|(symbol, index)| {
            let code = sections.get(format!(".text.{}", symbol.name).as_str())?;
            let mut found = shared_info.get(index).copied().unwrap_or_default();
            if let Some(info) = sections.get(format!(".nv.info.{}", symbol.name).as_str()) {
                found.read(info.data, code.data);
            }
            let shared = sections.get(format!(".nv.shared.{}", symbol.name).as_str());
            Some(FunctionResources {
                name: symbol.name.clone(),
                is_kernel: symbol.kind == SymbolKind::Kernel,
                registers: found.registers.or_else(|| registers_of_header(code.info)),
                frame: found.frame,
                stack: if found.stack == Some(ENDLESS) { None } else { found.stack.or(found.frame) },
                spills: found.spills,
                shared: shared.map_or(0, |section| section.size),
                constants: self.constants(Some(&symbol.name)),
                parameters: found.parameters,
                barriers: found.barriers,
                max_threads: found.max_threads,
                code_size: code.size,
            })
        });
        CubinResources {
            functions: functions.collect(),
            global: [".nv.global", ".nv.global.init"]
                .iter()
                .filter_map(|name| sections.get(name))
                .map(|s| s.size)
                .fold(0, u64::saturating_add),
            constants: self.constants(None),
        }
    }

    /// The constant banks of one function, or those that belong to none, by number.
    fn constants(&self, function: Option<&str>) -> Vec<ConstantBank> {
        let of_name = |name: &str| {
            let rest = name.strip_prefix(".nv.constant")?;
            let (bank, owner) = rest.split_once('.').map_or((rest, None), |(bank, owner)| (bank, Some(owner)));
            if owner == function { bank.parse().ok() } else { None }
        };
        let banks = self.sections.iter().filter_map(|section| {
            let bank = of_name(section.name)?;
            Some(ConstantBank { bank, size: section.size })
        });
        let mut banks: Vec<ConstantBank> = banks.collect();
        banks.sort_by_key(|bank| bank.bank);
        banks
    }

    /// The contents of `.nv.info`, by index in the symbol table.
    pub(super) fn attributes_of_all(&self) -> HashMap<u32, Attributes> {
        let mut found: HashMap<u32, Attributes> = HashMap::new();
        for Record { attribute, value, .. } in records(self.section(".nv.info").unwrap_or_default()) {
            let Value::Bytes(bytes) = value else { continue };
            let (Some(symbol), Some(number)) = (word(bytes, 0), word(bytes, 1)) else { continue };
            let entry = found.entry(symbol).or_default();
            match attribute {
                attribute::REGISTERS => entry.registers = Some(number),
                attribute::FRAME_SIZE => entry.frame = Some(number),
                attribute::MIN_STACK_SIZE => entry.stack = Some(number),
                _ => {}
            }
        }
        found
    }
}

/// The attributes of a function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attributes {
    pub(super) registers: Option<u32>,
    pub(super) frame: Option<u32>,
    pub(super) stack: Option<u32>,
    spills: Option<Spills>,
    parameters: Option<u32>,
    barriers: Option<u32>,
    max_threads: Option<[u32; 3]>,
}

impl Attributes {
    /// Reads `.nv.info.F` of the function with this machine code.
    fn read(&mut self, info: &[u8], code: &[u8]) {
        for Record { attribute, value, .. } in records(info) {
            match (attribute, value) {
                (attribute::PARAMETERS_SIZE, Value::Number(number)) => self.parameters = Some(number.into()),
                // The upper byte of the field belongs to nothing.
                (attribute::BARRIERS, Value::Number(number)) => self.barriers = Some(u32::from(number & 0xff)),
                (attribute::MAX_THREADS, Value::Bytes(bytes)) => {
                    let sizes = [0, 1, 2].map(|index| word(bytes, index));
                    if let [Some(x), Some(y), Some(z)] = sizes {
                        self.max_threads = Some([x, y, z]);
                    }
                }
                (attribute::ANNOTATIONS, Value::Bytes(bytes)) => {
                    self.spills = spills(bytes, code).or(self.spills);
                }
                _ => {}
            }
        }
    }
}

/// The bits 24 to 31 of `sh_info` of `.text.F`, up to sm_75 and in the old layout.
fn registers_of_header(info: u32) -> Option<u32> {
    (info >> 24 != 0).then_some(info >> 24)
}

/// Annotations are pairs {u32 type, u32 offset in the code}; type 1 is a spill, whose instruction has the direction and the width.
fn spills(annotations: &[u8], code: &[u8]) -> Option<Spills> {
    const SPILL: u32 = 1;
    const STORE_LOCAL: u16 = 0x387;
    const LOAD_LOCAL: u16 = 0x983;
    let mut found = None;
    for pair in annotations.as_chunks::<8>().0 {
        let (Some(SPILL), Some(offset)) = (word(pair, 0), word(pair, 1)) else { continue };
        let start = offset as usize;
        let Some(instruction) = start.checked_add(16).and_then(|end| code.get(start..end)) else { continue };
        let total = found.get_or_insert_with(Spills::default);
        // Bits 0 to 11 are the operation, 73 to 75 the width.
        let operation = word(instruction, 0).map_or(0, |low| (low & 0xfff) as u16);
        let width = match word(instruction, 2).map_or(0, |bits| bits >> 9 & 7) {
            0 | 1 => 1,
            2 | 3 => 2,
            4 => 4,
            5 => 8,
            _ => 16,
        };
        match operation {
            STORE_LOCAL => total.store_bytes += width,
            LOAD_LOCAL => total.load_bytes += width,
            _ => {}
        }
    }
    found
}

/// The u32 at index `index`.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}
