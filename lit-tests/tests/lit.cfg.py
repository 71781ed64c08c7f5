# What lit tests can use; after the model of LLVM's out-of-tree projects.
#
# The environment comes from `cargo xtask test`, which lays out the programs in target/debug-dist. To run lit by hand:
#   eval "$(cargo xtask env)"; FATLINK_DIST=$PWD/target/debug-dist lit -v lit-tests/tests

import os
import re
import shutil
import subprocess
import sys
import tempfile

import lit.formats

config.name = "fatlink"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".test", ".c", ".cpp", ".cu", ".ll", ".s"]
# Files that tests use and that are no tests themselves.
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params.get("scratch") or os.path.join(tempfile.gettempdir(), "fatlink-lit")


def folder(variable):
    """A folder that the environment must name."""
    path = os.environ.get(variable, "")
    if not os.path.isdir(path):
        lit_config.fatal(f"{variable} is '{path}', which is no folder: run `cargo xtask test`")
    return os.path.abspath(path)


def program(*parts):
    """A program that must be there: a missing tool is a failure, not a skip."""
    path = os.path.join(*parts)
    if not os.access(path, os.X_OK):
        lit_config.fatal(f"{path} is missing: run `cargo xtask test`, or for a program in dist/ `cargo xtask dist`")
    return path


dist = folder("FATLINK_DIST")
cuda = folder("CUDA_PATH")
sysroot = folder("FATLINK_SYSROOT")
sarif = folder("FATLINK_SARIF")
llvm = "/usr/lib/llvm-22"

for tool in ["ld.lld", "clang-linker-wrapper", "clang-offload-bundler", "FileCheck", "not", "split-file", "opt", "llvm-as", "llc", "llvm-ar", "llvm-nm", "llvm-objcopy",
             "llvm-objdump", "llvm-readelf"]:
    program(llvm, "bin", tool)
for tool in ["ptxas", "nvlink", "cuobjdump", "nvdisasm"]:
    program(cuda, "bin", tool)

clangxx = program(llvm, "bin", "clang++")
program("/usr/bin/ccache")
compile = f"sh {os.path.join(config.test_source_root, 'Inputs', 'compile.sh')}"
compile_cuda = f"{compile} {clangxx} -x cuda --cuda-path={cuda} -Wno-unknown-cuda-version -fgpu-rdc -O2 -c"
samples = os.path.join(os.path.dirname(os.path.dirname(config.test_source_root)), "samples")

substitutions = {
    # What is tested.
    "%dist": dist,
    "%fatlink": program(dist, "bin", "fatlink"),
    "%clang-linker-wrapper": program(dist, "bin", "clang-linker-wrapper"),
    "%ld.fatlink": program(dist, "bin", "ld.fatlink"),
    "%offload-bundle": program(dist, "bin", "offload-bundle"),
    # What it is tested with.
    "%clang": program(llvm, "bin", "clang"),
    "%clangxx": clangxx,
    "%gcc": program("/usr/bin/gcc"),
    "%gxx": program("/usr/bin/g++"),
    "%llvm-offload-binary": program(llvm, "bin", "llvm-offload-binary"),
    "%cuda": cuda,
    # Debian 11's C library, and its loader with a command line that runs a program on it.
    "%sysroot": sysroot,
    "%run-on-glibc-2.31": f"{program(sysroot, 'lib64', 'ld-linux-x86-64.so.2')} --library-path {sysroot}/lib/x86_64-linux-gnu",
    "%samples": samples,
    # With a few declarations instead of CUDA's headers.
    "%compile-cuda": f"{compile_cuda} -nocudainc -include {os.path.join(config.test_source_root, 'Inputs', 'cuda.h')}",
    # With the headers, which take seconds to read, and more of them for C++17.
    "%compile-with-cuda-headers": f"{compile_cuda} -std=c++14",
    "%compile-nvcc": f"{compile} nvcc -std=c++14",
    # By ccache, whose objects tests and runs share.
    "%compile": compile,
    # Without HIP's headers, device libraries and runtime, which these tests do not need.
    "%compile-hip": f"{compile} {clangxx} -x hip --offload-new-driver -fgpu-rdc -nogpuinc -nogpulib -O2 -c",
    "%python": sys.executable,
    # Checks files with the schema of SARIF.
    "%validate-sarif": f"{sys.executable} {os.path.join(config.test_source_root, 'explain', 'Inputs', 'validate_sarif.py')} {sarif}",
    "%cudart": f"-L{cuda}/lib -lcudart_static -ldl -lrt -lpthread",
}
# lit replaces one after the other: %clang must not take the first half of %clangxx.
for name in sorted(substitutions, key=len, reverse=True):
    config.substitutions.append((name.replace(".", r"\."), substitutions[name]))

