#!/usr/bin/env python3
"""Programs of HeCBench, linked with several releases of LLVM from the same objects.

    python3 benchmarks/llvm/programs.py --clone HeCBench --dist dist --cuda "$CUDA_PATH" --out OUT \\
        --side fatlink-22="clang++ -B dist/bin" --side fatlink-23="clang++ -B dist-llvm-23/bin" --side peer-23=clang++-23
    python3 OUT/times.py       # on a machine with a GPU of sm_90

Each side names the command that links; the last one is the peer of the others. The clone has to have the commit below, and what was
compiled before is not compiled again. --objects NAME=FOLDER adds a
program of these objects. Prints what the kernels take with each side, and each kernel that takes over two registers more than with the
peer. times.py runs every program with each side in turn, and compares the times that it prints.
"""

import collections
import concurrent.futures
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import generated

COMMIT = "f27000a5"
PROGRAMS = """rsbench lulesh minimod su3 particlefilter lavaMD lud nw gaussian backprop heat laplace md nbody jacobi iso2dfd bitonic-sort
bezier-surface s3d snake simplemoc qtclustering merkle keccaktreehash logan easyWave tridiagonal aes che epistasis sw4ck ccsd-trpdrv
d2q9-bgk hogbom libor tissue chi2 attention fdtd3d convolution3D lda rainflow geodesic""".split()

Resources = collections.namedtuple("Resources", "registers spills code")


def git(clone, *words):
    return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True).stdout


def take_sources(clone, program, folder):
    """Writes the files of a program, and returns the arguments that its Makefile runs it with."""
    root = f"src/{program}-cuda"
    for name in git(clone, "ls-tree", "-r", "--name-only", COMMIT, "--", root).decode().splitlines():
        place = folder / Path(name).relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(git(clone, "show", f"{COMMIT}:{name}"))
    found = re.search(r"^run:.*\n\t.*\./(?:\$\(program\)|main)(.*)$", (folder / "Makefile").read_text(), re.MULTILINE)
    return shlex.split(found[1]) if found else []


class Program:
    def __init__(self, options, name, folder):
        self.options, self.name, self.folder = options, name, folder
        self.target = Path(options.out).absolute() / "programs" / name
        self.target.mkdir(parents=True, exist_ok=True)

    def compile(self):
        """Compiles what the Makefile of the program names; returns the objects."""
        text = (self.folder / "Makefile").read_text()
        sources = [path for path in sorted(self.folder.rglob("*.c*")) if path.suffix in (".cu", ".cpp", ".c")
                   and re.search(rf"\b{re.escape(path.stem)}\.(o|cu|cpp|c)\b", text)]
        defines = re.findall(r"(?<!\S)-D\w+(?:=\w+)?(?!\S)", "\n".join(line for line in text.splitlines() if "+=" not in line))
        includes = [f"-I{self.options.cuda}/include/cccl", *(f"-I{path}" for path in (self.folder, *self.folder.rglob("*/")))]
        made = []
        for source in sources:
            made.append(self.folder / f"{source.stem}{source.suffix}.o")
            if made[-1].exists():
                continue
            command = [*generated.compiler(self.options, "-O3", "-std=c++17"), "-w", *includes, *defines, source, "-o", made[-1]]
            generated.run(command, self.folder)
        return made

    def link(self, objects):
        libraries = [f"-L{self.options.cuda}/lib", "-lcudart_static", "-ldl", "-lrt", "-lpthread", "-lstdc++", "-lm"]
        for side, command in self.options.sides:
            line = [*command, "-O3", "-foffload-lto", "--offload-link", f"--cuda-path={self.options.cuda}", "-Wno-unknown-cuda-version", *objects]
            generated.run([*line, *libraries, "-Wl,-s", "-o", self.target / side], self.folder)

    def resources(self, side):
        """What each function takes, by name."""
        command = [f"{self.options.dist}/bin/offload-bundle", "resources", self.target / side, "--json"]
        functions = [one for cubin in json.loads(generated.run(command, self.folder)) for one in cubin["functions"]]
        spills = lambda one: (one["spill_stores"] or 0) + (one["spill_loads"] or 0)
        return {(one["name"], one["kernel"]): Resources(one["registers"] or 0, spills(one), one["code"] or 0) for one in functions}


def hecbench(options, name):
    folder = generated.work_folder(options) / name
    arguments = take_sources(options.clone, name, folder)
    program = Program(options, name, folder)
    try:
        program.link(program.compile())
    except SystemExit as error:
        return print(f"{name}: left out: {next((line for line in str(error).splitlines() if 'error' in line), error)[:200]}", flush=True)
    (program.target / "arguments").write_text(shlex.join(arguments))
    return program


def of_objects(options, words):
    name, _, folder = words.partition("=")
    program = Program(options, name, Path(folder).absolute())
    program.link(sorted(program.folder.glob("*.o")))
    (program.target / "arguments").touch()
    return program


def compare(programs, sides):
    """Prints a row for each program and side, the sums, and what is worse than with the peer. The peer drops hidden kernels, such as CUB's: counted are
    those that all sides have, and the code of everything."""
    sums = collections.defaultdict(lambda: [0] * 4)
    worse = []
    print(f"{'program':16} {'side':14} kernels registers  spills     code")
    for program in programs:
        found = {side: program.resources(side) for side, _ in sides}
        peer = found[sides[-1][0]]
        common = set.intersection(*(set(functions) for functions in found.values()))
        for side, functions in found.items():
            kernels = [functions[key] for key in common if key[1]]
            row = [len(kernels), *(sum(one[place] for one in kernels) for place in (0, 1)), sum(one.code for one in functions.values())]
            print(f"{program.name:16} {side:14} {row[0]:7} {row[1]:9} {row[2]:7} {row[3]:8}")
            sums[side] = [before + now for before, now in zip(sums[side], row)]
            for key in sorted(key for key in common if key[1]):
                ours, theirs = functions[key], peer[key]
                if ours.registers > theirs.registers + 2 or ours.spills > theirs.spills:
                    worse.append(f"{program.name}: {side}: {key[0]}: {tuple(ours)}, the peer {tuple(theirs)}")
        alone = {key[0] for functions in found.values() for key in functions if key[1] and key not in common}
        worse += [f"{program.name}: {name} is not in all programs" for name in sorted(alone)]
    for side, row in sums.items():
        print(f"{'all':16} {side:14} {row[0]:7} {row[1]:9} {row[2]:7} {row[3]:8}")
    print("\n".join(worse))


def main():
    parser = generated.arguments(__doc__, count=len(PROGRAMS))
    parser.add_argument("--clone", required=True, help="a clone of zjin-lcf/HeCBench, with or without a work tree")
    parser.add_argument("--side", required=True, action="append", help="NAME=COMMAND; the peer is the last")
    parser.add_argument("--objects", action="append", default=[], help="NAME=FOLDER")
    options = parser.parse_args()
    for name in ("dist", "cuda"):
        setattr(options, name, Path(getattr(options, name)).absolute())
    options.sides = [(side, shlex.split(command)) for side, _, command in (words.partition("=") for words in options.side)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs = [*pool.map(lambda name: hecbench(options, name), PROGRAMS[:options.count])]
    programs = [program for program in programs if program] + [of_objects(options, words) for words in options.objects]
    compare(programs, options.sides)
    (Path(options.out) / "times.py").write_bytes((Path(__file__).parent / "times.py").read_bytes())


main()
