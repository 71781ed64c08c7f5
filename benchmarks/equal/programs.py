#!/usr/bin/env python3
"""Generates programs with kernels that differ in their names only, links each with every value of --offload-icf=, and writes a script that
runs all on a machine with a GPU: the results have to be the same.

    programs.py --dist DIST --cuda CUDA --out FOLDER [--count 100] [--seed 1] [--values off,safe,all]

A program has one to four units. Each has families of kernels whose instances are equal: with shared, constant and global variables, launch bounds,
calls, tables and arguments by value, divisions that become functions, and recursion. They are launched directly, cooperatively and in graphs, and the
program prints their results, attributes and occupancy. Lines that begin with "own" tell kernels apart: their names, and what
cudaFuncSetAttribute changes. run.sh prints a line for each program with a difference.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generated

COMMON = r"""
#pragma once
#include <cuda_runtime.h>
#include <cstdio>
struct Pair { int a; double b; };
using Kernel = void (*)(int *, Pair, int);
void check(const char *name, int tag, Kernel kernel);
extern __device__ int counted;
"""

MAIN = r"""
#include "common.h"
__device__ int counted;
static int *memory() { static int *p = [] { int *q = nullptr; cudaMallocManaged(&q, 4096); return q; }(); return p; }
static void print(const char *what, const char *name, int tag, cudaError_t error, int threads) {
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = cudaGetLastError();
  unsigned sum = 0;
  for (int i = 0; i < 128; ++i) sum = sum * 31 + memory()[i];
  std::printf("%s %s<%d> %s %u %d\n", what, name, tag, cudaGetErrorName(error), sum, threads);
  cudaGetLastError();
}
static int *filled() { for (int i = 0; i < 1024; ++i) memory()[i] = i * 7 + 3; return memory(); }
void check(const char *name, int tag, Kernel kernel) {
  int *p = filled(); Pair pair = {tag + 2, 1.5 * tag + 3}; int n = 64;
  void *arguments[] = {&p, &pair, &n};
  kernel<<<1, 64>>>(p, pair, n);
  print("direct", name, tag, cudaSuccess, 64);
  filled();
  print("cooperative", name, tag, cudaLaunchCooperativeKernel((const void *)kernel, dim3(1), dim3(64), arguments, 0, nullptr), 64);
  filled();
  cudaGraph_t graph; cudaGraphExec_t exec; cudaGraphNode_t node;
  cudaKernelNodeParams parameters = {};
  parameters.func = (void *)kernel; parameters.gridDim = dim3(1); parameters.blockDim = dim3(32); parameters.kernelParams = arguments;
  cudaError_t error = cudaGraphCreate(&graph, 0);
  if (error == cudaSuccess) error = cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  if (error == cudaSuccess) error = cudaGraphLaunch(exec, nullptr);
  print("graph", name, tag, error, 32);
  cudaFuncAttributes a = {};
  error = cudaFuncGetAttributes(&a, (const void *)kernel);
  std::printf("attributes %s<%d> %s %d %zu %zu %zu %d %d %d\n", name, tag, cudaGetErrorName(error), a.numRegs, a.sharedSizeBytes, a.constSizeBytes,
              a.localSizeBytes, a.maxThreadsPerBlock, a.binaryVersion, a.ptxVersion);
  int blocks = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)kernel, 64, 0);
  std::printf("occupancy %s<%d> %s %d\n", name, tag, cudaGetErrorName(error), blocks);
  const char *own = nullptr;
  error = cudaFuncGetName(&own, (const void *)kernel);
  std::printf("own name %s<%d> %s %s\n", name, tag, cudaGetErrorName(error), own ? own : "");
  cudaFuncGetAttributes(&a, (const void *)kernel);
  std::printf("own before %s<%d> %d\n", name, tag, a.maxDynamicSharedSizeBytes);
  if (tag % 2 == 0) {
    error = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000 + 1024 * tag);
    cudaFuncGetAttributes(&a, (const void *)kernel);
    std::printf("own after %s<%d> %s %d\n", name, tag, cudaGetErrorName(error), a.maxDynamicSharedSizeBytes);
  }
}
CALLS
int main() {
  UNITS
  int total = -1;
  cudaMemcpyFromSymbol(&total, counted, sizeof(int));
  std::printf("counted %d %s\n", total, cudaGetErrorName(cudaGetLastError()));
}
"""

# Families: the code of a kernel, whose instances are equal unless they say TAG.
FAMILIES = {
    "plain": "{ int i = threadIdx.x; if (i < n) p[i] = p[i] * s.a + NUMBER; }",
    "tile": "{ __shared__ int tile[64]; int i = threadIdx.x; tile[i % 64] = p[i] + NUMBER; __syncthreads(); p[i] = tile[(i + 1) % 32] - s.a; }",
    "table": "{ p[threadIdx.x] += U_limits[(threadIdx.x + NUMBER) % 16] + s.a; }",
    "count": "{ p[threadIdx.x] += NUMBER; if (threadIdx.x % 3 == 0) atomicAdd(&counted, s.a); }",
    "bounded": "{ p[threadIdx.x] ^= U_helper<T>(p[(threadIdx.x + 5) % 64]) + NUMBER; }",
    "divide": "{ double d = p[threadIdx.x] / s.b; p[threadIdx.x] = (int)(d * 16) + (int)(((long long)p[threadIdx.x] << 30) / (s.a + NUMBER + 1)); }",
    "text": "{ const char *t = \"equal kernels NUMBER\"; p[threadIdx.x] = t[threadIdx.x % 14] * s.a; }",
    "wave": "{ p[threadIdx.x] = (int)(1000 * sinf(p[threadIdx.x] * 1000.f + NUMBER)) + s.a; }",
    "calls": "{ p[threadIdx.x] = U_functions[(p[threadIdx.x] + NUMBER) & 1](p[threadIdx.x]) + s.a; }",
    "recursion": "{ p[threadIdx.x] = U_depth<T>(p[threadIdx.x] % 7 + NUMBER % 3) + s.a; }",
    "different": "{ p[threadIdx.x] += T::number + NUMBER; }",
    "own_variable": "{ static __device__ int calls; p[threadIdx.x] += NUMBER; if (threadIdx.x == 0) atomicAdd(&calls, 1); p[64] = calls > 0; }",
    "switch": "{ switch (p[threadIdx.x] % 6) { case 0: p[threadIdx.x] = s.a; break; case 1: p[threadIdx.x] *= 3; break; case 2: p[threadIdx.x] -= n; break;"
              " case 3: p[threadIdx.x] = (int)s.b; break; case 4: p[threadIdx.x] ^= NUMBER; break; default: p[threadIdx.x] = 1; } }",
}
ATTRIBUTES = {"bounded": "__launch_bounds__(64, 4) "}


def unit(number, families, tags):
    """The source of a unit."""
    lines = ['#include "common.h"', f"__constant__ int U_limits[16] = {{{', '.join(str(number + i * i) for i in range(16))}}};",
             "template <int N> struct U_Tag { static const int number = N; };",
             "template <class T> __device__ __noinline__ int U_helper(int n) { return n * n + 3; }",
             "template <class T> __device__ __noinline__ int U_depth(int n) { return n <= 0 ? 1 : n * U_depth<T>(n - 1) + 1; }",
             "static __device__ int U_twice(int n) { return 2 * n; }\nstatic __device__ int U_thrice(int n) { return 3 * n; }",
             "__device__ int (*U_functions[2])(int) = {U_twice, U_thrice};"]
    for family in families:
        body = FAMILIES[family].replace("NUMBER", str(number * 10 + len(family)))
        lines.append(f"template <class T> __global__ void {ATTRIBUTES.get(family, '')}U_{family}(int *p, Pair s, int n) {body}")
    lines.append("void U_all() {")
    for family in families:
        for tag in tags:
            lines.append(f'  check("U_{family}", {tag}, U_{family}<U_Tag<{tag}>>);')
    lines.append("}")
    return "\n".join(lines).replace("U_", f"u{number}_") + "\n"


def program(options, number):
    """Links one program with each value; returns the number of folded kernels of the last."""
    choice = generated.choice_of(options, number)
    folder, target = generated.folders(options, number)
    units = range(choice.randint(1, 4))
    (folder / "common.h").write_text(COMMON)
    calls = "".join(f"void u{n}_all();\n" for n in units)
    (folder / "main.cu").write_text(MAIN.replace("CALLS", calls).replace("UNITS", " ".join(f"u{n}_all();" for n in units)))
    compile = generated.compiler(options, choice.choice(["-O1", "-O2", "-O3"]))
    objects = ["main.o"]
    generated.run([*compile, "main.cu", "-o", "main.o"], folder)
    for n in units:
        families = choice.sample(sorted(FAMILIES), choice.randint(2, 7))
        (folder / f"u{n}.cu").write_text(unit(n, families, range(choice.randint(2, 4))))
        generated.run([*compile, f"u{n}.cu", "-o", f"u{n}.o"], folder)
        objects.append(f"u{n}.o")
    more = choice.choice([[], ["--offload-partition-size=1"], ["--offload-partition-size=500"], ["--offload-ptx=sm_90"]])
    command = generated.linker(options, objects)
    found = 0
    for value in options.values.split(","):
        words = [word for option in [*more, f"--offload-icf={value}", "--offload-stats=json"] for word in ("-Xlinker", option)]
        stats = json.loads(generated.run([*command, *words, "-o", target / value], folder).strip().splitlines()[-1])
        found = stats["folded_kernels"]
    return found


ONE = r"""one() {
  name=$(basename "$1")
  for loading in LAZY EAGER; do
    for which in off safe all; do
      [ -x "$1/$which" ] || continue
      out="$2/$name.$which.$loading"
      CUDA_MODULE_LOADING=$loading timeout 120 "$1/$which" > "$out" 2>&1; echo "exit $?" >> "$out"
    done
    cmp -s "$2/$name.off.$loading" "$2/$name.safe.$loading" || { echo "DIFFERENT $1 safe $loading"; diff "$2/$name.off.$loading" "$2/$name.safe.$loading" | head -4; }
    if [ -x "$1/all" ]; then
      diff <(grep -v ^own "$2/$name.off.$loading") <(grep -v ^own "$2/$name.all.$loading") > "$2/$name.diff" || { echo "DIFFERENT $1 all $loading"; head -4 "$2/$name.diff"; }
    fi
  done
  grep -q "exit [^0]\|cudaError" "$2/$name".off.* && echo "FAILED $1"
}
"""


def main():
    parser = generated.arguments(__doc__, count=100)
    parser.add_argument("--values", default="off,safe,all", help="of --offload-icf=, the first of them off")
    options = parser.parse_args()
    script = generated.script("Runs each program as linked with each value of --offload-icf=, with lazy and eager loading, and compares the results.",
                              ONE, "^direct", "kernels in each program of a kind")
    found = generated.generate(options, lambda number: program(options, number), script)
    print(f"{len(found)} programs, {sum(one > 0 for one in found)} of them with equal kernels; {sum(found)} kernels are folded")


main()
