#!/usr/bin/env python3
"""Links programs of nvcc's objects by nvcc and by fatlink, runs both, and compares: see README.md beside this."""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "samples/nvcc"
UNITS = ["main", "lens", "develop", "solarize"]
LIBRARY = ["shoulder", "gamma", "grain", "histogram", "sepia"]
NO_GPU = 77


def code(*pairs):
    """-gencode options; each pair is what nvcc compiles for, and what it puts into the object."""
    return [f"-gencode=arch=compute_{virtual},code={real}" for virtual, real in pairs]


# What an object can hold, by the flags that make it.
KINDS = {
    "sass80": code((80, "sm_80")),
    "sass86": code((86, "sm_86")),
    "sass90": code((90, "sm_90")),
    "sass90a": code(("90a", "sm_90a")),
    "sass90 of compute_80": code((80, "sm_90")),
    "sass80,90": code((80, "sm_80"), (90, "sm_90")),
    "ptx75": code((75, "compute_75")),
    "ptx80": code((80, "compute_80")),
    "ptx90": code((90, "compute_90")),
    "lto80": code((80, "lto_80")),
    "lto90": code((90, "lto_90")),
    "sass80+ptx80": code((80, "sm_80"), (80, "compute_80")),
    "sass90+ptx90": code((90, "sm_90"), (90, "compute_90")),
    "ptx75+lto80": code((75, "compute_75"), (80, "lto_80")),
    "sass90+lto90": code((90, "sm_90"), (90, "lto_90")),
    # PTX for the lowest target, LTO-IR and machine code for two others: a program that is to run everywhere.
    "ptx75+lto80,86+sass80,86": code(
        (75, "compute_75"), (80, "lto_80"), (80, "sm_80"), (86, "lto_86"), (86, "sm_86")
    ),
    "all": code(
        (80, "compute_80"), (80, "sm_80"), (80, "lto_80"), (90, "compute_90"), (90, "sm_90"), (90, "lto_90")
    ),
    "ptx90 with line numbers": [*code((90, "compute_90")), "-lineinfo"],
    "sass90 for debugging": [*code((90, "sm_90")), "-G"],
    "sass90 of 24 registers": [*code((90, "sm_90")), "-maxrregcount=24"],
}

RUNS, RUN_FAILS, LINK_FAILS = "runs", "fails", "no link"


@dataclasses.dataclass
class Program:
    """One row of the table. `objects` is the kind of all units, `but` that of single ones."""

    objects: str
    targets: str  # of the device link; compute_NN stands for PTX
    on_90: str  # what becomes of nvcc's program on a GPU of compute capability 9.0
    but: dict = dataclasses.field(default_factory=dict)
    lto: bool = False
    launches: bool = False  # kernels launch kernels
    without: str = ""  # a member that the library lacks
    twice: str = ""  # a unit of which two objects are linked
    # An object has nothing for the target: nvlink warns and writes an image without it, fatlink rejects it.
    lacks_target: bool = False


