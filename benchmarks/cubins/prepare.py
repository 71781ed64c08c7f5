#!/usr/bin/env python3
"""Writes a folder in which a machine with a GPU compares cubins linked by fatlink with nvlink's: see README.md beside this."""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ALL = "shared pointers recursion system weak"
# What generated programs have: whether they are run, the features, and how many of them are wanted of 100.
MIXES = [
    ("run", "shared pointers system runs", 30),
    ("run", "shared pointers system weak runs", 30),
    ("load", ALL, 20),
    ("load", ALL.replace(" weak", ""), 20),
]
EQUAL, UNSUPPORTED = 0, 3

RUN_SH = r"""#!/bin/bash
# Resumable: pairs with a result are not done again. LAZY and EAGER, then whole programs, then compute-sanitizer.
cd "$(dirname "$0")" || exit 1
gcc -O1 -w -I"${CUDA_PATH:-/usr/local/cuda}/include" load.c -o load -ldl || exit 1
for mode in LAZY EAGER; do
  touch results.$mode
  for attempt in $(seq 200); do
    CUDA_MODULE_LOADING=$mode ./load pairs.txt results.$mode >/dev/null 2>load.$mode.err
    status=$?
    [ $status = 0 ] && break
    [ $status = 2 ] && { cat load.$mode.err; exit 1; }
  done
  echo "$mode: $(grep -c '^equal' results.$mode) of $(wc -l < pairs.txt) equal," \
    "$(grep '^equal' results.$mode | grep launches | grep -o '[0-9]* launches' | awk '{n += $1} END {print n + 0}') launches," \
    "$(grep -c '^FAIL' results.$mode) FAIL, $(grep -c '^skip' results.$mode) skipped"
  grep '^FAIL\|^skip' results.$mode | head -${SHOWN:-20}
  for program in programs/*.ours programs/*.nvlinks; do
    timeout 60 env CUDA_MODULE_LOADING=$mode $program > $program.$mode.txt 2>&1; status=$?
    echo "$mode $(basename $program): status $status, $(grep -c PASS $program.$mode.txt) PASS"
  done
done
if [ -n "$SANITIZER" ]; then
  for program in programs/*.ours; do
    timeout 120 $SANITIZER --error-exitcode 9 $program > $program.sanitizer.txt 2>&1
    echo "compute-sanitizer $(basename $program): status $?, $(grep -c 'ERROR SUMMARY: 0 errors' $program.sanitizer.txt) without errors"
  done
fi
"""


