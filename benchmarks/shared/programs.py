#!/usr/bin/env python3
"""Generates programs whose functions are called through pointers and use shared memory, links each in one piece, in small partitions, from a cache
and with LLVM's tool, and writes a script that runs all on a machine with a GPU: the results have to be the same.

    programs.py --dist DIST --cuda CUDA --out FOLDER [--count 20] [--seed 1]

Functions and kernels of two to four units read and write static shared memory of their unit, that of templates, and dynamic one. Each kernel sets all of
it, and prints a sum of what the functions return and leave. run.sh prints a line for each program with a difference. LLVM's tool looks for those of CUDA on
PATH (`cargo xtask env`).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generated

COMMON = """#pragma once
#include <cuda_runtime.h>
#include <cstdio>
typedef int (*Function)(int);
extern __device__ Function table[COUNT];
extern __shared__ int dynamic[];
template <int N> __device__ __forceinline__ int *tile() { __shared__ int values[32 * N]; return values; }
__device__ void set_all();
"""
WAYS = {"off": ["--offload-partition-size=whole"], "cut": ["--offload-partition-size=1"], "cached": ["--offload-partition-size=20"]}


def function(choice, number, unit, size, tiles):
    """A function of a unit whose static shared memory has this size."""
    uses = [
        f"int *t = tile<{choice.randint(1, tiles)}>(); for (int i = 0; i < 32; ++i) sum = sum * 3 + t[(i * x) & 31]; t[x & 31] += sum & 15;",
        f"for (int i = 0; i < {size}; ++i) sum = sum * 5 + static{unit}[i]; static{unit}[x & 3] ^= sum & 63;",
        "sum += dynamic[x & 15] * 9; dynamic[(x + 1) & 15] += 2;",
        f"if (x > 3) sum += table[{choice.randrange(number)}](x / 2);" if number else "",
    ]
    used = " ".join(use for use in uses if choice.random() < 0.6)
    inlined = choice.choice(["__noinline__ ", ""])
    return f"__device__ {inlined}int f{number}(int x) {{ int sum = x * {choice.randint(3, 99)}; {used} return sum; }}\n"


def kernel(choice, number, unit, size, tiles, functions):
    """A kernel of a unit, and the function that launches it."""
    direct = f"sum += f{choice.randrange(functions)}(5);" if choice.random() < 0.5 else ""
    return (
        f"__global__ void k{number}(int *out) {{ set_all(); int sum = 0;\n"
        f"  for (int i = 0; i < {functions}; ++i) sum = sum * 31 + table[(i * {choice.choice([1, 5, 7])}) % {functions}](i + {number}); {direct}\n"
        f"  for (int i = 0; i < 32; ++i) sum = sum * 7 + tile<{choice.randint(1, tiles)}>()[i];\n"
        f"  for (int i = 0; i < {size}; ++i) sum = sum * 11 + static{unit}[i];\n  *out = sum; }}\n"
        f"void launch{number}(int *out) {{ k{number}<<<1, 1, 64>>>(out); }}\n"
    )


def sources(choice):
    """The text of each file of a program, by its name."""
    units, functions, kernels, tiles = choice.randint(2, 4), choice.randint(3, 6), choice.randint(3, 6), choice.randint(1, 3)
    sizes = [4 * choice.randint(2, 60) for _ in range(units)]
    declared = "".join(f"extern __device__ int f{number}(int);\n" for number in range(functions))
    texts = [f'#include "common.h"\n{declared}__shared__ static int static{unit}[{size}];\n' for unit, size in enumerate(sizes)]
    for number in range(functions):
        unit = choice.randrange(units)
        texts[unit] += function(choice, number, unit, sizes[unit], tiles)
    names = ", ".join(f"f{number}" for number in range(functions))
    texts[choice.randrange(units)] += f"__device__ Function table[{functions}] = {{{names}}};\n"
    for number in range(kernels):
        unit = choice.randrange(units)
        texts[unit] += kernel(choice, number, unit, sizes[unit], tiles, functions)
    for unit, size in enumerate(sizes):
        texts[unit] += f"__device__ void set{unit}() {{ for (int i = 0; i < {size}; ++i) static{unit}[i] = i * {unit + 2}; }}\n"
    main = '#include "common.h"\n' + "".join(f"extern __device__ void set{unit}();\n" for unit in range(units))
    main += "__device__ void set_all() {\n  for (int i = 0; i < 16; ++i) dynamic[i] = i;\n"
    main += "".join(f"  for (int i = 0; i < {32 * n}; ++i) tile<{n}>()[i] = i + {n};\n" for n in range(1, tiles + 1))
    main += "".join(f"  set{unit}();\n" for unit in range(units)) + "}\n"
    main += "".join(f"void launch{number}(int *);\n" for number in range(kernels)) + "int main() {\n  int *out;\n  cudaMallocManaged(&out, 64);\n"
    for number in range(kernels):
        main += f'  *out = -1, launch{number}(out), std::printf("k{number} %s", cudaGetErrorName(cudaDeviceSynchronize())), std::printf(" %d\\n", *out);\n'
    files = {f"u{unit}": text for unit, text in enumerate(texts)}
    return {"main": main + "}\n", **files}, COMMON.replace("COUNT", str(functions))


def program(options, number):
    """Links one program in each way."""
    choice = generated.choice_of(options, number)
    folder, target = generated.folders(options, number)
    files, common = sources(choice)
    (folder / "common.h").write_text(common)
    compile = generated.compiler(options, choice.choice(["-O1", "-O2", "-O3"]))
    for name, text in files.items():
        (folder / f"{name}.cu").write_text(text)
        generated.run([*compile, f"{name}.cu", "-o", f"{name}.o"], folder)
    objects = [f"{name}.o" for name in files]
    for way, ours in WAYS.items():
        cache = [f"--offload-cache={folder / 'cache'}"] if way == "cached" else []
        words = [word for option in [*ours, *cache] for word in ("-Xlinker", option)]
        generated.run([*generated.linker(options, objects), *words, "-o", target / way], folder)
    line = [options.clang, "--offload-link", f"--cuda-path={options.cuda}", "-Wno-unknown-cuda-version", *objects]
    generated.run([*line, f"{options.cuda}/lib/libcudart.so.13", "-ldl", "-lpthread", "-s", "-o", target / "peer"], folder)


ONE = r"""one() {
  name=$(basename "$1")
  for loading in LAZY EAGER; do
    for which in off cut cached peer; do
      out="$2/$name.$which.$loading"
      CUDA_MODULE_LOADING=$loading timeout 120 "$1/$which" > "$out" 2>&1; echo "exit $?" >> "$out"
      cmp -s "$2/$name.off.$loading" "$out" || echo "DIFFERENT $1 $which $loading"
    done
  done
  grep -q "exit [^0]\|cudaError" "$2/$name".off.* && echo "FAILED $1"
}
"""


def main():
    options = generated.arguments(__doc__, count=20).parse_args()
    comment = "Runs each program as linked in each way, with lazy and eager loading, and compares the results."
    made = generated.generate(options, lambda number: program(options, number), generated.script(comment, ONE, "^k", "kernels"))
    print(f"{len(made)} programs")


main()