PROGRAMS = [
    Program("sass90", "sm_90", RUNS),
    Program("sass90", "sm_90", RUNS, launches=True),
    Program("sass90 of compute_80", "sm_90", RUNS, launches=True),
    Program("sass80,90", "sm_80 sm_90", RUNS),
    Program("sass80+ptx80", "sm_80", RUNS),
    Program("sass80+ptx80", "sm_80", RUNS, launches=True),
    Program("sass90+ptx90", "sm_90", RUNS, launches=True),
    Program("sass80", "sm_80", RUN_FAILS),
    Program("sass80", "sm_90", RUN_FAILS, lacks_target=True),
    Program("sass86", "sm_80", RUN_FAILS, lacks_target=True),
    Program("ptx80", "sm_90", RUNS, launches=True),
    Program("ptx90 with line numbers", "sm_90", RUNS),
    Program("ptx80", "sm_80", RUNS),
    Program("ptx80", "sm_80 sm_90", RUNS),
    Program("ptx80", "compute_80", RUNS),
    Program("ptx80", "compute_80", RUNS, launches=True),
    Program("ptx90", "sm_80", RUNS, lacks_target=True),
    Program("lto80", "sm_90", RUNS, lto=True, launches=True),
    Program("lto90", "sm_90", RUNS, lto=True),
    Program("lto80", "sm_80", RUN_FAILS, lto=True),
    Program("lto90", "sm_80", RUN_FAILS, lto=True, lacks_target=True),
    Program("ptx75+lto80", "sm_80", RUNS, lto=True),
    Program("ptx75+lto80", "sm_80", RUNS, lto=True, launches=True),
    Program("ptx75+lto80,86+sass80,86", "sm_80 sm_86", RUNS, lto=True),
    Program("all", "sm_90", RUNS, lto=True, launches=True),
    Program("all", "sm_80 sm_90", RUNS, lto=True),
    Program("sass90", "sm_90", RUNS, but={"develop": "ptx80", "gamma": "ptx90", "grain": "sass90+ptx90"}),
    Program("sass90", "sm_90", RUNS, but={"main": "lto90", "develop": "lto90", "gamma": "lto80"}, lto=True),
    Program("sass80+ptx80", "sm_80", RUN_FAILS, but={"gamma": "sass80"}),
    Program("sass90 for debugging", "sm_90", RUNS),
    Program("sass90a", "sm_90a", RUNS),
    Program("sass90", "sm_90", LINK_FAILS, but={"develop": "sass90 of 24 registers"}),
    Program("sass90", "sm_90", LINK_FAILS, without="gamma"),
    Program("sass90", "sm_90", LINK_FAILS, twice="gamma"),
]


@dataclasses.dataclass
class Linked:
    """What one linker made of a program."""

    outcome: str  # RUNS and so on, or "no GPU"
    message: str = ""
    kernels: list = dataclasses.field(default_factory=list)  # lines of the program
    sizes: dict = dataclasses.field(default_factory=dict)  # of machine code, by architecture
    without_sass: str = ""  # the outcome with CUDA_FORCE_PTX_JIT=1


