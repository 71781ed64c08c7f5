#!/usr/bin/env python3
"""Builds public projects with clang and fatlink by the toolchain file alone, and checks their programs.

    python3 benchmarks/public/projects.py --clones CLONES --dist dist --cuda "$CUDA_PATH" --out OUT [PROJECT ...]
    OUT/run.sh       # on a machine with a GPU of sm_90

projects.toml has the projects, their commits, and what each needs. What is not in CLONES is cloned into it, and CLONES is not changed otherwise.
Needs CMake from 3.28 on and Ninja. CUDA's libraries come from PyPI, if the toolkit has none.

The programs, with the libraries of their projects, have to pass `offload-bundle check` for sm_90: they have the code of every kernel that they
register. run.sh says which of them succeed.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A library that is only there to show that a toolkit has CUDA's libraries.
LIBRARY = "libcublas.so"
# Of the driver, for links on machines without one.
STUB = "lib64/stubs/libcuda.so"


def run(*words, folder, log):
    """Runs a command whose output is added to a log. An error names the log."""
    with open(log, "a") as file:
        print("$", shlex.join(map(str, words)), file=file, flush=True)
        done = subprocess.run([str(word) for word in words], cwd=folder, stdout=file, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed, see {log}")


def toolkit(cuda: Path, out: Path) -> Path:
    """A tree with CUDA's libraries, its driver's stub, and everything of the toolkit."""
    if (cuda / "lib64" / LIBRARY).exists() and (cuda / STUB).exists():
        return cuda
    out, tree, wheels = out.absolute(), out.absolute() / "toolkit", out.absolute() / "wheels"
    if (tree / STUB).exists():
        return tree
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--target", wheels]
    run(*pip, "-r", HERE / "libraries.txt", folder=out, log=out / "toolkit.log")
    shutil.rmtree(tree, ignore_errors=True)
    for source in (cuda, wheels / "nvidia/cu13"):
        for part in (source / name for name in ("bin", "include", "lib", "nvvm")):
            (tree / part.name).mkdir(parents=True, exist_ok=True)
            for file in part.iterdir() if part.exists() else ():
                name = re.sub(r"\.so\.[0-9.]+$", ".so", file.name)
                for link in {tree / part.name / name, tree / part.name / file.name}:
                    link.exists() or link.symlink_to(file.resolve())
    (tree / "lib64").symlink_to("lib")
    (tree / "lib/stubs").mkdir()
    stub = out / "stub.c"
    header = (cuda / "include/cuda.h").read_text()
    functions = {*re.findall(r"CUDAAPI\s+(cu\w+)\s*\(", header), *re.findall(r"#define\s+\w+\s+(cu\w+_v\d+)\b", header)}
    stub.write_text("".join(f"int {function}(void) {{ return 100; }}\n" for function in sorted(functions)))
    run("cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", stub, "-o", tree / STUB, folder=out, log=out / "toolkit.log")
    return tree


class Projects:
    def __init__(self, options):
        self.table = tomllib.loads((HERE / "projects.toml").read_text())
        self.out, self.clones, self.dist = options.out.absolute(), options.clones.absolute(), options.dist.absolute()
        self.out.mkdir(parents=True, exist_ok=True)
        self.cuda = toolkit(options.cuda.absolute(), self.out)

    def source(self, name: str) -> Path:
        """A tree of the project's commit, with its edits, made from the clone."""
        project, folder, log = self.table[name], self.out / name / "source", self.out / name / "log"
        clone = self.clones / name
        folder.parent.mkdir(exist_ok=True)
        if not clone.exists():
            self.clones.mkdir(parents=True, exist_ok=True)
            run("git", "clone", "--quiet", "--filter=blob:none", "--no-checkout", project["url"], clone, folder=self.clones, log=log)
        shutil.rmtree(folder, ignore_errors=True)
        run("git", "clone", "--quiet", "--shared", "--no-checkout", clone, folder, folder=self.out, log=log)
        run("git", "-c", "advice.detachedHead=false", "checkout", "--quiet", project["commit"], folder=folder, log=log)
        for place, other in project.get("submodules", {}).items():
            shutil.rmtree(folder / place, ignore_errors=True)
            shutil.move(self.source(other), folder / place)
        for edit in project.get("edits", []):
            file = folder / edit["file"]
            text = file.read_text()
            if edit["old"] not in text:
                raise RuntimeError(f"{file} has no {edit['old']!r}")
            file.write_text(text.replace(edit["old"], edit["new"]))
        return folder

    def build(self, name: str) -> list[Path]:
        """Configures a project, builds its programs, and installs it where another project needs it."""
        project, build, log = self.table[name], self.out / name / "build", self.out / name / "log"
        source = self.source(name)
        shutil.rmtree(build, ignore_errors=True)
        places = {"out": self.out, "cuda": self.cuda, "stub": self.cuda / STUB}
        words = [word.format(**places) for word in project.get("options", [])]
        for option, place in project.get("sources", {}).items():
            other, _, file = place.partition("/")
            words.append(f"-D{option}={self.source(other) / file}")
        run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_ARCHITECTURES=90",
            f"-DCMAKE_INSTALL_PREFIX={self.out / name / 'install'}", f"-DCUDAToolkit_ROOT={self.cuda}",
            "--toolchain", self.dist / "lib/cmake/fatlink/fatlink-toolchain.cmake", *words, folder=source, log=log)
        libraries = project.get("libraries", [])
        run("ninja", "-C", build, *libraries, *project["programs"], folder=source, log=log)
        if libraries:
            run("cmake", "--install", build, folder=source, log=log)
        return [build / program for program in project["programs"]]

    def check(self, name: str) -> int:
        """Checks the programs of a project, which stay for run.sh, and returns how many kernels they have."""
        folder = self.out / "programs" / name
        shutil.rmtree(folder, ignore_errors=True)
        parts = {program.name: self.keep(name, program) for program in self.build(name)}
        gate = [self.dist / "bin/offload-bundle", "check", folder, "--gpus", "sm_90", "--driver", "580", "--json"]
        done = subprocess.run(gate, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{folder} does not pass: {done.stdout}{done.stderr}")
        kernels = {Path(file["file"]).name: file["kernels"] for file in json.loads(done.stdout)["files"]}
        if without := [program for program, files in parts.items() if not any(kernels.get(file) for file in files)]:
            raise RuntimeError(f"no device code is in {', '.join(without)}")
        return sum(kernels.values())

    def keep(self, name: str, program: Path) -> list[str]:
        """Puts a program and the libraries of its project where run.sh runs them, without what only a debugger needs. Returns their names."""
        folder, project = self.out / "programs" / name, self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries = [Path(path) for path in re.findall(r"=> (/\S+)", needed) if Path(path).is_relative_to(project)]
        for file in [program, *libraries]:
            run("strip", "-o", folder / file.name, file, folder=self.out, log=project / "log")
        return [program.name, *(library.name for library in libraries)]

    def write_runs(self, names: list[str]):
        """Writes the script that runs the programs, and puts the files beside them that they read."""
        lines = ["#!/bin/sh", "# Runs the programs on a GPU of sm_90, and says which of them fail.", 'cd "$(dirname "$0")/programs"',
                 'try() { if LD_LIBRARY_PATH="${1%/*}:$LD_LIBRARY_PATH" timeout 120 "$@" > log 2>&1; then echo "passed: $*"; else echo "FAILED ($?): $*"; tail -n 5 log; fi; }']
        for name in names:
            project = self.table[name]
            for file in project.get("files", []):
                shutil.copy(self.out / name / "source" / file, self.out / "programs" / name)
            for file, text in project.get("inputs", {}).items():
                (self.out / "programs" / name / file).write_text(text)
            arguments = project.get("arguments", {})
            for program in (Path(program).name for program in project["programs"]):
                words = arguments.get(program, "").format(here=name)
                lines.append(f"try {name}/{program} {words}".rstrip())
        script = self.out / "run.sh"
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--dist", type=Path, default=HERE.parents[1] / "dist")
    parser.add_argument("--cuda", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tools", type=Path, action="append", default=[], help="a folder with CMake or Ninja that PATH lacks")
    parser.add_argument("projects", nargs="*", help="some of projects.toml's, behind those that they need; default: all")
    options = parser.parse_args()
    os.environ["PATH"] = os.pathsep.join([*map(str, options.tools), os.environ["PATH"]])
    projects, passed, failed = Projects(options), [], 0
    names = options.projects or [name for name, project in projects.table.items() if "programs" in project]
    for name in names:
        start = time.monotonic()
        try:
            kernels = projects.check(name)
        except (RuntimeError, OSError) as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
            continue
        passed.append(name)
        programs = len(projects.table[name]["programs"])
        print(f"{name}: {programs} programs with {kernels} kernels, {time.monotonic() - start:.0f} s", flush=True)
    projects.write_runs(passed)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
