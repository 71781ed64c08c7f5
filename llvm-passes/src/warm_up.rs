//! Compiles code that nobody needs, so that the first real code of this process is compiled as fast as later code: LLVM builds its tables
//! when it first needs them, and the system loads each page of LLVM when it is first used.

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use offload_bundle::arch::GpuArch;

use crate::amdgpu::{self, AmdTarget};
use crate::pipeline::{self, CodeTarget, NEWEST_PTX, OptLevel};
use crate::registration::{self, Cuda, EntryTables};
use crate::session::Session;

/// A kernel with a loop, memory of several kinds and a call.
const KERNEL: &str = "
@table = addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
@tile = internal addrspace(3) global [64 x float] undef
define internal float @helper(float %value, i32 %index) {
  %near = getelementptr [4 x float], ptr addrspace(4) @table, i32 0, i32 %index
  %factor = load float, ptr addrspace(4) %near
  %product = fmul float %value, %factor
  ret float %product
}
define CONVENTION void @kernel(ptr addrspace(1) %values, i32 %count) {
entry:
  %is_empty = icmp slt i32 %count, 1
  br i1 %is_empty, label %end, label %loop
loop:
  %index = phi i32 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr float, ptr addrspace(1) %values, i32 %index
  %old = load float, ptr addrspace(1) %place
  %low = and i32 %index, 3
  %new = call float @helper(float %old, i32 %low)
  %shared = getelementptr [64 x float], ptr addrspace(3) @tile, i32 0, i32 %low
  store float %new, ptr addrspace(3) %shared
  %again = load float, ptr addrspace(3) %shared
  store float %again, ptr addrspace(1) %place
  %next = add i32 %index, 1
  %is_last = icmp eq i32 %next, %count
  br i1 %is_last, label %end, label %loop
end:
  ret void
}
";

/// Compiles for a GPU of each vendor, and registration code for the host.
pub fn warm_up(host_triple: &str) {
    nvptx();
    amdgpu();
    host(host_triple);
}

/// Compiles a kernel for NVIDIA's GPUs. What fails here fails again where it is reported.
pub fn nvptx() {
    let session = Session::new();
    if let Some(module) = kernel(&session, "nvptx64-nvidia-cuda", "ptx_kernel") {
        let target = CodeTarget { arch: GpuArch::plain(90), ptx: NEWEST_PTX, level: OptLevel::O2 };
        let _ =
            pipeline::optimize(&session, &module, target).and_then(|()| pipeline::emit_ptx(&session, &module, target));
    }
    session.take_messages();
}

/// The same for AMD's GPUs.
pub fn amdgpu() {
    let session = Session::new();
    if let Some(module) = kernel(&session, "amdgcn-amd-amdhsa", "amdgpu_kernel") {
        let target = AmdTarget::new("gfx90a".to_owned(), String::new(), OptLevel::O2);
        let _ = amdgpu::optimize(&session, &module, &target)
            .and_then(|()| amdgpu::emit_object(&session, &module, &target).map(drop));
    }
    session.take_messages();
}

/// Compiles registration code for the host.
pub fn host(triple: &str) {
    let session = Session::new();
    let _ = registration::build(&session, triple, &Cuda, EntryTables::Current)
        .and_then(|module| registration::compile(&session, &module, triple));
    session.take_messages();
}

/// The kernel, with the calling convention of a vendor.
fn kernel<'s>(session: &'s Session, triple: &str, convention: &str) -> Option<Module<'s>> {
    let text = format!("target triple = \"{triple}\"\n{}", KERNEL.replace("CONVENTION", convention));
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "a kernel");
    session.context().create_module_from_ir(buffer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_compile() {
        let session = Session::new();
        let module = kernel(&session, "nvptx64-nvidia-cuda", "ptx_kernel").unwrap();
        let target = CodeTarget { arch: GpuArch::plain(90), ptx: NEWEST_PTX, level: OptLevel::O2 };
        pipeline::optimize(&session, &module, target).unwrap();
        assert!(!pipeline::emit_ptx(&session, &module, target).unwrap().is_empty());
        let module = kernel(&session, "amdgcn-amd-amdhsa", "amdgpu_kernel").unwrap();
        let target = AmdTarget::new("gfx90a".to_owned(), String::new(), OptLevel::O2);
        amdgpu::optimize(&session, &module, &target).unwrap();
        assert!(!amdgpu::emit_object(&session, &module, &target).unwrap().0.is_empty());
        warm_up("x86_64-pc-linux-gnu");
    }
}
