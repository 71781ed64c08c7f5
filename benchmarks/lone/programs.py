#!/usr/bin/env python3
"""Programs of one unit whose kernels call functions with many registers, stack, recursion, shared memory, barriers and function pointers.

    python3 benchmarks/lone/programs.py --dist dist --cuda "$CUDA_PATH" --out OUT     # links, compares registers and stacks
    OUT/run.sh                                                                        # on a machine with a GPU of sm_90

nvcc's object is linked by nvcc and by fatlink, clang's object with machine code by LLVM's tool and by fatlink. Registers, stack, barriers and
shared memory of each kernel have to be those of the other linker of the same object, and the results of all programs have to be equal.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import generated

# Each takes (n, depth), and calls NEXT, a function of a lower number, if there is one.
BODIES = {
    "registers": """  int v[24], s = n;
  for (int i = 0; i < 24; ++i) v[i] = n * (i + 3) ^ depth;
  for (int k = 0; k < (n & 7); ++k)
    for (int i = 0; i < 24; ++i) s += v[i] = v[i] * v[(i + 5) % 24] + s;
  return s + NEXT;""",
    "stack": """  int a[SIZE], s = 0;
  for (int i = 0; i < SIZE; ++i) a[i] = n * i + depth;
  for (int i = 0; i < (n & 31) + 1; ++i) s += a[(s + i * 7) & (SIZE - 1)];
  return s ^ NEXT;""",
    "recursion": """  if (depth <= 0) return NEXT;
  int a[8];
  for (int i = 0; i < 8; ++i) a[i] = n + i * depth;
  return a[n & 7] + NAME(n * 3 + 1, depth - 1);""",
    "shared": """  __shared__ int table[SIZE];
  __syncthreads();
  table[threadIdx.x & (SIZE - 1)] = n;
  __syncthreads();
  int s = table[(threadIdx.x * 5 + 1) & (SIZE - 1)] & 15;
  __syncthreads();
  return s * 0 + n + NEXT;""",
    "barrier": """  int s = __syncthreads_count(n & 1);
  return s + NEXT;""",
    "pointer": """  int (*f)(int, int) = n & 1 ? POINTER_A : POINTER_B;
  return f(n, depth - 1) - NEXT;""",
    "plain": "  return n * 2654435761u + NEXT;",
}

UNIT = r"""#include <cstdio>
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __noinline__
#endif
%(functions)s
%(kernels)s
template <class K> void run(const char *name, K kernel) {
  static int *results, host[128];
  if (!results) cudaMalloc(&results, sizeof host);
  cudaMemset(results, 0, sizeof host);
  kernel<<<2, 64>>>(results, %(seed)d);
  cudaError_t launched = cudaGetLastError(), ended = cudaDeviceSynchronize();
  cudaMemcpy(host, results, sizeof host, cudaMemcpyDeviceToHost);
  unsigned sum = 0;
  for (int value : host) sum = sum * 31 + value;
  printf("%%s %%u %%s %%s\n", name, sum, cudaGetErrorName(launched), cudaGetErrorName(ended));
}
int main() {
  cudaDeviceSetLimit(cudaLimitStackSize, 32768);
%(launches)s
}
"""


def function(choice, number):
    """A function that calls others of lower numbers."""
    kinds = [kind for kind in BODIES if kind != "pointer" or number > 1]
    kind = choice.choice(kinds)
    lower = choice.randrange(number) if number else None
    following = f"f{lower}(n + {choice.randrange(9)}, depth)" if lower is not None and choice.random() < 0.8 else "depth"
    body = BODIES[kind].replace("NEXT", following).replace("NAME", f"f{number}").replace("SIZE", str(choice.choice([16, 64, 256])))
    if kind == "pointer":
        for place in "AB":
            body = body.replace(f"POINTER_{place}", f"f{choice.randrange(number)}")
    return f"__device__ NOINLINE int f{number}(int n, int depth) {{\n{body}\n}}"


def source(choice, seed):
    functions = [function(choice, number) for number in range(choice.randint(1, 9))]
    names = [f"k{number}" for number in range(choice.randint(1, 3))]
    call = lambda: f"f{choice.randrange(len(functions))}(n + (int)threadIdx.x % 2 * 0 + {choice.randrange(5)}, {choice.randint(1, 4)})"
    kernels = [f"__global__ void {name}(int *p, int n) {{ p[blockIdx.x * 64 + threadIdx.x] = {call()} + {call()}; }}" for name in names]
    launches = "\n".join(f'  run("{name}", {name});' for name in names)
    parts = {"functions": "\n".join(functions), "kernels": "\n".join(kernels), "launches": launches, "seed": seed}
    return UNIT % parts


def resources(options, program):
    """What each kernel of a program's images takes. Units of nvcc that stay in the program for the driver do not count."""
    def output(command):
        said = subprocess.run([f"{options.dist}/bin/offload-bundle", command, program, "--json"], check=True, capture_output=True)
        return json.loads(said.stdout)

    linked = {number for number, row in enumerate(output("list"), 1) if row["section"] == ".nv_fatbin"}
    functions = [one for cubin in output("resources") if cubin["index"] in linked for one in cubin["functions"]]
    keys = ("registers", "stack", "shared", "barriers")
    return {one["name"]: [one[key] for key in keys] for one in functions if one["kernel"]}


