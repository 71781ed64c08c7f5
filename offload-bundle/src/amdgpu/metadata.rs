//! The metadata of code objects: a note with a MessagePack document that describes every kernel.

use rmpv::Value;

use super::descriptor::{RegisterFile, Registers};
use crate::FormatError;

/// The name and type of the note.
pub(super) const NOTE_NAME: &[u8] = b"AMDGPU\0";
pub(super) const NOTE_TYPE: u32 = 32;

const KERNELS: &str = "amdhsa.kernels";
const TARGET: &str = "amdhsa.target";
const PRINTF: &str = "amdhsa.printf";

/// The metadata of an object or code object.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata(Vec<(Value, Value)>);

/// What the metadata records of a kernel, as far as tools need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMetadata {
    /// The kernel's function.
    pub name: String,
    /// The symbol of its descriptor.
    pub descriptor: String,
    /// Its registers. `vgprs` are those without accumulation registers, if the target is known.
    pub registers: Registers,
    /// All vector registers, as recorded.
    pub total_vgprs: u32,
    /// LDS in bytes.
    pub group_segment: u32,
    /// Scratch memory of a lane in bytes.
    pub private_segment: u32,
    /// Size of the arguments in bytes, hidden ones too.
    pub arguments: u32,
    /// 32 or 64 lanes.
    pub wavefront: u32,
    /// Spilled vector and scalar registers.
    pub spills: (u32, u32),
    /// The size of the stack is decided by the runtime.
    pub dynamic_stack: bool,
}

impl Metadata {
    /// Reads the document.
    ///
    /// # Errors
    /// Bytes that are no MessagePack map.
    pub fn parse(mut document: &[u8]) -> Result<Self, FormatError> {
        match rmpv::decode::read_value(&mut document) {
            Ok(Value::Map(entries)) => Ok(Metadata(entries)),
            Ok(_) => Err(FormatError::damaged(0, "code object metadata that is no map")),
            Err(error) => Err(FormatError::damaged(0, format!("code object metadata: {error}"))),
        }
    }

    /// The document's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Writing to a vector cannot fail.
        let _ = rmpv::encode::write_value(&mut out, &Value::Map(self.0.clone()));
        out
    }

    /// `amdgcn-amd-amdhsa--gfx90a:xnack+`.
    pub fn target(&self) -> Option<&str> {
        field(&self.0, TARGET)?.as_str()
    }

    /// Whether the object has formats of printf, whose numbers belong to it alone.
    pub fn has_printf(&self) -> bool {
        field(&self.0, PRINTF).is_some()
    }

    /// The kernels, in their order.
    pub fn kernels(&self) -> Vec<KernelMetadata> {
        let file = self.register_file();
        self.raw_kernels().iter().filter_map(|kernel| read_kernel(kernel.as_map()?, file)).collect()
    }

    fn raw_kernels(&self) -> &[Value] {
        field(&self.0, KERNELS).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn register_file(&self) -> Option<RegisterFile> {
        let processor = self.target()?.rsplit_once("--")?.1;
        RegisterFile::of(processor.split(':').next()?)
    }

    /// Joins the metadata of the objects of one code object: their kernels, sorted by name. `None` if the objects differ in anything else.
    pub fn join(all: Vec<Metadata>) -> Option<Metadata> {
        let mut all = all.into_iter();
        let mut joined = all.next()?;
        let mut kernels = joined.take_kernels();
        for mut other in all {
            kernels.extend(other.take_kernels());
            if other != joined {
                return None;
            }
        }
        kernels.sort_by(|one, other| name_of(one).cmp(&name_of(other)));
        joined.0.push((KERNELS.into(), Value::Array(kernels)));
        // As LLVM writes them.
        joined.0.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
        Some(joined)
    }

    fn take_kernels(&mut self) -> Vec<Value> {
        let place = self.0.iter().position(|(key, _)| key.as_str() == Some(KERNELS));
        match place.map(|place| self.0.remove(place).1) {
            Some(Value::Array(kernels)) => kernels,
            _ => Vec::new(),
        }
    }

    /// Records other registers of a kernel.
    pub fn set_registers(&mut self, name: &str, registers: Registers) {
        let file = self.register_file();
        let kernels = self.kernels_mut().map(Vec::as_mut_slice).unwrap_or_default();
        let Some(Value::Map(kernel)) = kernels.iter_mut().find(|kernel| name_of(kernel) == Some(name)) else { return };
        let total = file.map_or(registers.vgprs, |file| file.total_vgprs(registers));
        for (key, value) in [(".vgpr_count", total), (".agpr_count", registers.agprs), (".sgpr_count", registers.sgprs)]
        {
            if let Some((_, place)) = kernel.iter_mut().find(|(name, _)| name.as_str() == Some(key)) {
                *place = value.into();
            }
        }
    }

    fn kernels_mut(&mut self) -> Option<&mut Vec<Value>> {
        let kernels = self.0.iter_mut().find(|(key, _)| key.as_str() == Some(KERNELS));
        match kernels.map(|(_, value)| value) {
            Some(Value::Array(kernels)) => Some(kernels),
            _ => None,
        }
    }
}

fn field<'v>(map: &'v [(Value, Value)], name: &str) -> Option<&'v Value> {
    map.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn name_of(kernel: &Value) -> Option<&str> {
    field(kernel.as_map()?, ".name")?.as_str()
}

fn read_kernel(kernel: &[(Value, Value)], file: Option<RegisterFile>) -> Option<KernelMetadata> {
    let text = |name| Some(field(kernel, name)?.as_str()?.to_owned());
    let number = |name| field(kernel, name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let count = |name| number(name).unwrap_or(0);
    let (total_vgprs, agprs) = (count(".vgpr_count"), count(".agpr_count"));
    // In a unified file, accumulation registers start at a multiple of four.
    let is_unified = file.is_some_and(|file| file.total_vgprs(Registers { vgprs: 4, agprs: 4, sgprs: 0 }) == 8);
    let vgprs = if is_unified { total_vgprs.saturating_sub(agprs) } else { total_vgprs };
    Some(KernelMetadata {
        name: text(".name")?,
        descriptor: text(".symbol")?,
        registers: Registers { vgprs, agprs, sgprs: count(".sgpr_count") },
        total_vgprs,
        group_segment: count(".group_segment_fixed_size"),
        private_segment: count(".private_segment_fixed_size"),
        arguments: count(".kernarg_segment_size"),
        wavefront: count(".wavefront_size"),
        spills: (count(".vgpr_spill_count"), count(".sgpr_spill_count")),
        dynamic_stack: field(kernel, ".uses_dynamic_stack").and_then(Value::as_bool).unwrap_or(false),
    })
}
