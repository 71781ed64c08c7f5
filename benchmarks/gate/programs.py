"""Compares the gate with this machine's driver on random programs: what it passes must run, and what it refuses must not.

    python3 benchmarks/gate/programs.py make FOLDER --compiler nvcc|clang [--count 50] [--seed 1] [--dist dist]
    python3 benchmarks/gate/programs.py judge FOLDER [--offload-bundle dist/bin/offload-bundle]

A program has one to four units for random targets: whole, so that each unit has a fatbin of its own and may be for other targets, or
relocatable, so that units call each other's device functions. nvcc's are linked by nvcc, and clang's by fatlink. CUDA is found by CUDA_PATH.
`make` needs no GPU, `judge` no compiler.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import subprocess

import fatbins

TARGETS = ["75", "80", "86", "89", "90", "90a", "100", "120"]

UNIT = """
#include <cuda_runtime.h>
{declared}
{device} int function_{number}(int value) {{ return value * {factor} + {number}; }}
__global__ void kernel_{number}(int *p) {{ *p = function_{called}(threadIdx.x + {factor}); }}
int run_{number}(int *p) {{
  kernel_{number}<<<1, 1>>>(p);
  int result = 0;
  if (cudaGetLastError() || cudaMemcpy(&result, p, sizeof result, cudaMemcpyDeviceToHost)) return 1;
  return result != {factor} * {called_factor} + {called};
}}
"""

MAIN = """
#include <cuda_runtime_api.h>
{declared}
int main() {{
  int *p = nullptr;
  if (cudaMalloc((void **)&p, sizeof *p)) return 77;
  return {calls};
}}
"""


def sources(random_, folder, relocatable):
    """Writes the units of one program, and returns their paths, that of main last."""
    factors = [random_.randint(2, 99) for _ in range(random_.randint(1, 4))]
    paths = []
    for number, factor in enumerate(factors):
        called = random_.randrange(len(factors)) if relocatable else number
        text = UNIT.format(number=number, factor=factor, called=called, called_factor=factors[called],
                           device="__device__" if relocatable else "static __device__",
                           declared=f"__device__ int function_{called}(int);" if relocatable else "")
        paths.append(folder / f"unit_{number}.cu")
        paths[-1].write_text(text)
    names = [f"run_{number}" for number in range(len(factors))]
    main = folder / "main.cpp"
    main.write_text(MAIN.format(declared="".join(f"int {name}(int *);\n" for name in names),
                                calls=" + ".join(f"{name}(p)" for name in names)))
    return [*paths, main]


def targets(random_):
    """What a unit holds machine code for, and the targets of its PTX; not both are empty."""
    while True:
        code = random_.sample(TARGETS, random_.randint(0, 2))
        ptx = random_.sample(TARGETS, random_.randint(0, 1))
        if code or ptx:
            return code, ptx


def nvcc_flags(random_, code, ptx):
    pairs = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in code]
    pairs += [f"-gencode=arch=compute_{name},code=compute_{name}" for name in ptx]
    return [*pairs, *random_.choice([[], ["--compress-mode=none"], ["--compress-mode=speed"], ["--compress-mode=size"]])]


def clang_flags(code, ptx):
    names = sorted({*code, *ptx})
    kept = [f"--cuda-include-ptx=sm_{name}" for name in ptx]
    return [*(f"--offload-arch=sm_{name}" for name in names), "--no-cuda-include-ptx=all", *kept]


def commands(random_, options, folder, units, relocatable):
    """The commands that compile and link one program."""
    cuda = pathlib.Path(os.environ["CUDA_PATH"])
    code, ptx = targets(random_)
    compiles, objects = [], []
    for unit in units:
        if not relocatable:
            code, ptx = targets(random_)
        objects.append(unit.with_suffix(".o"))
        if options.compiler == "nvcc":
            flags = nvcc_flags(random_, code, ptx)
            command = [cuda / "bin/nvcc", f"-rdc={'true' if relocatable else 'false'}", *flags]
        elif unit.suffix == ".cpp":
            command = [options.clang, f"-I{cuda}/include"]
        else:
            mode = ["-fgpu-rdc", "-foffload-lto", *(f"--offload-arch=sm_{name}" for name in sorted({*code, *ptx}))]
            command = [options.clang, "-x", "cuda", f"--cuda-path={cuda}", "-Wno-unknown-cuda-version",
                       *(mode if relocatable else clang_flags(code, ptx))]
        compiles.append([*command, "-c", unit, "-o", objects[-1]])
    libraries = next(path for path in (cuda / "lib64", cuda / "lib") if path.is_dir())
    if options.compiler == "nvcc":
        link = [cuda / "bin/nvcc", *nvcc_flags(random.Random(0), code, ptx), "-cudart=static", *objects, "-o", folder / "program"]
    else:
        policy = [f"--offload-sass={','.join('sm_' + name for name in code) or 'none'}",
                  f"--offload-ptx={','.join('compute_' + name for name in ptx) or 'none'}"]
        device = ["-B", options.dist.resolve() / "bin", "--offload-link", f"--cuda-path={cuda}",
                  *(word for option in policy for word in ("-Xlinker", option))]
        link = [options.clang, *(device if relocatable else []), *objects, f"-L{libraries}", "-lcudart_static", "-ldl", "-lrt",
                "-lpthread", "-Wl,-s", "-o", folder / "program"]
    return [*compiles, link]


def make(options, number):
    """Makes a program; returns why it could not be linked."""
    random_ = random.Random(options.seed * 100003 + number)
    folder = options.folder / f"{options.compiler}-{options.seed}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    relocatable = random_.random() < 0.5
    for command in commands(random_, options, folder, sources(random_, folder, relocatable), relocatable):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{folder}: {done.stderr.strip().splitlines()[-1]}"
    return None


def runs(program, mode, forced):
    """Whether a program ends well; one that hangs does not."""
    try:
        return subprocess.run([program], env=fatbins.environment(mode, forced), timeout=fatbins.LONGEST).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def judge(options):
    """Compares the verdict on each program with what becomes of it."""
    tool = options.offload_bundle.resolve()
    gpu, driver = fatbins.machine(tool, options.folder)
    counts = collections.Counter()
    for program in sorted(options.folder.glob("*/program")):
        for forced in (False, True):
            passes = fatbins.verdict(tool, program, gpu, driver, forced)
            for mode in ("LAZY", "EAGER"):
                right = runs(program, mode, forced)
                counts[forced, mode, "passed" if passes else "refused", "runs" if right else "fails"] += 1
                if passes != right:
                    print(f"{program}: {'passed' if passes else 'refused'}, forced={forced}, {mode}: {'runs' if right else 'fails'}")
    fatbins.print_counts(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "judge"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compiler", choices=["nvcc", "clang"], default="nvcc")
    parser.add_argument("--clang", default="/usr/lib/llvm-22/bin/clang++")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dist", type=pathlib.Path, default=pathlib.Path("dist"))
    parser.add_argument("--offload-bundle", type=pathlib.Path, default=pathlib.Path("dist/bin/offload-bundle"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "judge":
        return judge(options)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [reason for reason in pool.map(lambda number: make(options, number), range(options.count)) if reason]
    print(f"{options.count - len(failures)} programs", *failures, sep="\n")


if __name__ == "__main__":
    main()