class Tools:
    def __init__(self, cuda, folder, fatlink):
        self.cuda, self.folder = cuda, folder
        self.bin = folder / "ld-is-fatlink"
        self.bin.mkdir(parents=True, exist_ok=True)
        if fatlink:
            (self.bin / "ld").unlink(missing_ok=True)
            (self.bin / "ld").symlink_to(fatlink)
        self.environment = {**os.environ, "CUDA_CACHE_DISABLE": "1", "CUDA_PATH": str(cuda)}
        self.environment["PATH"] = f"{cuda}/bin:{os.environ['PATH']}"

    def run(self, *command, folder=None, environment=None):
        """Exit status and all output."""
        done = subprocess.run([str(word) for word in command], cwd=folder,
                              env={**self.environment, **(environment or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        return done.returncode, done.stdout

    def libraries(self):
        folder = self.cuda / ("lib64" if (self.cuda / "lib64").is_dir() else "lib")
        return [f"-L{folder}", "-lcudadevrt", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]

    def nvcc(self):
        return self.cuda / "bin/nvcc"


def source(unit):
    return SOURCES / ("film" if unit in LIBRARY else ".") / f"{unit}.cu"


def object_path(folder, unit, kind, launches):
    return folder / "objects" / re.sub(r"\W+", "-", kind) / ("launches" if launches else "plain") / f"{unit}.o"


def compile_unit(tools, unit, kind, launches):
    path = object_path(tools.folder, unit, kind, launches)
    if path.is_file() and path.stat().st_mtime > max(file.stat().st_mtime for file in SOURCES.rglob("*.*")):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    status, output = tools.run(tools.nvcc(), "-O2", "-dc", *KINDS[kind], f"-DDEVICE_LAUNCHES={int(launches)}",
                               source(unit), "-o", path)
    if status != 0:
        sys.exit(f"nvcc cannot compile {unit}.cu as {kind}:\n{output}")


class Build:
    """One program, linked by one linker."""

    def __init__(self, tools, number, program, linker):
        self.tools, self.program, self.linker = tools, program, linker
        self.folder = tools.folder / linker / str(number)
        self.folder.mkdir(parents=True, exist_ok=True)

    def kind(self, unit):
        return self.program.but.get(unit, self.program.objects)

    def object(self, unit):
        return object_path(self.tools.folder, unit, self.kind(unit), self.program.launches)

    def other_object(self, unit):
        """A second one of a unit: a copy of the first would have the same module id, which is another error."""
        return object_path(self.tools.folder, unit, self.kind(unit), not self.program.launches)

    def inputs(self):
        """Objects and the library, which is made here."""
        library = self.folder / "libfilm.a"
        library.unlink(missing_ok=True)
        self.tools.run("ar", "rcs", library, *(self.object(unit) for unit in LIBRARY if unit != self.program.without))
        twice = []
        if self.program.twice:
            twice = [self.object(self.program.twice), self.other_object(self.program.twice)]
        return [*(self.object(unit) for unit in UNITS), *twice, library]

    def link_by_nvcc(self, inputs, program):
        device = self.folder / "dlink.o"
        architectures = [f"-gencode=arch={name.replace('sm_', 'compute_')},code={name}"
                         for name in self.program.targets.split()]
        lto = ["-dlto"] if self.program.lto else []
        status, output = self.tools.run(self.tools.nvcc(), "-dlink", *lto, *architectures, *inputs, "-lcudadevrt",
                                        "-o", device)
        if status != 0:
            return status, output
        return self.tools.run("g++", *inputs[:-1], device, self.tools.folder / "reference.o", inputs[-1],
                              *self.tools.libraries(), "-o", program)

    def link_by_fatlink(self, inputs, program):
        sass = ",".join(name for name in self.program.targets.split() if name.startswith("sm_"))
        ptx = ",".join(name for name in self.program.targets.split() if name.startswith("compute_"))
        options = [f"--cuda-path={self.tools.cuda}", f"--offload-sass={sass or 'none'}"]
        options += [f"--offload-ptx={ptx}"] if ptx else []
        return self.tools.run("g++", f"-B{self.tools.bin}", *inputs[:-1], self.tools.folder / "reference.o", inputs[-1],
                              *self.tools.libraries(), *(word for option in options for word in ("-Xlinker", option)),
                              "-o", program)

    def link(self):
        program = self.folder / "program"
        program.unlink(missing_ok=True)
        link = {"nvcc": self.link_by_nvcc, "fatlink": self.link_by_fatlink}[self.linker]
        status, output = link(self.inputs(), program)
        if status != 0:
            left = " and leaves an output" if program.exists() else ""
            return Linked(LINK_FAILS, f"status {status}{left}: {first_error(output)}")
        linked = Linked(*self.outcome(program))
        linked.sizes = code_sizes(self.tools, program)
        linked.without_sass = self.outcome(program, {"CUDA_FORCE_PTX_JIT": "1"})[0]
        return linked

    def outcome(self, program, environment=None):
        status, output = self.tools.run(program, "--attributes", environment=environment)
        kernels = [line for line in output.splitlines() if line.startswith("kernel ")]
        last = output.splitlines()[-1] if output else ""
        if status == NO_GPU:
            return "no GPU", "", []
        passed = status == 0 and last == "PASS"
        return RUNS if passed else RUN_FAILS, "" if passed else f"status {status}: {last}", kernels


def needed_units(builds):
    """What to compile: unit, kind, and whether kernels launch kernels."""
    needed = set()
    for build in builds:
        program = build.program
        needed |= {(unit, build.kind(unit), program.launches) for unit in UNITS + LIBRARY}
        if program.twice:
            needed.add((program.twice, build.kind(program.twice), not program.launches))
    return needed


def first_error(output):
    """The first line that gives a reason; collect2, g++'s caller of the linker, gives none."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("collect2:")]
    found = [line for line in lines if re.search("error|fatal|undefined reference", line)] or lines or ["(silent)"]
    return found[0].strip()[:200]


def code_sizes(tools, program):
    """Bytes of machine code in the program's finished images, by architecture."""
    folder = program.with_suffix(".cubins")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    tools.run(tools.cuda / "bin/cuobjdump", "-xelf", "all", program, folder=folder)
    sizes = collections.Counter()
    for cubin in folder.glob("*.cubin"):
        sizes[re.search(r"sm_\w+", cubin.name).group()] += text_bytes(cubin.read_bytes())
    return dict(sizes)


def text_bytes(elf):
    """Sizes of the sections whose names begin with .text, in a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    start = headers[names][4]
    return sum(header[5] for header in headers if elf[start + header[0]:].startswith(b".text."))


def describe(program):
    but = ", ".join(f"{unit} {kind}" for unit, kind in program.but.items())
    extras = [f"but {but}" if but else "", "launches" if program.launches else "", "-dlto" if program.lto else ""]
    extras.append(f"without {program.without}" if program.without else "")
    extras.append(f"{program.twice} twice" if program.twice else "")
    return "; ".join([program.objects, *(extra for extra in extras if extra)])


def differences(program, nvcc, fatlink):
    """What fatlink's program should share with nvcc's, and does not."""
    expected = LINK_FAILS if program.lacks_target else nvcc.outcome
    if fatlink.outcome != expected:
        yield f"fatlink's link was expected to be: {expected}"
    if LINK_FAILS in (expected, fatlink.outcome):
        return
    if fatlink.without_sass != nvcc.without_sass:
        yield f"from PTX alone: nvcc's {nvcc.without_sass}, fatlink's {fatlink.without_sass}"
    yield from (f"nvcc's {a} | fatlink's {b}" for a, b in zip(nvcc.kernels, fatlink.kernels) if a != b)
    if set(fatlink.sizes) != set(nvcc.sizes):
        yield "images for other targets"


def compare(number, program, results, has_gpu):
    """Prints a row, and what differs below it. Returns whether all is as it should be."""
    nvcc, fatlink = results["nvcc"], results.get("fatlink")
    problems = []
    expected = program.on_90 if has_gpu or program.on_90 == LINK_FAILS else "no GPU"
    if nvcc.outcome != expected:
        problems.append(f"nvcc's link was expected to be: {expected}")
    cells = [f"{number:2} {describe(program)} -> {program.targets.replace('sm_', '')}", nvcc.outcome]
    if fatlink:
        cells.append(fatlink.outcome)
        problems += differences(program, nvcc, fatlink)
    sizes = [f"{name[3:]}: {'/'.join(str(side.sizes.get(name, '-')) for side in results.values())}"
             for name in sorted(set().union(*(side.sizes for side in results.values())))]
    cells += [f"PTX: {nvcc.without_sass or '-'}", f"{len(nvcc.kernels)} kernels", " ".join(sizes)]
    print(" | ".join(cells))
    for name, side in results.items():
        if side.message:
            print(f"     {name}: {side.message}")
    for problem in problems:
        print(f"     MISMATCH {problem}")
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", type=pathlib.Path, default=pathlib.Path("/usr/local/cuda"))
    parser.add_argument("--fatlink", type=pathlib.Path, help="the program; without it nvcc links alone")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/nvcc-programs"), help="for all files")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", type=int, action="append", help="number of a row")
    arguments = parser.parse_args()
    fatlink = arguments.fatlink and arguments.fatlink.resolve(strict=True)
    tools = Tools(arguments.cuda.resolve(), arguments.folder.resolve(), fatlink)
    linkers = ["nvcc", "fatlink"] if fatlink else ["nvcc"]
    rows = [(number, program) for number, program in enumerate(PROGRAMS, 1)
            if not arguments.only or number in arguments.only]
    builds = {(number, linker): Build(tools, number, program, linker) for number, program in rows for linker in linkers}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tools.run("g++", "-O2", "-c", SOURCES / "reference.cpp", "-o", tools.folder / "reference.o")
        list(pool.map(lambda unit: compile_unit(tools, *unit), needed_units(builds.values())))
        results = dict(zip(builds, pool.map(Build.link, builds.values())))
    has_gpu = any(linked.outcome == RUNS for linked in results.values())
    print(f"objects -> targets | {' | '.join(linkers)} | from PTX alone | kernels with attributes | SASS, bytes")
    good = [compare(number, program, {linker: results[number, linker] for linker in linkers}, has_gpu)
            for number, program in rows]
    print(f"{sum(good)} of {len(good)} programs are as expected{'' if has_gpu else ', without a GPU'}")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
