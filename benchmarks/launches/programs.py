#!/usr/bin/env python3
"""Generates programs whose kernels launch kernels, links each by nvcc and by fatlink, and writes a script that runs both on a machine with a
GPU: the results have to be the same. Programs of clang's units alone are also linked by LLVM's clang-linker-wrapper, if it can.

    programs.py --dist DIST --cuda CUDA --out FOLDER [--count 250] [--seed 1]

The library has units of kernels and functions. Kernels launch those of their own unit, static ones and templates among them, those of other
units, and themselves; they call functions of all units, directly, recursively and through pointers. Each unit is compiled by nvcc (machine
code, PTX, LTO-IR, code of an earlier GPU with PTX) and by clang (bitcode, machine code). A program takes a random choice of units, their
forms, and a way to link them. run.sh prints a line for each program with a difference; with
RESULTS=FOLDER it goes on where an earlier run was ended.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generated

UNITS = 20
SLOTS = 16

HEADER = r"""
#pragma once
#include <cuda_runtime.h>
template <int N> __global__ void instance(int *p, int depth);
"""

MAIN = r"""
#include <cuda_runtime_api.h>
#include <cstdio>
%(declared)s
int main() {
  int *p = nullptr, host[%(slots)d];
  cudaMalloc((void **)&p, sizeof host);
  cudaMemset(p, 0, sizeof host);
  %(calls)s
  cudaError_t error = cudaDeviceSynchronize();
  cudaError_t copied = cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
  for (int value : host) std::printf("%%d ", value);
  std::printf("\n%%s %%s %%s\n", cudaGetErrorName(error), cudaGetErrorName(copied), cudaGetErrorName(cudaGetLastError()));
}
"""

# How units are compiled: the flags behind those of each compiler.
NVCC = {
    "sass": ["-gencode=arch=compute_90,code=sm_90"],
    "ptx": ["-gencode=arch=compute_90,code=compute_90"],
    "lto": ["-gencode=arch=compute_90,code=lto_90"],
    "earlier": ["-gencode=arch=compute_80,code=[sm_80,compute_80]"],
}
CLANG = {"bitcode": ["-foffload-lto"], "cubin": []}

# The forms that a program's units have, each unit one of the list.
FORMS = {
    "nvcc": ["sass"],
    "nvcc's PTX": ["ptx", "ptx", "sass"],
    "nvcc's LTO-IR": ["lto", "lto", "sass"],
    "earlier GPU": ["earlier"],
    "clang": ["bitcode"],
    "clang's cubins": ["cubin", "cubin", "bitcode"],
    "both": ["sass", "bitcode", "cubin"],
    "both and PTX": ["sass", "ptx", "bitcode"],
    "both and LTO-IR": ["sass", "lto", "bitcode", "cubin"],
}

CUT = ["--offload-partition-size=1"]


def is_root(number):
    """Whether host code launches a kernel of the unit. All other kernels are launched by kernels alone."""
    return number % 2 == 0


def unit(number, choice):
    """One unit, and the units that it refers to."""
    later = list(range(number + 1, UNITS))
    others = choice.sample(later, min(len(later), choice.choice([0, 1, 1, 2])))
    functions, statics, kernels = choice.randint(1, 3), choice.randint(0, 2), choice.randint(1, 3)
    text = [f'#include "shared.h"\n__device__ int variable_{number} = {choice.randint(1, 9)};']
    for other in others:
        text.append(f"__device__ int called_{other}(int x); __global__ void launched_{other}(int *p, int depth);")
    for index in range(functions):
        inner = choice.choice([f"x + variable_{number}", f"x * {index + 2}", *(f"called_{other}(x) + 1" for other in others)])
        if choice.random() < 0.3:
            inner = f"x > 0 && x < 9 ? function_{index}(x - 1) + {number} : {inner}"
        text.append(f"static __device__ __noinline__ int function_{index}(int x) {{ return {inner}; }}")
    names = ", ".join(f"function_{index}" for index in range(functions))
    text.append(f"static __device__ int (*const functions[])(int) = {{{names}}};")
    body = choice.choice(["function_0(x) + 3", f"functions[(x & 3) % {functions}](x)", f"x * 3 + {number}"])
    text.append(f"__device__ __noinline__ int called_{number}(int x) {{ return {body}; }}")

    def work():
        value = choice.choice([f"called_{number}(threadIdx.x + depth)", *(f"function_{index}(depth)" for index in range(functions)),
                               f"functions[(depth + threadIdx.x) % {functions}](depth)", *(f"called_{other}(depth)" for other in others)])
        return f"atomicAdd(p + {choice.randrange(SLOTS)}, {value});"

    launched = [f"static_{index}" for index in range(statics)] + [f"launched_{other}" for other in others]
    for index in range(statics):
        text.append(f"static __global__ void static_{index}(int *p, int depth) {{ {work()} }}")
    if choice.random() < 0.5:
        text.append(f"template <int N> __global__ void instance(int *p, int depth) {{ atomicAdd(p + N, called_{number}(depth)); }}")
        launched.append(f"instance<{choice.randrange(SLOTS)}>")
    if launched and choice.random() < 0.4:
        target = choice.choice(launched)
        text.append(f"static __device__ __noinline__ void launch(int *p, int depth) {{ {target}<<<1, 2>>>(p, depth); }}")
        launched.append(None)
    # The last one is the kernel that other units launch.
    for index in range(kernels):
        name = f"launched_{number}" if index + 1 == kernels else f"kernel_{number}_{index}"
        text.append(f"__global__ void {name}(int *p, int depth) {{ {work()} if (depth > 0 && threadIdx.x == 0) {{")
        for target in choice.sample(launched, min(len(launched), choice.choice([1, 1, 2]))):
            text.append("launch(p, depth - 1);" if target is None else f"{target}<<<1, {choice.randint(1, 3)}>>>(p, depth - 1);")
        if choice.random() < 0.3:
            text.append(f"{name}<<<1, 1>>>(p, depth - 1);")
        text.append("} }")
        if index + 1 < kernels:
            launched.append(name)
    if is_root(number):
        text.append(f"void start_{number}(int *p, int depth) {{ launched_{number}<<<1, 2>>>(p, depth); }}")
    return "\n".join(text) + "\n", others


class Generator(generated.Generator):
    """The library's objects, and the programs that are linked with them."""

    def __init__(self, options):
        super().__init__(options)
        self.references = {}

    def compile_command(self, form):
        if form in NVCC:
            return [f"{self.options.cuda}/bin/nvcc", "-dc", "-O1", "-Xcompiler=-fPIC", "-Wno-deprecated-gpu-targets", *NVCC[form], "-diag-suppress=177"]
        flags = [flag for flag in generated.compiler(self.options) if flag not in ("-foffload-lto", "-c")]
        return [*flags, "-O1", "-fPIC", "-c", *CLANG[form]]

    def objects(self):
        """Compiles each unit in all forms."""
        (self.work / "shared.h").write_text(HEADER)
        jobs = []
        for number in range(UNITS):
            text, self.references[number] = unit(number, generated.choice_of(self.options, 90000 + number))
            (self.work / f"u{number}.cu").write_text(text)
            jobs += [[*self.compile_command(form), f"u{number}.cu", "-o", f"u{number}.{form}.o"] for form in [*NVCC, *CLANG]]
        self.compile_all(job for job in jobs if not (self.work / job[-1]).exists())

    def closed(self, units):
        """The units with all that they refer to."""
        found = set(units)
        while more := {other for number in found for other in self.references[number]} - found:
            found |= more
        return sorted(found)

    def by_nvcc(self, objects, output, folder, *, target="sm_90", lto=False, tool=None):
        """Links as nvcc does: a device link, by nvcc or the tool, and a host link."""
        device = output.with_suffix(".dlink.o").name
        command = tool or [f"{self.options.cuda}/bin/nvcc", "-dlink", "-Wno-deprecated-gpu-targets"]
        architecture = f"-gencode=arch={target.replace('sm', 'compute')},code={target}"
        generated.run([*command, *(["-dlto"] if lto else []), architecture, *objects, "-lcudadevrt", "-o", device], folder)
        libraries = [f"-L{self.options.cuda}/lib", "-lcudadevrt", f"{self.options.cuda}/lib/libcudart.so.13"]
        generated.run(["g++", *objects, device, *libraries, "-ldl", "-lpthread", "-s", "-o", output], folder)

    def program(self, number):
        """Links one program; returns what was linked how."""
        choice = generated.choice_of(self.options, number)
        roots = choice.sample([one for one in range(UNITS) if is_root(one)], choice.randint(1, 3))
        units = self.closed(roots)
        kind = choice.choice(sorted(FORMS))
        form_of = {one: choice.choice(FORMS[kind]) for one in units}
        folder, target = generated.folders(self.options, number)
        declared = "".join(f"void start_{root}(int *p, int depth);\n" for root in roots)
        calls = "".join(f"start_{root}(p, {choice.randint(1, 4)});" for root in roots)
        (folder / "main.cpp").write_text(MAIN % {"declared": declared, "calls": calls, "slots": SLOTS})
        generated.run(["g++", f"-I{self.options.cuda}/include", "-c", "main.cpp", "-o", "main.o"], folder)
        self.by_nvcc(["main.o", *(f"../u{one}.sass.o" for one in units)], target / "nvcc", folder)
        objects = ["main.o", *(f"../u{one}.{form_of[one]}.o" for one in units)]
        way = self.link(choice, kind, form_of, objects, target / "fatlink", folder)
        if kind == "clang" and self.links_by_peer(objects, target / "peer", folder):
            way += ", peer"
        return kind, way

    def link(self, choice, kind, form_of, objects, output, folder):
        """Links by fatlink in a random way, which it returns."""
        forms, options = set(form_of.values()), []
        ways = ["plain", "archive", "gc", "cached"]
        if forms & set(CLANG):
            ways += ["cut", "cut archive", "cut cached", "relocatable"]
        if forms == {"bitcode"}:
            ways += ["merged", "merged"]
        if forms <= set(NVCC):
            ways += ["dlink", "dlink"]
        if kind == "earlier GPU":
            ways += ["no machine code"]
        way = choice.choice(ways)
        if way == "dlink":
            tool = [f"{self.options.dist}/bin/fatlink", "--dlink", f"--cuda-path={self.options.cuda}"]
            target = "sm_80" if kind == "earlier GPU" else "sm_90"
            self.by_nvcc(objects, output, folder, target=target, lto="lto" in forms, tool=tool)
            return way
        if "cut" in way:
            options += CUT
        if way == "gc":
            options += ["--offload-gc=host"]
        if way == "no machine code":
            options += ["--offload-sass=none"]
        if "archive" in way:
            archive = folder / "libunits.a"
            archive.unlink(missing_ok=True)
            generated.run([self.options.ar, "rcs", "libunits.a", *objects[1:]], folder)
            objects = [objects[0], "libunits.a"]
        if way in ("relocatable", "merged"):
            merge = ["-Wl,--offload-relocatable=merge"] if way == "merged" else []
            some = objects if way == "relocatable" else objects[1:]
            command = [self.options.clang, "-B", f"{self.options.dist}/bin", "--offload-link", f"--cuda-path={self.options.cuda}", "-r", "-nostdlib"]
            generated.run([*command, *some, *merge, "-o", "part.o"], folder)
            objects = ["part.o"] if way == "relocatable" else [objects[0], "part.o"]
        if "cached" in way:
            options += [f"--offload-cache={folder / 'cache'}"]
        # nvcc's objects do not name the C++ library.
        words = [f"-Wl,{option}" for option in options]
        command = generated.linker(self.options, [*objects, *words, "-lstdc++"])
        command = [*command[:-2], "-o", output] if way == "relocatable" else [*command, "-o", output]
        generated.run(command, folder)
        if "cached" in way:
            generated.run(command, folder)
        return way

    def links_by_peer(self, objects, output, folder):
        runtime = [word for part in (f"-L{self.options.cuda}/lib", "-lcudadevrt") for word in ("-Xoffload-linker", part)]
        command = generated.linker(self.options, [*objects, *runtime, "-lstdc++"])
        command = [word for word in command[:-2] if word not in ("-B", f"{self.options.dist}/bin")]
        try:
            generated.run([*command, "-o", output], folder)
        except SystemExit:
            # It declares kernels of other units as functions where clang's code is machine code, which nvlink rejects.
            return False
        return True


