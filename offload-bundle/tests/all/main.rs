//! The library with the files and the tools of LLVM and CUDA: one program, because each would be linked for itself.

mod arch;
mod carriers;
mod coverage;
mod cubin;
mod demangle;
mod device_links;
#[path = "../driver-truth/mod.rs"]
mod driver_truth;
mod fatbin_payloads;
mod fatbinary;
mod gate;
mod hip_bundle;
mod host_object;
mod kernel_copies;
mod offload_binary;
mod ptx_join;
mod resources;
mod section_names;
mod smaller_files;
#[path = "../tools/mod.rs"]
mod tools;