def program(options, number):
    choice = generated.choice_of(options, number)
    folder, target = generated.folders(options, number)
    (folder / "unit.cu").write_text(source(choice, number))
    libraries = [f"{options.cuda}/lib/libcudart.so.13", "-ldl", "-lpthread"]
    nvcc, fatlink = f"{options.cuda}/bin/nvcc", f"{options.dist}/bin/fatlink"
    generated.run([nvcc, "-dc", "-arch=sm_90", "unit.cu", "-o", "nvcc.o"], folder)
    generated.run([nvcc, "-dlink", "-arch=sm_90", "nvcc.o", "-o", "dlink.o"], folder)
    generated.run(["g++", "nvcc.o", "dlink.o", *libraries, "-o", target / "nvcc"], folder)
    way = choice.choice(["-B", "dlink", "-r"])
    if way == "-B":
        generated.run(["g++", "-B", f"{options.dist}/bin", "nvcc.o", *libraries, "-o", target / "fatlink"], folder)
    else:
        relocatable = ["-r"] if way == "-r" else []
        generated.run([fatlink, "--dlink", *relocatable, f"--cuda-path={options.cuda}", "nvcc.o", "-o", "ours.o"], folder)
        objects = ["nvcc.o", "ours.o"]
        if relocatable:
            generated.run(["ld", "-r", "ours.o", "nvcc.o", "-o", "whole.o"], folder)
            objects = ["-B", f"{options.dist}/bin", "whole.o"]
        generated.run(["g++", *objects, *libraries, "-o", target / "fatlink"], folder)
    compiler = [word for word in generated.compiler(options, "-O2") if word != "-foffload-lto"]
    generated.run([*compiler, "unit.cu", "-o", "clang.o"], folder)
    line = ["clang.o", *libraries, f"--cuda-path={options.cuda}"]
    generated.run([options.clang, "--offload-link", *line, "-o", target / "peer"], folder)
    generated.run([options.clang, "-B", f"{options.dist}/bin", "--offload-link", *line, "-o", target / "clang"], folder)
    differs = [f"{number}: {one} and {other} ({way}) differ"
               for one, other in (("nvcc", "fatlink"), ("peer", "clang"))
               if resources(options, target / one) != resources(options, target / other)]
    for linked in target.iterdir():
        generated.run(["strip", linked], folder)
    return differs


ONE = r"""one() {
  local name=$(basename "$1") loading which
  [ -e "$2/$name.done" ] && return
  for loading in LAZY EAGER; do
    for which in nvcc fatlink peer clang; do
      CUDA_MODULE_LOADING=$loading timeout 60 "$1/$which" > "$2/$name.$which.$loading" 2>&1
      echo "exit $?" >> "$2/$name.$which.$loading"
      cmp -s "$2/$name.nvcc.LAZY" "$2/$name.$which.$loading" || echo "DIFFERENT $1 $which $loading"
    done
  done
  grep -q "exit [^0]\|cudaErr" "$2/$name".nvcc.* && echo "FAILED $1"
  touch "$2/$name.done"
}
"""


def main():
    options = generated.arguments(__doc__, count=100).parse_args()
    options.dist, options.cuda = Path(options.dist).absolute(), Path(options.cuda).absolute()
    script = generated.script("Runs programs of one unit as nvcc, LLVM's tool and fatlink link them, and compares the results.", ONE,
                              "cudaSuccess cudaSuccess", "kernels without an error", "nvcc")
    differs = [line for lines in generated.generate(options, lambda number: program(options, number), script) for line in lines]
    print("\n".join([*differs, f"{options.count} programs, {len(differs)} pairs differ"]))
    sys.exit(bool(differs))


main()