ONE = r"""one() {
  local name=$(basename "$1") loading which
  [ -e "$2/$name.done" ] && return
  for loading in LAZY EAGER; do
    for which in nvcc fatlink peer; do
      [ -x "$1/$which" ] || continue
      CUDA_CACHE_DISABLE=1 CUDA_MODULE_LOADING=$loading timeout 60 "$1/$which" > "$2/$name.$which.$loading" 2>&1
      echo "exit $?" >> "$2/$name.$which.$loading"
      cmp -s "$2/$name.nvcc.$loading" "$2/$name.$which.$loading" || echo "DIFFERENT $1 $which $loading"
    done
  done
  grep -q "exit [^0]\|cudaError" "$2/$name".nvcc.* && echo "FAILED $1"
  touch "$2/$name.done"
}
"""


def main():
    parser = generated.arguments(__doc__, count=250)
    parser.add_argument("--ar", default="/usr/lib/llvm-22/bin/llvm-ar")
    options = parser.parse_args()
    generator = Generator(options)
    generator.objects()
    script = generated.script("Runs each program as nvcc and as fatlink links it, with lazy and eager loading, and compares the results.",
                              ONE, "cudaSuccess cudaSuccess cudaSuccess", "programs without an error", "nvcc")
    found = generated.generate(options, generator.program, script)
    for row in sorted(set(found)):
        print(f"{found.count(row):4} {row[0]}: {row[1]}")


main()
