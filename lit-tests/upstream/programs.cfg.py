# LLVM's own programs that offload, on x86-64: `cargo xtask upstream-tests --programs`. This sets what LLVM's build would have set, and loads
# the tests' own configuration.

import os

parameters = lit_config.params
llvm = parameters["llvm"]
programs, libraries = os.path.join(llvm, "bin"), os.path.join(llvm, "lib")
target = "x86_64-unknown-linux-gnu"

config.bin_llvm_tools_dir = programs
config.test_c_compiler = os.path.join(programs, "clang")
config.test_cxx_compiler = os.path.join(programs, "clang++")
config.test_fortran_compiler = ""
config.test_compiler_features = ["clang", "clang-22", "clang-22.1"]
config.test_openmp_flags = "-fopenmp"
# -B names the folder with fatlink; without it clang finds LLVM's own tool.
config.test_extra_flags = parameters.get("flags", "")
config.cuda_path = config.cuda_libdir = config.cuda_test_arch = config.amdgpu_test_arch = ""
config.libomptarget_obj_root = parameters["output"]
config.library_dir = config.llvm_library_dir = config.llvm_library_intdir = libraries
config.llvm_lib_directory = config.omp_host_rtl_directory = libraries
config.omp_header_directory = os.path.join(llvm, "lib/clang/22/include")
config.operating_system = "Linux"
config.libomptarget_all_targets = [target, "aarch64-unknown-linux-gnu", "s390x-ibm-linux-gnu", "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa"]
config.libomptarget_current_target = target
config.libomptarget_filecheck = os.path.join(programs, "FileCheck")
config.libomptarget_not = os.path.join(programs, "not")
config.offload_device_info = os.path.join(programs, "llvm-offload-device-info")
config.offload_tblgen = os.path.join(programs, "offload-tblgen")
config.libomptarget_debug = config.libomptarget_has_libc = config.libomptarget_test_pgo = False
config.has_libomptarget_ompt = True
lit_config.load_config(config, os.path.join(parameters["tests"], "lit.cfg"))