config.available_features.update(["cuda", "x86_64-linux"])
# The device node of NVIDIA's Linux driver, or of its driver for WSL.
if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg"):
    config.available_features.add("gpu")
else:
    config.available_features.add("no-gpu")

# Only root can run a program as a user that runs nothing else, and only with setpriv.
if os.geteuid() == 0 and shutil.which("setpriv"):
    config.available_features.add("process-limits")

# Root may change the root folder, and others where they can have a namespace of users, but not in every container.
as_root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
if shutil.which("unshare") and subprocess.run([*as_root, "chroot", "/", "true"], capture_output=True).returncode == 0:
    config.available_features.add("chroot")

# Whether a small disk can be mounted: not in a container without privileges.
with tempfile.TemporaryDirectory() as disk:
    small_disk = os.path.join(config.test_source_root, "errors", "Inputs", "small_disk.sh")
    if subprocess.run(["sh", small_disk, disk, "true"], capture_output=True).returncode == 0:
        config.available_features.add("mount")

# Whether each mount has a number of its own: since Linux 6.8.
release = re.match(r"(\d+)\.(\d+)", os.uname().release)
if release and tuple(map(int, release.groups())) >= (6, 8):
    config.available_features.add("mount-numbers")

# Whether images of file systems can be mounted: only root can, where there are loop devices.
with tempfile.TemporaryDirectory() as folder:
    image, toolkit = os.path.join(folder, "image"), os.path.join(folder, "files")
    os.mkdir(toolkit)
    with_image = os.path.join(config.test_source_root, "cache", "Inputs", "with_image.sh")
    commands = [["mksquashfs", toolkit, image, "-quiet"], ["sh", with_image, image, toolkit, "true"]]
    if shutil.which("mksquashfs") and all(subprocess.run(command, capture_output=True).returncode == 0 for command in commands):
        config.available_features.add("image-mount")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(llvm, "bin"), os.path.join(cuda, "bin"), os.path.join(dist, "path"), os.environ["PATH"]])
config.environment["CUDA_PATH"] = cuda
for name in ["LD_LIBRARY_PATH", "GLIBC_TUNABLES"]:
    config.environment[name] = os.environ.get(name, "")
# Objects of earlier runs, as long as the compilers are the same, also those that nvcc and clang start.
compilers = [os.stat(path) for path in [clangxx, "/usr/bin/g++", *(os.path.join(cuda, *parts) for parts in
             [("bin", "ptxas"), ("bin", "cudafe++"), ("nvvm", "bin", "cicc"), ("nvvm", "libdevice", "libdevice.10.bc")])]]
config.environment["CCACHE_DIR"] = os.path.join(config.test_exec_root, "ccache")
# The projects that tests configure compile as %compile-cuda does.
config.environment["CMAKE_CUDA_COMPILER_LAUNCHER"] = compile.replace(" ", ";")
config.environment["CCACHE_MAXSIZE"] = "2G"
# Tests share objects, although each runs in a folder of its own.
config.environment["CCACHE_NOHASHDIR"] = "1"
config.environment["CCACHE_NAMESPACE"] = "-".join(f"{file.st_size}.{file.st_mtime_ns}" for file in compilers)
# Nobody's own settings for clang may change a test, and no test may leave anything there.
config.environment["HOME"] = os.path.join(config.test_exec_root, "home")
os.makedirs(config.environment["HOME"], exist_ok=True)
