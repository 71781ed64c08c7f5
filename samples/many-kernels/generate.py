#!/usr/bin/env python3
"""Writes a CUDA program of KERNELS kernels over several files into FOLDER: generate.py KERNELS FOLDER

Each kernel is different and a few hundred instructions long, all call a device function of another file, and the program
checks every result against the same computation on the host. For timing device links, and for comparing what links them.
"""

import pathlib
import sys

KERNELS_PER_FILE = 30

SHARED = """#pragma once
#define BOTH __host__ __device__
struct Result { unsigned failed; };
// One step of the kernels' computation; a macro, so that host and device code cannot differ.
#define STEP(x, a, b) (x) = ((x) ^ ((x) >> (b))) * (a) + (x)
extern __device__ unsigned finish(unsigned x, unsigned kernel);
inline unsigned finish_on_host(unsigned x, unsigned kernel) { return (x ^ kernel) * 2654435761u + kernel; }
"""

COMMON = """#include "shared.h"
__device__ unsigned finished;
__device__ unsigned finish(unsigned x, unsigned kernel) {
  if (x == 0)
    atomicAdd(&finished, 1);
  return (x ^ kernel) * 2654435761u + kernel;
}
"""

FILE = """#include "shared.h"
#include <cuda_runtime.h>
#include <vector>
namespace {{
constexpr unsigned count = 1024;
unsigned run(void (*launch)(unsigned *), unsigned (*host)(unsigned), unsigned kernel) {{
  unsigned *device;
  std::vector<unsigned> got(count);
  if (cudaMalloc(&device, count * sizeof(unsigned)) != cudaSuccess) return 1;
  launch(device);
  cudaError_t error = cudaMemcpy(got.data(), device, count * sizeof(unsigned), cudaMemcpyDeviceToHost);
  cudaFree(device);
  if (error != cudaSuccess) return 1;
  for (unsigned i = 0; i < count; ++i)
    if (got[i] != finish_on_host(host(i), kernel)) return 1;
  return 0;
}}
}}
{kernels}
unsigned run_file_{file}() {{
  unsigned failed = 0;
{calls}
  return failed;
}}
"""

KERNEL = """
#define BODY{k}(x) {steps}
__global__ void kernel_{k}(unsigned *out) {{
  __shared__ unsigned turned[256];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = i;
  for (unsigned round = 0; round < 4; ++round) {{ BODY{k}(x); }}
  turned[threadIdx.x] = finish(x, {k}u);
  __syncthreads();
  out[i] = turned[threadIdx.x];
}}
static void launch_{k}(unsigned *out) {{ kernel_{k}<<<count / 256, 256>>>(out); }}
static unsigned host_{k}(unsigned x) {{
  for (unsigned round = 0; round < 4; ++round) {{ BODY{k}(x); }}
  return x;
}}
"""

MAIN = """#include <cstdio>
{declarations}
int main() {{
  unsigned failed = 0;
{calls}
  std::printf("%s: {kernels} kernels, %u failed\\n", failed ? "FAIL" : "PASS", failed);
  return failed != 0;
}}
"""


def kernel(k):
    # Odd factors and shifts that differ from kernel to kernel and from step to step.
    steps = [f"STEP(x, {(2 * (k * 31 + s * 17) + 1) % 65536}u, {1 + (k + 3 * s) % 31})" for s in range(24 + k % 16)]
    return KERNEL.format(k=k, steps="; ".join(steps))


def main():
    kernels, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shared.h").write_text(SHARED)
    (folder / "common.cu").write_text(COMMON)
    files = range((kernels + KERNELS_PER_FILE - 1) // KERNELS_PER_FILE)
    for file in files:
        numbers = range(file * KERNELS_PER_FILE, min(kernels, (file + 1) * KERNELS_PER_FILE))
        calls = "\n".join(f"  failed += run(launch_{k}, host_{k}, {k});" for k in numbers)
        text = FILE.format(kernels="".join(map(kernel, numbers)), file=file, calls=calls)
        (folder / f"kernels_{file}.cu").write_text(text)
    declarations = "\n".join(f"unsigned run_file_{file}();" for file in files)
    calls = "\n".join(f"  failed += run_file_{file}();" for file in files)
    (folder / "main.cpp").write_text(MAIN.format(declarations=declarations, calls=calls, kernels=kernels))


main()
