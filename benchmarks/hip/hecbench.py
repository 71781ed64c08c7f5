#!/usr/bin/env python3
"""Builds HIP programs of HeCBench by their own Makefiles with hipcc, links them in five ways, and compares the kernels: see README.md beside this."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "lit-tests/tests/hip/Inputs"))

import code_object  # noqa: E402

TARGETS = ["gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx9-4-generic"]
PROGRAMS = ["lulesh", "rsbench", "merkle", "logan", "minimod", "easyWave", "tridiagonal", "myocyte", "srad", "keccaktreehash",
            "qtclustering", "sw4ck", "xlqc", "miniFE"]
# The folder of a program's Makefile that is not the program's own.
FOLDERS = {"miniFE": "src"}
# Variables that a Makefile needs: xlqc wants Debian's libgsl-dev.
VARIABLES = {"xlqc": ["GSL_INC=", "GSL_LIB=-lgsl -lgslcblas"]}
WHOLE = "-Xoffload-linker --lto-partitions=1"


def run(*words, folder, environment=None, check=True):
    """Runs a command. Returns its output."""
    done = subprocess.run([str(word) for word in words], cwd=folder, env={**os.environ, **(environment or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout[-3000:]}")
    return done.stdout


def build(folder, hipcc, driver, link, again, variables):
    """Builds the program by its Makefile with these variables, or only links it again. Returns its path."""
    program = folder / "main"
    if again:
        program.unlink()
    targets = " ".join(f"--offload-arch={target}" for target in TARGETS)
    flags = f"{driver} -fgpu-rdc {targets}"
    run("make", f"CC={hipcc}", f"CXX={hipcc}", "LAUNCHER=", *variables, folder=folder, environment={
        "HIPCC_COMPILE_FLAGS_APPEND": f"{driver} -fgpu-rdc -w {targets}",
        "HIPCC_LINK_FLAGS_APPEND": f"{flags} --hip-link {link}",
    })
    return program


def images(program, name):
    """The code objects of a program by target."""
    folder = program.parent / "images" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run("llvm-objcopy", "--dump-section=.hip_fatbin=bundle", program, os.devnull, folder=folder)
    ids = run("clang-offload-bundler", "-list", "-type=o", "-input=bundle", folder=folder).split()
    found = {}
    for bundle_id in (one for one in ids if not one.startswith("host")):
        target = bundle_id.rpartition("--")[2]
        run("clang-offload-bundler", "-unbundle", "-type=o", f"-targets={bundle_id}", "-input=bundle", f"-output={target}",
            folder=folder)
        found[target] = str(folder / target)
    return found


def worse(ours, theirs):
    """What a kernel has more of than in the better of these links."""
    return {key: (number, best) for key, number in ours.items()
            if number > (best := min(other[key] for other in theirs))}


def compare(ours, theirs):
    """Compares the kernels of links. Returns sentences about what differs, and the numbers of kernels that are equal and have less."""
    sentences, equal, less = [], 0, 0
    for target, image in ours.items():
        kernels, _ = code_object.metadata(image)
        others = [code_object.metadata(links[target])[0] for links in theirs]
        if any(sorted(kernels) != sorted(other) for other in others):
            sentences.append(f"{target}: other kernels")
            continue
        if any(code_object.exported(image) != code_object.exported(links[target]) for links in theirs):
            sentences.append(f"{target}: other symbols")
        for name, lines in kernels.items():
            counts, text = code_object.split(lines)
            split = [code_object.split(other[name]) for other in others]
            if any(text != other for _, other in split):
                sentences.append(f"{target} {name}: other notes")
            more = worse(counts, [other for other, _ in split])
            sentences += [f"{target} {name}: {key} {number}, and {best}" for key, (number, best) in more.items()]
            equal += not more and all(counts == other for other, _ in split)
            less += not more and any(counts != other for other, _ in split)
    return sentences, equal, less


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hecbench", type=pathlib.Path, required=True, help="a clone of zjin-lcf/HeCBench")
    parser.add_argument("--hipcc", type=pathlib.Path, default=ROOT / ".toolchain/rocm/bin/hipcc")
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    arguments = parser.parse_args()
    bad = 0
    for name in arguments.programs:
        source = arguments.hecbench / "src" / f"{name}-hip"
        try:
            links = {}
            for driver, option, folder, places in [
                ("former", "--no-offload-new-driver", "hip", [("default", ""), ("whole", WHOLE)]),
                ("new", "--offload-new-driver", "bin", [("default", ""), ("whole", WHOLE)]),
            ]:
                work = arguments.out.absolute() / name / driver
                shutil.rmtree(work, ignore_errors=True)
                # Some programs include files of others.
                shutil.copytree(source, work / "src" / f"{name}-hip")
                for beside in ("include", f"{name}-cuda"):
                    if (source.parent / beside).is_dir():
                        shutil.copytree(source.parent / beside, work / "src" / beside)
                work = work / "src" / f"{name}-hip" / FOLDERS.get(name, "")
                ways = [*places, ("ours", f"-B {arguments.dist.absolute() / folder}")]
                for number, (way, link) in enumerate(ways):
                    links[driver, way] = images(build(work, arguments.hipcc, option, link, number > 0, VARIABLES.get(name, [])), way)
            for driver in ("former", "new"):
                theirs = [links[driver, way] for way in ("default", "whole")]
                sentences, equal, less = compare(links[driver, "ours"], theirs)
                bad += bool(sentences)
                print(f"{name}, {driver} driver: {equal} kernels with the numbers of both links, {less} with less, "
                      f"{len(sentences)} findings", *sentences, sep="\n  ", flush=True)
        except RuntimeError as error:
            bad += 1
            print(f"{name}: {error}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
