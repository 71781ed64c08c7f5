"""What the generators of programs have in common (dead/programs.py, equal/programs.py, launches/programs.py, shared/programs.py).

A generator links each program in several ways and writes a folder that a machine with a GPU needs nothing else for: programs/pNNN/WAY, the CUDA
runtime in lib/, and run.sh, which runs all of them with lazy and eager loading and compares the results.
"""

import argparse
import concurrent.futures
import os
import random
import shlex
import subprocess
from pathlib import Path

# The parts of run.sh around the function that runs and compares one program, "one PROGRAM RESULTS".
BEGIN = r"""cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH=$PWD/lib:/usr/local/cuda/lib64:$LD_LIBRARY_PATH
"""
END = r"""export -f one
results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
for program in programs/p*; do echo "$program"; done | xargs -P "${JOBS:-8}" -I{} bash -c 'one {} '"$results"
cat "$results"/*.FIRST.LAZY | grep -c 'COUNTED' | sed 's/$/ NOUN/'
ls "$results"/*.FIRST.LAZY | wc -l | sed 's/$/ programs/'
[ -n "$RESULTS" ] || rm -rf "$results"
"""


def arguments(description, count):
    """The parser of a generator's command line, with the options of all of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("dist", "cuda", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--work", help="folder of intermediate files (default: beside --out)")
    parser.add_argument("--clang", default="/usr/lib/llvm-22/bin/clang++")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser


def run(command, folder):
    """Runs a command, which must succeed, and returns what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def work_folder(options):
    """The folder of intermediate files."""
    return Path(options.work or options.out + ".work").absolute()


class Generator:
    """Compiles what all programs share into the folder of intermediate files."""

    def __init__(self, options):
        self.options = options
        self.work = work_folder(options)
        self.work.mkdir(parents=True, exist_ok=True)

    def compile_all(self, commands):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(lambda command: run(command, self.work), commands))


def choice_of(options, number):
    """The random choices of one program, the same in each run."""
    return random.Random(options.seed * 100003 + number)


def folders(options, number):
    """Makes the folders of one program: of its intermediate files, and of what is linked."""
    made = work_folder(options) / f"p{number:03}", Path(options.out).absolute() / "programs" / f"p{number:03}"
    for folder in made:
        folder.mkdir(parents=True, exist_ok=True)
    return made


def compiler(options, *flags):
    """The beginning of a command that compiles a unit. clang hashes it for the names of static kernels."""
    return [options.clang, "-x", "cuda", f"--cuda-path={options.cuda}", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-foffload-lto",
            "--offload-arch=sm_90", *flags, "-c"]


def linker(options, line, *further):
    """The beginning of a command that links a program: `line` stands in front of the libraries, and further options behind them."""
    return [options.clang, "-B", f"{options.dist}/bin", "--offload-link", f"--cuda-path={options.cuda}", *line,
            f"{options.cuda}/lib/libcudart.so.13", "-ldl", "-lpthread", *further, "-Wl,-s", "-Xlinker", "--offload-compress=size"]


def script(comment, one, counted, noun, first="off"):
    """run.sh: `one` is the function that runs a program, and the lines of the results of its `first` link that match `counted` are counted as
    `noun`. It keeps the results in the folder $RESULTS, if that is set."""
    end = END.replace("COUNTED", counted).replace("NOUN", noun).replace("FIRST", first)
    return f"#!/bin/bash\n# {comment}\n" + BEGIN + one + end


def generate(options, program, text):
    """Makes all programs, each by `program(number)`, and the folder around them; returns what that returned."""
    out = Path(options.out).absolute()
    (out / "lib").mkdir(parents=True, exist_ok=True)
    cudart = Path(options.cuda) / "lib" / "libcudart.so.13"
    (out / "lib" / cudart.name).write_bytes(cudart.read_bytes())
    (out / "run.sh").write_text(text)
    (out / "run.sh").chmod(0o755)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(program, range(options.count)))
