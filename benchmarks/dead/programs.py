#!/usr/bin/env python3
"""Generates programs that launch some of a library's kernels in many ways, links each with --offload-gc=off and =host, and writes a script
that runs both on a machine with a GPU: the results have to be the same.

    programs.py --dist DIST --cuda CUDA --out FOLDER [--count 300] [--seed 1]

The library has eight units. Each launches kernels directly, from static tables, through weak functions, constructors, destructors, virtual
functions, exception handlers and sections that are walked, cooperatively, in CUDA graphs, and as callbacks of a shared library or by dlsym.
A program uses a random choice of all this, and its objects and options vary. run.sh prints a line for each program with a difference.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generated

UNITS = 8

HEADER = r"""
#pragma once
#include <cuda_runtime.h>
#include <cstdio>
template <int N> __global__ void instance(int *p) { p[threadIdx.x] += N * 3 + threadIdx.x; }
int launched(void (*kernel)(int *), int start);
int launched_cooperatively(void (*kernel)(int *), int start);
int launched_in_graph(void (*kernel)(int *), int start);
struct Job { const char *name; int (*run)(int); Job *next; };
extern Job *jobs;
"""

COMMON = r"""
#include "shared.h"
Job *jobs;
namespace {
int *memory() { static int *p = [] { int *q = nullptr; cudaMallocManaged(&q, 256); return q; }(); return p; }
int result(cudaError_t error) {
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error != cudaSuccess) { std::printf("error %s\n", cudaGetErrorName(error)); cudaGetLastError(); return -1; }
  return memory()[0] + memory()[1];
}
}
int launched(void (*kernel)(int *), int start) {
  int *p = memory(); p[0] = start; p[1] = start;
  void *arguments[] = {&p};
  return result(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(2), arguments, 0, nullptr));
}
int launched_cooperatively(void (*kernel)(int *), int start) {
  int *p = memory(); p[0] = start; p[1] = start;
  void *arguments[] = {&p};
  return result(cudaLaunchCooperativeKernel((const void *)kernel, dim3(1), dim3(2), arguments, 0, nullptr));
}
int launched_in_graph(void (*kernel)(int *), int start) {
  int *p = memory(); p[0] = start; p[1] = start;
  void *arguments[] = {&p};
  cudaGraph_t graph; cudaGraphExec_t exec; cudaGraphNode_t node;
  cudaKernelNodeParams parameters = {};
  parameters.func = (void *)kernel; parameters.gridDim = dim3(1); parameters.blockDim = dim3(2); parameters.kernelParams = arguments;
  cudaError_t error = cudaGraphCreate(&graph, 0);
  if (error == cudaSuccess) error = cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  if (error == cudaSuccess) error = cudaGraphLaunch(exec, nullptr);
  return result(error);
}
"""

# What a unit offers: the way, the code, and the expression that uses it; None for what runs by itself.
WAYS = {
    "direct": ("int U_direct(int n) { return launched(U_k0, n); }", "U_direct(n)"),
    "syntax": ("int U_syntax(int n) { int *p; cudaMallocManaged(&p, 8); p[0] = n; U_k1<<<1, 1>>>(p); cudaDeviceSynchronize(); int r = p[0]; "
               "cudaFree(p); return r + (int)cudaGetLastError() * 1000; }", "U_syntax(n)"),
    "local": ("int U_local(int n) { return launched(U_static, n); }", "U_local(n)"),
    "template": ("int U_template(int n) { return launched(instance<NUMBER>, n) + launched(instance<0>, n); }", "U_template(n)"),
    "table": ("static void (*const U_kernels[])(int *) = {U_k2, U_k3};\nint U_table(int n) { return launched(U_kernels[n & 1], n); }",
              "U_table(n)"),
    "functions": ("static int U_f0(int n) { return launched(U_k4, n); }\nint (*U_functions[])(int) = {U_f0};", "U_functions[0](n)"),
    "weak": ("__attribute__((weak)) int hook_NEXT(int n) { return launched(U_k5, n); }\nint hook_NUMBER(int n) { return launched(U_k6, n) + 7; }",
             "hook_NUMBER(n) + hook_NEXT(n)"),
    "virtual": ("struct U_Shape { virtual int run(int n) { return launched(U_k7, n); } virtual ~U_Shape() {} };\n"
                "U_Shape *U_make() { return new U_Shape; }\nint U_virtual(int n) { U_Shape *s = U_make(); int r = s->run(n); delete s; return r; }",
                "U_virtual(n)"),
    "handler": ("int U_handler(int n) { try { if (n >= 0) throw n; } catch (int m) { return launched(U_k8, m); } return 0; }", "U_handler(n)"),
    "cooperative": ("int U_cooperative(int n) { return launched_cooperatively(U_k9, n); }", "U_cooperative(n)"),
    "graph": ("int U_graph(int n) { return launched_in_graph(U_k10, n); }", "U_graph(n)"),
    "attributes": ("int U_attributes(int n) { cudaFuncAttributes a; return (int)cudaFuncGetAttributes(&a, (const void *)U_k11) * 1000 + n; }",
                   "U_attributes(n)"),
    "section": ("static int U_walked(int n) { return launched(U_k12, n); }\n"
                "__attribute__((section(\"walked\"), used)) static int (*U_in_section)(int) = U_walked;", "walk(n)"),
    "callback": ("extern \"C\" int callback_NUMBER(int n) { return launched(U_k13, n); }", "from_library_NUMBER(n)"),
    "symbol": ("extern \"C\" int by_name_NUMBER(int n) { return launched(U_k14, n); }", "by_name(\"by_name_NUMBER\", n)"),
    "device": ("int U_device(int n) { return launched(U_k15, n); }", "U_device(n)"),
}
KERNELS = 16


def unit(number):
    """The source of a unit."""
    name = f"u{number}"
    kernels = [f"__device__ int U_variable = {number};", "static __device__ int U_helper(int n) { return n * 2 + U_variable; }"]
    for k in range(KERNELS):
        body = f"p[threadIdx.x] = U_helper(p[threadIdx.x]) + {number * 100 + k};"
        kernels.append(f"__global__ void U_k{k}(int *p) {{ {body} }}")
    kernels.append(f"static __global__ void U_static(int *p) {{ p[threadIdx.x] += {number}; }}")
    ways = [code for code, _ in WAYS.values()]
    # These run by themselves in every program that takes the unit.
    ways.append("static int U_job(int n) { return launched(U_own0, n); }\nstatic Job U_entry = {\"U\", U_job, nullptr};\n"
                "static struct U_Starter { U_Starter() { U_entry.next = jobs; jobs = &U_entry; } } U_starter;" if number % 3 == 0 else "")
    kernels.append(f"__global__ void U_own0(int *p) {{ p[threadIdx.x] = {number} - p[threadIdx.x]; }}")
    text = '#include "shared.h"\n' + "\n".join(kernels + ways) + "\n"
    return text.replace("NEXT", str((number + 1) % UNITS)).replace("NUMBER", str(number)).replace("U_", name + "_").replace('"U"', f'"{name}"')


def library(numbers):
    """The source of a shared library that calls back into the program."""
    lines = []
    for number in numbers:
        lines.append(f'extern "C" int callback_{number}(int);')
        lines.append(f'extern "C" int from_library_{number}(int n) {{ return callback_{number}(n) + 1; }}')
    return "\n".join(lines) + "\n"


def main_source(uses):
    """The source of a program; `uses` are pairs of units and ways."""
    names = sorted({(number, way) for number, way in uses})
    lines = ["#include <cstdio>", "#include <dlfcn.h>", "struct Job { const char *name; int (*run)(int); Job *next; };", "extern Job *jobs;",
             "int by_name(const char *s, int n) { int (*f)(int) = (int (*)(int))dlsym(nullptr, s); return f ? f(n) : -77; }"]
    if any(way == "section" for _, way in names):
        lines += ["extern int (*__start_walked[])(int) __attribute__((weak)); extern int (*__stop_walked[])(int) __attribute__((weak));",
                  "int walk(int n) { int r = 0; for (int (**f)(int) = __start_walked; f != __stop_walked; ++f) r += (*f)(n); return r; }"]
    declared = set()
    for number, way in names:
        declared.add({
            "functions": f"extern int (*u{number}_functions[])(int);",
            "weak": f"int hook_{number}(int); int hook_{(number + 1) % UNITS}(int);",
            "section": "", "symbol": "",
            "callback": f'extern "C" int from_library_{number}(int);',
        }.get(way, f"int u{number}_{way}(int);"))
    lines += sorted(declared) + ["int main() {", "  int n = 5;"]
    for number, way in names:
        expression = WAYS[way][1].replace("NUMBER", str(number)).replace("NEXT", str((number + 1) % UNITS)).replace("U_", f"u{number}_")
        lines.append(f'  std::printf("{number} {way} %d\\n", {expression}); n += 2;')
    lines += ['  for (Job *job = jobs; job; job = job->next) std::printf("job %s %d\\n", job->name, job->run(n));', "}"]
    return "\n".join(lines) + "\n"


class Generator(generated.Generator):
    def objects(self):
        """Compiles the library, with and without a section for each function."""
        (self.work / "shared.h").write_text(HEADER)
        (self.work / "common.cu").write_text(COMMON)
        for number in range(UNITS):
            (self.work / f"u{number}.cu").write_text(unit(number))
        compile = generated.compiler(self.options, "-O1", "-fPIC")
        jobs = []
        for form, flags in (("one", []), ("many", ["-ffunction-sections", "-fdata-sections"])):
            for name in ["common"] + [f"u{number}" for number in range(UNITS)]:
                jobs.append(compile + flags + [f"{name}.cu", "-o", f"{name}.{form}.o"])
        self.compile_all(jobs)

    def program(self, number):
        """Links one program twice; returns how many of its kernels are dead."""
        choice = generated.choice_of(self.options, number)
        units = sorted(choice.sample(range(UNITS), choice.randint(2, UNITS)))
        ways = choice.sample(sorted(WAYS), choice.randint(1, 7))
        uses = [(choice.choice(units), way) for way in ways for _ in range(choice.randint(1, 2))]
        folder, target = generated.folders(self.options, number)
        form = choice.choice(["one", "many", "many", "many"])
        # Weak functions of one unit are overridden by the next.
        needed = {n for n, _ in uses} | {(n + 1) % UNITS for n, way in uses if way == "weak"}
        linked = sorted(set(units) | needed)
        (folder / "main.cpp").write_text(main_source(uses))
        generated.run([self.options.clang, "-c", "-O1", "-fPIC", *choice.choice([[], ["-ffunction-sections"]]), "main.cpp", "-o", "main.o"], folder)
        files = [f"../u{n}.{form}.o" for n in linked]
        in_archive = choice.random() < 0.4
        if in_archive:
            archive = folder / "libunits.a"
            archive.unlink(missing_ok=True)
            generated.run([self.options.ar, "rcs", "libunits.a", *files], folder)
            files = ["libunits.a"]
        line = ["main.o", f"../common.{form}.o", *files]
        callbacks = sorted({n for n, way in uses if way == "callback"})
        if callbacks:
            (folder / "callbacks.cpp").write_text(library(callbacks))
            shared = ["-shared", "-fPIC", "-Wl,-soname,libcallbacks.so", "callbacks.cpp", "-o", target / "libcallbacks.so"]
            generated.run([self.options.clang, *shared], folder)
            # The archive's members that only the library uses come behind it.
            line = ["main.o", f"../common.{form}.o", target / "libcallbacks.so", *files]
        flags = []
        if any(way == "symbol" for _, way in uses):
            (folder / "exported").write_text("{ by_name_*; };\n")
            (folder / "script").write_text("{ global: by_name_*; callback_*; local: *; };\n")
            flags.append(choice.choice(["-rdynamic", "-Wl,--export-dynamic-symbol=by_name_*", "-Wl,--dynamic-list=exported",
                                        "-Wl,-E,--version-script=script"]))
            flags += [f"-Wl,-u,by_name_{n}" for n, way in uses if way == "symbol"]
        flags += choice.choice([[], ["-no-pie"], ["-Wl,--gc-sections"]])
        flags += choice.choice([[], ["-fuse-ld=lld"]])
        command = generated.linker(self.options, [*line, *flags], "-Wl,-rpath,$ORIGIN")
        generated.run([*command, "-o", target / "off"], folder)
        stats = generated.run([*command, "-Xlinker", "--offload-gc=host", "-Xlinker", "--offload-stats=json", "-o", target / "host"], folder)
        found = json.loads(stats.strip().splitlines()[-1])
        return found["dead_kernels"], found["live_kernels"], form


ONE = r"""one() {
  for loading in LAZY EAGER; do
    for which in off host; do CUDA_MODULE_LOADING=$loading timeout 60 "$1/$which" > "$2/$(basename "$1").$which.$loading" 2>&1; echo "exit $?" >> "$2/$(basename "$1").$which.$loading"; done
    cmp -s "$2/$(basename "$1").off.$loading" "$2/$(basename "$1").host.$loading" || echo "DIFFERENT $1 $loading"
  done
  grep -q "error\|exit [^0]\|-77" "$2/$(basename "$1")".*.* && echo "FAILED $1"
}
"""


def main():
    parser = generated.arguments(__doc__, count=300)
    parser.add_argument("--ar", default="/usr/lib/llvm-22/bin/llvm-ar")
    options = parser.parse_args()
    generator = Generator(options)
    generator.objects()
    script = generated.script("Runs each program with and without its dead kernels, with lazy and eager loading, and compares the results.",
                              ONE, "^[0-9j]", "launches in each of four runs")
    found = generated.generate(options, generator.program, script)
    dead, live = sum(one[0] for one in found), sum(one[1] for one in found)
    some = sum(one[0] > 0 for one in found)
    print(f"{len(found)} programs, {some} of them with dead kernels; {dead} of {dead + live} kernels are dead")


main()
