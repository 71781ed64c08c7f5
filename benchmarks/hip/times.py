#!/usr/bin/env python3
"""Times fatlink against ld.lld's LTO on the units of a HIP program, on chosen cores, without clang.

The objects (*.o) have bitcode for all targets. Beside them lies, for each target, a folder of its name with that bitcode, one file
for each unit, as `offload-bundle extract OBJECT --target TARGET` writes it. ld.lld gets what clang 22 passes to it, target by target."""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--target", action="append", required=True, help="such as gfx90a; can be repeated")
    parser.add_argument("--fatlink", default="clang-linker-wrapper", help="the program by its name clang-linker-wrapper")
    parser.add_argument("--lld", default="ld.lld")
    parser.add_argument("--cores", default="0,1", help="as taskset -c takes them")
    parser.add_argument("--jobs", type=int, default=2, help="fatlink's --wrapper-jobs")
    parser.add_argument("--partitions", type=int, default=8, help="ld.lld's --lto-partitions; clang passes 8")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--skip", default="$^", help="leave out units whose names match this regular expression")
    parser.add_argument("--side", choices=["both", "fatlink", "lld"], default="both")
    return parser.parse_args()


def units(folder, ending, skip):
    found = sorted(path for path in folder.glob("*" + ending) if not re.search(skip, path.stem))
    return [str(path) for path in found]


def run(command, cores):
    """Wall time and processor time in seconds."""
    before, start = os.times(), time.monotonic()
    subprocess.run(["taskset", "-c", cores, *command], check=True)
    wall, after = time.monotonic() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def fatlink(options, output):
    triple = "amdgcn-amd-amdhsa"
    line = [options.fatlink, "--host-triple=x86_64-pc-linux-gnu", f"--wrapper-jobs={options.jobs}", "--linker-path=/bin/true"]
    line += [f"--should-extract={target}" for target in options.target]
    line += [f"--device-compiler={triple}={option}" for option in ("-O2", "-flto=full")]
    return [line + ["-o", output, *units(options.folder, ".o", options.skip)]]


def lld(options, output):
    fixed = ["--no-undefined", "-shared", "-plugin-opt=O2", "--lto-CGO2", f"--lto-partitions={options.partitions}"]
    return [
        [options.lld, *fixed, f"-plugin-opt=mcpu={target}", *units(options.folder / target, ".bc", options.skip), "-o", output]
        for target in options.target
    ]


def main():
    options = arguments()
    sides = {"fatlink": fatlink, "lld": lld}
    chosen = sides if options.side == "both" else [options.side]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for side in chosen:
                times = [run(line, options.cores) for line in sides[side](options, os.path.join(folder, side))]
                wall, processor = (sum(part) for part in zip(*times))
                print(f"round {number + 1} {side}: {wall:.2f} s, processor time {processor:.2f} s", flush=True)


main()
