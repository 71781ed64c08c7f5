#!/usr/bin/env python3
"""Links random HIP programs as clang's former offload driver does, by LLVM's lld and by fatlink's, and compares: see README.md beside this."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INPUTS = ROOT / "lit-tests/tests/hip/Inputs"
sys.path.insert(0, str(INPUTS))

import code_object  # noqa: E402

TARGETS = ["gfx90a:xnack+", "gfx942:xnack+", "gfx1100", "gfx1201"]
# Every second program for the processors that have it.
SANITIZER = ["-fsanitize=address", "-fgpu-sanitize"]

COUNTS = set(code_object.COUNTS)


def run(*words, folder, check=True):
    done = subprocess.run([str(word) for word in words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout[-3000:]}")
    return done


def compiled(seed, folder, rocm):
    """Compiles the units of a program for its target. Returns the bitcode and the words of its link."""
    target = TARGETS[seed % len(TARGETS)]
    has_sanitizer = ":" in target and seed % 8 >= 4
    units = run(sys.executable, INPUTS / "generate.py", seed, folder, "rocm", folder=folder).stdout.split()
    libraries = rocm / "usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode"
    for unit in units:
        run("clang++", "-x", "hip", "-fgpu-rdc", "-O2", "-w", f"--rocm-path={rocm}/usr", f"--rocm-device-lib-path={libraries}",
            *(SANITIZER if has_sanitizer else []), f"--offload-arch={target}", "--offload-device-only", "-emit-llvm", "-c", unit, "-o",
            unit + ".bc", folder=folder)
    processor, _, features = target.partition(":")
    words = [f"-plugin-opt=mcpu={processor}", *([f"-plugin-opt=-mattr=+{features.rstrip('+')}"] if features else [])]
    return [unit + ".bc" for unit in units], words, f"{target}{', sanitized' if has_sanitizer else ''}"


def checked(way, folder):
    """The errors that the checker finds in a link, and the kernels with less than they need."""
    lines = run(sys.executable, "-B", INPUTS / "check.py", way, folder=folder, check=False).stdout.splitlines()
    # Without the number: a kernel that has too many registers in two links is the same error in both.
    errors = {re.sub(r"\bhas \d+ vector", "has vector", line.removeprefix(f"{way}: ")) for line in lines if line.startswith(f"{way}: ")}
    return errors, {line.split()[0] for line in errors if " and needs " in line}


def compare(ours, theirs, counted):
    """What kernels have more of than in the better of these links in which they have what they need, and what else differs."""
    kernels, _ = code_object.metadata(ours)
    others = [(code_object.metadata(link)[0], wrong) for link, wrong in theirs]
    if any(sorted(kernels) != sorted(other) for other, _ in others):
        return ["other kernels"], 0
    found = []
    if any(code_object.exported(ours) != code_object.exported(link) for link, _ in theirs):
        found.append("other symbols")
    for name, lines in kernels.items():
        counts, _ = code_object.split(lines)
        split = [code_object.split(other[name])[0] for other, wrong in others if name not in wrong]
        for key, number in counts.items():
            if key in counted and split and number > (best := min(other[key] for other in split)):
                found.append(f"{name}: {key} {number}, and {best}")
    return found, len(kernels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rocm", type=pathlib.Path, default=ROOT / ".toolchain/rocm")
    parser.add_argument("--lld", type=pathlib.Path, default=ROOT / "dist/hip/lld")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    arguments = parser.parse_args()
    line = "-flavor gnu -m elf64_amdgpu --no-undefined -shared -plugin-opt=-amdgpu-internalize-symbols".split()
    programs = kernels = bad = errors = unsound = unlinked = 0
    for seed in range(arguments.first, arguments.last + 1):
        folder = arguments.out.absolute() / str(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        units, words, title = compiled(seed, folder, arguments.rocm.absolute())
        ways = [("parts", "lld", ["--lto-partitions=8"]), ("whole", "lld", ["--lto-partitions=1"]),
                ("ours", arguments.lld.absolute(), []), ("cut", arguments.lld.absolute(), ["--offload-partition-size=1"])]
        failed = set()
        for name, lld, options in ways:
            is_llvms = lld == "lld"
            done = run(lld, *line, *words, *options, "--whole-archive", "-o", name, *units, "--no-whole-archive", folder=folder,
                       check=not is_llvms)
            if done.returncode:
                failed.add(name)
        unlinked += bool(failed)
        if "whole" in failed:
            print(f"{seed} {title}: LLVM's lld does not link it in one piece", flush=True)
            continue
        wrong = {way: checked(way, folder) for way, *_ in ways if way not in failed}
        theirs = [(folder / way, wrong[way][1]) for way in ("parts", "whole") if way not in failed]
        counts = {"ours": COUNTS, "cut": COUNTS - {".group_segment_fixed_size"}}
        for way, counted in counts.items():
            found, number = compare(folder / way, theirs, counted)
            # What LLVM gets wrong in one piece is not fatlink's fault.
            own = wrong[way][0] - wrong["whole"][0]
            errors += bool(own)
            bad += bool(found)
            if found or own:
                print(f"{seed} {title} {way}:", *found, *own, sep="\n  ", flush=True)
        unsound += "parts" not in failed and bool(wrong["parts"][1])
        programs, kernels = programs + 1, kernels + number
        shutil.rmtree(folder) if not os.environ.get("KEEP") else None
    print(f"{programs} programs with {kernels} kernels, each in two ways: {bad} links with findings, {errors} with errors of "
          f"the checker; clang's line leaves kernels of {unsound} programs with less than they need and does not link {unlinked}")


if __name__ == "__main__":
    main()
