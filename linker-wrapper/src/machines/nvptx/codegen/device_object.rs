//! The intermediate values of code generation: a file of PTX on its way in, and a device object on its way to the link.

use std::path::PathBuf;

use crate::sys::written_path;
use offload_bundle::arch::GpuArch;
use offload_bundle::host_object::ReferenceLists;
use offload_bundle::ptx::DebugInfo;
use serde::{Deserialize, Serialize};

/// The form of device code in a [`DeviceObject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// PTX, which a library compiles when it links.
    Ptx,
    /// A cubin, relocatable or finished.
    Cubin,
    /// NVIDIA's LTO-IR, as it is or as a fatbin with one entry.
    LtoIr,
}

/// One input of the last step of a device link, or its result if [`DeviceObject::unlinked`] is false. A worker hands it on
/// without its content, which is in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceObject {
    /// The name for messages: the user's file if the object came from one.
    pub name: String,
    /// The target that it was compiled for.
    pub arch: GpuArch,
    /// The file that nvlink reads.
    #[serde(with = "written_path")]
    pub path: PathBuf,
    /// The content; empty in a dry run, and until [`Assembler::read`](crate::machines::nvptx::codegen::Assembler::read) has read the file.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// The form of the content.
    pub form: Form,
    /// The id of the unit that nvcc compiled, if it is one, and what its host code refers to, if that is known. Workers
    /// compile no such unit.
    #[serde(skip)]
    pub unit: Option<(String, Option<ReferenceLists>)>,
    /// What the host code of a unit of LTO-IR defines: among it is what its device code defines, which only linkers can read.
    #[serde(skip)]
    pub host_definitions: Vec<String>,
    /// A linker has to run before the object can be loaded.
    pub unlinked: bool,
    /// What ptxas printed.
    pub diagnostics: Vec<String>,
    /// The peak resident size of ptxas in bytes; 0 if unknown.
    pub peak: u64,
}

impl DeviceObject {
    /// A cubin without diagnostics.
    pub fn cubin(name: String, arch: GpuArch, path: PathBuf, bytes: Vec<u8>, unlinked: bool) -> Self {
        DeviceObject {
            name,
            arch,
            path,
            bytes,
            form: Form::Cubin,
            unit: None,
            host_definitions: Vec::new(),
            unlinked,
            diagnostics: Vec::new(),
            peak: 0,
        }
    }
}

/// A file of PTX to turn into a device object.
#[derive(Debug, Clone)]
pub struct PtxSource {
    /// The target.
    pub arch: GpuArch,
    /// The file.
    pub input: PathBuf,
    /// The debug information in the PTX.
    pub debug_info: DebugInfo,
    /// The object will be linked with others, so it has to be relocatable.
    pub relocatable: bool,
    /// The name for messages.
    pub name: String,
}
