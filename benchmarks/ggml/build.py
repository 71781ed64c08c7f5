#!/usr/bin/env python3
"""Builds ggml's CUDA code, as llama.cpp uses it, as relocatable device code with LTO, links it, and prints what the link took.

    eval $(cargo xtask env)
    python3 benchmarks/ggml/build.py FOLDER                      # compile and link with fatlink
    python3 benchmarks/ggml/build.py FOLDER --peer               # only the device link, by clang-linker-wrapper of LLVM 22

The sources come from a crate and cuBLAS from a wheel, both of one version. Compiling takes about 15 minutes on two cores; objects
that are there already are kept. FOLDER/compare is a program for a machine with a GPU and cuBLAS 13.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

CRATE = ("llama-cpp-sys-2", "0.1.161")
WHEEL = ("nvidia-cublas", "13.0.2.14")
HERE = pathlib.Path(__file__).resolve().parent
DIST = pathlib.Path(os.environ.get("FATLINK_DIST", HERE.parent.parent / "dist"))
LLVM = pathlib.Path(os.environ.get("LLVM_SYS_221_PREFIX", "/usr/lib/llvm-22")) / "bin"
# Flash attention is another 82 units, which take long to compile and are left out; the backend reports that it has none.
STUBS = """#include <cstddef>
#include <cstdlib>
struct ggml_backend_cuda_context;
struct ggml_tensor;
void ggml_cuda_flash_attn_ext(ggml_backend_cuda_context &, ggml_tensor *) { std::abort(); }
size_t ggml_cuda_flash_attn_ext_get_alloc_size(int, const ggml_tensor *) { return 0; }
bool ggml_cuda_flash_attn_ext_supported(int, const ggml_tensor *) { return false; }
"""


def cuda():
    path = os.environ.get("CUDA_PATH")
    if not path:
        sys.exit("no $CUDA_PATH: run `cargo xtask setup`, then `eval $(cargo xtask env)`")
    return pathlib.Path(path)


def fetch(folder):
    """Fetches the crate's sources, through a package that depends on it, and the wheel's headers and library."""
    package = folder / "package"
    (package / "src").mkdir(parents=True, exist_ok=True)
    (package / "src/lib.rs").touch()
    name, version = CRATE
    (package / "Cargo.toml").write_text(
        f'[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n{name} = "={version}"\n\n[workspace]\n'
    )
    sources = folder / "vendor" / name / "llama.cpp/ggml"
    if not sources.exists():
        subprocess.run(["cargo", "vendor", "--quiet", folder / "vendor"], cwd=package, check=True, stdout=subprocess.DEVNULL)
    cublas = folder / "cublas"
    if not cublas.exists():
        name, version = WHEEL
        subprocess.run(["pip", "download", "--quiet", "--no-deps", f"{name}=={version}", "--dest", folder], check=True)
        with zipfile.ZipFile(next(folder.glob("nvidia_cublas-*.whl"))) as wheel:
            wanted = [name for name in wheel.namelist() if "/include/" in name or name.endswith("/libcublas.so.13")]
            wheel.extractall(cublas, wanted)
    (sources / "src/ggml-version.h").write_text('#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n')
    return sources, cublas / "nvidia/cu13"


def units(folder, sources, cublas):
    """Every unit: source, object, command."""
    device = sorted(path for path in (sources / "src/ggml-cuda").glob("*.cu") if not path.name.startswith("fattn"))
    device += sorted((sources / "src/ggml-cuda/template-instances").glob("mm*.cu"))
    host = [path for kind in ("*.c", "*.cpp") for place in ("", "ggml-cpu", "ggml-cpu/amx", "ggml-cpu/tiled")
            for path in sorted((sources / "src" / place).glob(kind))]
    host += [sources / "src/ggml-cpu/arch/x86" / name for name in ("quants.c", "repack.cpp")]
    stubs = folder / "stubs.cpp"
    stubs.write_text(STUBS)
    include = [f"-I{sources / place}" for place in ("include", "src", "src/ggml-cpu", "src/ggml-cuda")]
    common = ["-c", "-O2", "-w", "-DNDEBUG", "-D_GNU_SOURCE", "-DGGML_SCHED_MAX_COPIES=4", *include]
    for_device = [LLVM / "clang++", "-std=c++17", "-x", "cuda", f"--cuda-path={cuda()}", "-Wno-unknown-cuda-version", "-fgpu-rdc",
                  "-foffload-lto", "--offload-arch=sm_90", "-DGGML_CUDA_PEER_MAX_BATCH_SIZE=128", "-DGGML_CUDA_NO_FA",
                  "-DGGML_CUDA_NO_VMM", f"-I{cuda()}/include/cccl", f"-I{cublas}/include", *common]
    for_host = ["-mavx2", "-mfma", "-mf16c", "-mbmi2", "-DGGML_USE_CPU", "-DGGML_USE_CUDA", *common]
    for source in device:
        yield source, folder / "device" / f"{source.stem}.o", for_device
    for source in [*host, stubs, HERE / "compare.cpp"]:
        compiler = [LLVM / "clang", "-std=gnu11"] if source.suffix == ".c" else [LLVM / "clang++", "-std=c++17"]
        yield source, folder / "host" / f"{source.parent.name}_{source.name}.o", [*compiler, *for_host]


def compile_all(jobs, all_units):
    def compile_one(unit):
        source, output, command = unit
        output.parent.mkdir(exist_ok=True)
        if output.exists() and output.stat().st_mtime >= source.stat().st_mtime:
            return
        partial = output.with_suffix(".partial")
        subprocess.run([*command, source, "-o", partial], check=True)
        partial.rename(output)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, all_units))


def fatlink(folder, cublas, extra):
    objects = [*sorted((folder / "device").glob("*.o")), *sorted((folder / "host").glob("*.o"))]
    return [LLVM / "clang++", "-B", DIST / "bin", "--offload-link", "-fgpu-rdc", "-foffload-lto", f"--cuda-path={cuda()}", "-O2",
            "-o", folder / "compare", *objects, f"-L{cuda()}/lib64", "-lcudart_static", f"-L{cublas}/lib", "-l:libcublas.so.13",
            "-lpthread", "-ldl", "-lrt", "-Wl,--allow-shlib-undefined", "-Wl,--offload-stats", *extra]


def peer(folder, extra):
    to_compiler = [f"--device-compiler=nvptx64-nvidia-cuda={option}" for option in (f"--cuda-path={cuda()}", "-O2", "-flto=full")]
    return [LLVM / "clang-linker-wrapper", "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true", f"--cuda-path={cuda()}",
            *to_compiler, "-o", folder / "peer", *extra, *sorted((folder / "device").glob("*.o"))]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    arguments.add_argument("--peer", action="store_true", help="link with clang-linker-wrapper of LLVM 22")
    arguments.add_argument("--link", action="append", default=[], metavar="OPTION", help="a further option of the link")
    options = arguments.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    sources, cublas = fetch(folder)
    compile_all(options.jobs, list(units(folder, sources, cublas)))
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    line = peer(folder, options.link) if options.peer else fatlink(folder, cublas, options.link)
    status = subprocess.run(line).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"link: exit {status}, {time.monotonic() - start:.1f} s, {processor:.1f} s of processor time")
    return status


if __name__ == "__main__":
    sys.exit(main())
