#!/usr/bin/env python3
"""Links HIP objects by LLVM's clang-linker-wrapper and by fatlink, and compares what came out: see README.md beside this."""

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = HERE.parent.parent / "lit-tests/tests/hip/Inputs"
sys.path.insert(0, str(INPUTS))

import code_object  # noqa: E402
from compare import disassembled, without_numbers  # noqa: E402

FORMS = ["objects", "archive", "-r", "host LTO"]
CUT = "cut"
WHOLE = "one piece"


def run(*words, folder=None, environment=None):
    """All output of a command that must succeed."""
    done = subprocess.run([str(word) for word in words], cwd=folder, env={**os.environ, **(environment or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(str(word) for word in words)}\n{done.stdout[-4000:]}")
    return done.stdout


@dataclasses.dataclass
class Linker:
    """One of the two device linkers, as clang is given it."""

    name: str
    options: list


@dataclasses.dataclass
class Program:
    """What the comparison reads from a folder: objects, and the same with host code as bitcode."""

    objects: list
    bitcode: list
    main: pathlib.Path
    libraries: list

    @staticmethod
    def read(folder, main, libraries):
        objects = sorted(folder.glob("*.o"))
        if not objects:
            sys.exit(f"{folder} has no objects: compile the units of the program there, with -fgpu-rdc")
        found = [path for path in objects if path.name == main] or [objects[0]]
        return Program(objects, sorted(folder.glob("lto/*.o")), found[0], libraries)

    def link(self, form, linker, clang, folder):
        """Links the program, in one of the forms, and returns it."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "program"
        link = [clang, *linker.options, "--offload-link"]
        libraries = ["-fuse-ld=lld", *self.libraries]
        if form == "objects":
            run(*link, *self.objects, *libraries, "-o", program)
        elif form == "archive":
            library = folder / "libunits.a"
            library.unlink(missing_ok=True)
            run("llvm-ar", "rcs", library, *(path for path in self.objects if path != self.main))
            run(*link, self.main, library, *libraries, "-o", program)
        elif form == "-r":
            run(*link, "-r", *self.objects, "-fuse-ld=lld", "-o", folder / "all.o")
            run(clang, folder / "all.o", *libraries, "-o", program)
        elif form == "host LTO":
            run(*link, "-flto", *self.bitcode, *libraries, "-o", program)
        return program


@dataclasses.dataclass
class Linked:
    """A linked program, taken apart."""

    ids: list
    images: dict  # code object by target
    calls: list

    @staticmethod
    def read(program, recorder):
        bundle = program.with_suffix(".hipfb")
        run("llvm-objcopy", f"--dump-section=.hip_fatbin={bundle}", program, os.devnull)
        ids = run("clang-offload-bundler", "-list", "-type=o", f"-input={bundle}").split()
        images = {}
        for bundle_id in ids:
            if bundle_id.startswith("host"):
                continue
            target = bundle_id.rpartition("--")[2]
            images[target] = str(program.with_name(f"{target}.img"))
            run("clang-offload-bundler", "-unbundle", "-type=o", f"-targets={bundle_id}", f"-input={bundle}",
                f"-output={images[target]}")
        calls = run(program, environment={"LD_PRELOAD": str(recorder)}).splitlines()
        return Linked(ids, images, calls)


def equal(one, other):
    return "equal" if one == other else "**differ**"


def without_entry(descriptor):
    """A descriptor without the distance to its code, which depends on the layout alone."""
    return descriptor[:16] + descriptor[24:]


def compare_images(theirs, ours):
    """What is compared of two code objects, each with whether it is equal."""
    (kernels, rest), (other_kernels, other_rest) = code_object.metadata(theirs), code_object.metadata(ours)
    one, other = code_object.descriptors(theirs), code_object.descriptors(ours)
    symbols = [without_numbers(code_object.output("llvm-readelf", "--symbols", "--dyn-syms", "-W", file))
               for file in (theirs, ours)]
    return {
        "kernels": equal(sorted(kernels), sorted(other_kernels)),
        "descriptors": equal(*({name: without_entry(kd) for name, kd in all.items()} for all in (one, other))),
        "notes": equal((kernels, rest), (other_kernels, other_rest)),
        "symbols": equal(*symbols),
        "instructions": equal(disassembled(theirs), disassembled(ours)),
    }


def compare_cut(whole, cut):
    """How many kernels have the same numbers as in one piece, more of something, or only less; and what else is equal."""
    (one, _), (other, _) = code_object.metadata(whole), code_object.metadata(cut)
    same, more, less, rest = 0, [], 0, True
    for name in sorted(set(one) & set(other)):
        (counts, text), (cut_counts, cut_text) = code_object.split(one[name]), code_object.split(other[name])
        deltas = {key: cut_counts[key] - counts[key] for key in counts if cut_counts[key] != counts[key]}
        rest = rest and text == cut_text
        if any(delta > 0 for delta in deltas.values()):
            more.append((name, deltas))
        elif deltas:
            less += 1
        else:
            same += 1
    checked = subprocess.run([sys.executable, INPUTS / "check.py", cut], stdout=subprocess.PIPE, text=True, check=False)
    return {
        "kernels": equal(sorted(one), sorted(other)),
        "rest of the notes": equal(rest, True),
        "exported symbols": equal(code_object.exported(whole), code_object.exported(cut)),
        "same": str(same), "less": str(less), "more": str(len(more)),
        "checker": checked.stdout.strip().splitlines()[-1].rpartition(", ")[2],
    }, more


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="objects; those with host code as bitcode in lto/")
    parser.add_argument("--main", default="main.o", help="the object that is not put into the archive")
    parser.add_argument("--dist", type=pathlib.Path, required=True, help="fatlink's folder, with bin/ inside")
    parser.add_argument("--size", default="1000", help="--offload-partition-size= of the cut link")
    parser.add_argument("--library", action="append", default=[], help="an argument of the host link, such as -lamdhip64")
    parser.add_argument("--form", action="append", choices=FORMS, help="only this form of link; can be repeated")
    parser.add_argument("--out", type=pathlib.Path, help="where to link; FOLDER/linked by default")
    arguments = parser.parse_args()
    program = Program.read(arguments.folder, arguments.main, arguments.library)
    out = arguments.out or arguments.folder / "linked"
    out.mkdir(parents=True, exist_ok=True)
    recorder = out / "recorder.so"
    run("gcc", "-shared", "-fPIC", "-w", HERE / "recorder.c", "-o", recorder, "-ldl")
    fatlink = [f"-B{arguments.dist}/bin"]
    linkers = [Linker("theirs", []), Linker(WHOLE, [*fatlink, "-Wl,--offload-partition-size=whole"]),
               Linker(CUT, [*fatlink, f"-Wl,--offload-partition-size={arguments.size}"])]
    forms = arguments.form or [form for form in FORMS if form != "host LTO" or program.bitcode]
    tables = {"equal": [], "cut": []}
    lists = []
    for form in forms:
        read = {}
        for linker in linkers:
            place = out / form.replace(" ", "-").lstrip("-") / linker.name.replace(" ", "-")
            read[linker.name] = Linked.read(program.link(form, linker, "clang++", place), recorder)
        theirs, whole, cut = (read[linker.name] for linker in linkers)
        calls = [equal(theirs.calls, other.calls) for other in (whole, cut)]
        ids = [equal(theirs.ids, other.ids) for other in (whole, cut)]
        for target in sorted(set(theirs.images) & set(whole.images) & set(cut.images)):
            count = len(code_object.metadata(theirs.images[target])[0])
            found = compare_images(theirs.images[target], whole.images[target])
            tables["equal"].append([form, target, count, *found.values(), ids[0], calls[0]])
            found, more = compare_cut(whole.images[target], cut.images[target])
            tables["cut"].append([form, target, count, *found.values(), ids[1], calls[1]])
            lists += [f"- {form}, {target}, `{name}`: {deltas}" for name, deltas in more]
    print(f"{len(program.objects)} units, {len(theirs.calls)} calls of the runtime\n")
    print(row("form", "target", "kernels", "names", "descriptors", "notes", "symbols", "instructions", "ids", "calls"))
    print(row(*["---"] * 10))
    print("\n".join(row(*cells) for cells in tables["equal"]), "\n")
    print(row("form", "target", "kernels", "names", "rest of the notes", "exported symbols", "the same", "less", "more",
              "checker", "ids", "calls"))
    print(row(*["---"] * 12))
    print("\n".join(row(*cells) for cells in tables["cut"]), "\n")
    print("\n".join(lists))


if __name__ == "__main__":
    main()