class Maker:
    def __init__(self, given):
        self.given, self.out = given, Path(given.out)
        self.work = Path(given.work)
        self.bin = Path(given.cuda) / "bin"

    def tool(self, *words, **more):
        """Exit status; all output is kept for a failure."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
        return done.returncode, done.stdout + done.stderr

    def must(self, *words, **more):
        status, text = self.tool(*words, **more)
        if status:
            raise SystemExit(f"{' '.join(map(str, words))}: {text}")

    def pair(self, name, cubins):
        """Both links of the cubins. Returns the exit status of the comparison."""
        folder = self.out / "pairs" / name
        folder.mkdir(parents=True, exist_ok=True)
        theirs, ours = folder / "nvlink.cubin", folder / "ours.cubin"
        status, text = self.tool(self.bin / "nvlink", "-arch", "sm_90", "-o", theirs, *cubins)
        if status == 0:
            status, text = self.tool(self.given.compare, f"--output={ours}", "sm_90", theirs, *cubins)
        if status not in (EQUAL, UNSUPPORTED):
            print(f"{name}: {text}")
        if not ours.exists() or not theirs.exists():
            shutil.rmtree(folder)
        return status

    def generated(self, mix, features, seed):
        folder = self.work / f"generated{mix}"
        self.must(self.given.generate, folder, "sm_90", seed, 1, *features.split())
        objects = []
        for unit in sorted((folder / str(seed)).glob("*.ptx")):
            objects.append(unit.with_suffix(".o"))
            self.must(self.bin / "ptxas", "-c", "-arch", "sm_90", unit, "-o", objects[-1])
        status = self.pair(f"generated{mix}-{seed}", objects)
        shutil.rmtree(folder / str(seed))
        return status, f"generated{mix}-{seed}"

    def all_generated(self):
        counts = {}
        for mix, (_, features, part) in enumerate(MIXES):
            wanted = self.given.count * part // 100
            with concurrent.futures.ThreadPoolExecutor(self.given.jobs) as pool:
                seed, found = 1, 0
                while found < wanted:
                    seeds = range(seed, seed + max(8, wanted - found))
                    seed = seeds[-1] + 1
                    for status, name in pool.map(lambda s: self.generated(mix, features, s), seeds):
                        counts[status] = counts.get(status, 0) + 1
                        found += (self.out / "pairs" / name).exists()
        print(f"generated programs by status of the comparison (0 equal, 3 unknown): {counts}")

    def corpus(self, name, cubins):
        cubins = sorted(cubins)
        status = self.pair(name, cubins)
        print(f"{name}: {len(cubins)} cubins, status {status}", flush=True)

    def of_nvcc(self, name, objects):
        """The cubins in nvcc's objects."""
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        cubins = []
        for place, item in enumerate(sorted(objects)):
            inside = folder / str(place)
            inside.mkdir(exist_ok=True)
            self.must(self.bin / "cuobjdump", "-xelf", "all", item, cwd=inside)
            cubins.extend(inside.glob("*.cubin"))
        self.corpus(name, cubins)

    def nvcc(self, sources, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            self.must(self.bin / "nvcc", "-std=c++17", "-O2", "-arch=sm_90", "-dc", ROOT / source, cwd=folder)
        return sorted(folder.glob("*.o"))

    def clang(self, sources, folder, *flags):
        folder.mkdir(parents=True, exist_ok=True)
        common = ["-x", "cuda", f"--cuda-path={self.given.cuda}", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-O2", "-c"]
        include = [f"-I{self.given.cuda}/include/cccl", f"-I{ROOT}/samples/cuda", "-std=c++17", "--offload-arch=sm_90"]
        for source in sources:
            self.must(self.given.clang, *common, *include, *flags, ROOT / source, cwd=folder)

    def program(self, name, objects, folder, *flags):
        """A program by each linker, with the CUDA runtime inside, and the pair of its cubins."""
        (self.out / "programs").mkdir(parents=True, exist_ok=True)
        for linker, suffix in (("fatlink", "ours"), ("nvlink", "nvlinks")):
            out = self.out / "programs" / f"{name}.{suffix}"
            temps = folder / f"temps-{suffix}"
            temps.mkdir(exist_ok=True)
            self.must(self.given.clang, "-B", Path(self.given.dist) / "bin", "--offload-link", *objects, "-o", out,
                      f"-Wl,--offload-device-linker={linker}", f"-Wl,--save-temps={temps}", *flags,
                      f"-L{self.given.cuda}/lib", "-lcudart_static", "-ldl", "-lrt", "-lpthread", "-s", cwd=folder,
                      env={**os.environ, "CUDA_PATH": self.given.cuda})
        cubins = [path for path in (folder / "temps-ours").glob("*.cubin") if "linked" not in path.name]
        self.corpus(name, cubins)

    def samples(self):
        plate = [f"samples/cuda/{name}.cu" for name in ("main", "diffuse", "particles", "forces")]
        plate += [f"samples/cuda/fields/{name}.cu" for name in ("screened", "drag", "kick", "magnetic")]
        for name, flags in (("plate", []), ("plate-lto", ["-foffload-lto"])):
            folder = self.work / name
            self.clang(plate, folder, *flags)
            self.must(self.given.clang, "-O2", "-c", ROOT / "samples/cuda/reference.cpp", cwd=folder)
            self.program(name, sorted(folder.glob("*.o")), folder, "-Wl,--offload-partition-size=200")
        self.clang(["samples/two-tu/helper.cu", "samples/two-tu/kernel.cu"], self.work / "two-tu")
        self.program("two-tu", sorted((self.work / "two-tu").glob("*.o")), self.work / "two-tu")
        photo = [f"samples/nvcc/{name}.cu" for name in ("main", "lens", "develop", "solarize")]
        photo += [f"samples/nvcc/film/{name}.cu" for name in ("shoulder", "gamma", "grain", "histogram", "sepia")]
        self.of_nvcc("photo-cubins", self.nvcc(photo, self.work / "photo"))
        mixed = [f"samples/mixed/{name}.cu" for name in ("main", "swing", "forces", "energy", "air/drag")]
        self.of_nvcc("pendulums-cubins", self.nvcc(mixed, self.work / "pendulums"))

    def bench(self):
        if self.given.bench_objects:
            folder = self.work / "large"
            folder.mkdir(parents=True, exist_ok=True)
            self.program("large", sorted(Path(self.given.bench_objects).glob("*.o")), folder)
        if self.given.nvcc_objects:
            self.of_nvcc("nvcc-96", Path(self.given.nvcc_objects).glob("*.o"))

    def write(self):
        kinds = {f"generated{mix}": kind for mix, (kind, _, _) in enumerate(MIXES)}
        names = sorted(folder.name for folder in (self.out / "pairs").iterdir())
        lines = [f"{kinds.get(name.split('-')[0], 'load')} pairs/{name}\n" for name in names]
        (self.out / "pairs.txt").write_text("".join(lines))
        shutil.copy(HERE / "load.c", self.out)
        (self.out / "run.sh").write_text(RUN_SH)
        (self.out / "run.sh").chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("cuda", "dist", "compare", "generate", "out", "work"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--clang", default="/usr/lib/llvm-22/bin/clang++")
    parser.add_argument("--count", type=int, default=600, help="generated programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--bench-objects", help="objects of the corpus large, compiled by clang for device LTO")
    parser.add_argument("--nvcc-objects", help="objects of the same units, compiled by nvcc -dc -arch=sm_90")
    parser.add_argument("--only", choices=["generated", "samples", "bench"], action="append")
    given = parser.parse_args()
    maker = Maker(given)
    maker.out.mkdir(parents=True, exist_ok=True)
    only = given.only or ["generated", "samples", "bench"]
    if "samples" in only:
        maker.samples()
    if "bench" in only:
        maker.bench()
    if "generated" in only:
        maker.all_generated()
    maker.write()


main()
