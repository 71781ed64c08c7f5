#!/usr/bin/env python3
"""Links the same objects many times at each optimization level, and compares the programs byte for byte.

    equal_links.py --dist DIST --out FOLDER [--cuda CUDA] [--links 20] [--kinds cuda,hip,openmp] [--levels 0,1,2,3]

The links of a level differ in their folders, their numbers of jobs and in what their cache holds: none, an empty one, one that an earlier link
has filled. Partitions are small, so that there are several. With a cache a program is cut in another way, so that its programs are compared with
each other. Prints a line for each level, and exits with 1 if two programs differ.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LLVM = Path("/usr/lib/llvm-22")
CLANG = str(LLVM / "bin/clang++")


def sources(kind: str) -> list[Path]:
    """The units of a kind."""
    if kind == "hip":
        return [ROOT / "lit-tests/tests/hip/Inputs" / name for name in ("main.hip", "scale.hip")]
    sample = ROOT / "samples" / kind
    return sorted(path for path in sample.rglob("*") if path.suffix in (".cu", ".cpp"))


def flags(kind: str, unit: Path, cuda: str) -> list[str]:
    """What a unit is compiled with, beside the level."""
    if kind == "openmp":
        return ["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"]
    if kind == "hip":
        return "-x hip --offload-new-driver -fgpu-rdc -nogpuinc -nogpulib --offload-arch=gfx90a".split()
    if unit.suffix == ".cpp":
        return []
    cuda_flags = "-x cuda -Wno-unknown-cuda-version -fgpu-rdc -foffload-lto --offload-arch=sm_90".split()
    return [*cuda_flags, f"--cuda-path={cuda}"]


def libraries(kind: str, cuda: str) -> list[str]:
    """The end of the line that links."""
    if kind == "openmp":
        return flags(kind, Path(), cuda)
    if kind == "hip":
        # Nothing of HIP's runtime is here.
        return ["--offload-link", "-shared"]
    return ["--offload-link", f"--cuda-path={cuda}", f"-L{cuda}/lib", *"-lcudart_static -ldl -lrt -lpthread".split()]


def compiled(kind: str, level: str, cuda: str, folder: Path) -> list[str]:
    """Compiles the units of a kind, and returns the objects."""
    objects = []
    for unit in sources(kind):
        target = folder / f"{unit.stem}.o"
        line = [CLANG, f"-O{level}", "-fPIC", *flags(kind, unit, cuda), "-c", str(unit), "-o", str(target)]
        subprocess.run(line, check=True, capture_output=True)
        objects.append(str(target))
    return objects


def cache_of(number: int, folder: Path) -> list[str]:
    """The options of the cache for a link: a third of the links have none, the others an empty or a full one."""
    if number % 3 == 0:
        return []
    empty = folder / f"cache-{number}"
    return [f"--offload-cache={folder / 'cache-full' if number % 3 == 1 else empty}"]


def link(kind: str, level: str, options: argparse.Namespace, objects: list[str], number: int, folder: Path) -> str:
    """Links once, and returns the hash of the program."""
    own = folder / f"link-{number}"
    own.mkdir()
    ours = [f"--wrapper-jobs={1 + number % 4}", "--offload-partition-size=50", *cache_of(number, folder)]
    line = [CLANG, f"-O{level}", "-B", f"{options.dist}/bin", *objects, *libraries(kind, options.cuda), "-o", "program"]
    line += [word for option in ours for word in ("-Xlinker", option)]
    environment = {**os.environ, "TMPDIR": str(own)}
    environment.pop("FATLINK_CACHE", None)
    subprocess.run(line, check=True, capture_output=True, cwd=own, env=environment)
    return hashlib.sha256((own / "program").read_bytes()).hexdigest()


def compare(kind: str, level: str, options: argparse.Namespace) -> bool:
    """Whether all links of a level give the same program."""
    folder = Path(options.out).resolve() / f"{kind}-O{level}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    objects = compiled(kind, level, options.cuda, folder)
    with_cache, without = set(), set()
    for number in range(options.links):
        programs = without if number % 3 == 0 else with_cache
        programs.add(link(kind, level, options, objects, number, folder))
    print(f"{kind} -O{level}: {options.links} links, {len(without)} program without a cache, {len(with_cache)} with one", flush=True)
    return len(without) == 1 and len(with_cache) <= 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", required=True, type=lambda text: str(Path(text).resolve()))
    parser.add_argument("--cuda", default=os.environ.get("CUDA_PATH", "/usr/local/cuda"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--kinds", default="cuda,hip,openmp")
    parser.add_argument("--levels", default="0,1,2,3")
    options = parser.parse_args()
    all_kinds = [(kind, level) for kind in options.kinds.split(",") for level in options.levels.split(",")]
    # All are compared, whatever the first ones give.
    results = [compare(kind, level, options) for kind, level in all_kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
