#!/usr/bin/env python3
"""Gives LLVM's clang-linker-wrapper and fatlink each option of ld.lld's LTO, and compares what came out: see README.md beside this."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = HERE.parent.parent / "lit-tests/tests/hip/Inputs"
sys.path.insert(0, str(INPUTS))

import code_object  # noqa: E402
from compare import views  # noqa: E402

TRIPLE = "amdgcn-amd-amdhsa"
# The options of ld.lld's --help that concern LTO and LLVM.
CONCERNS = re.compile(r"^--?(no-)?(lto|thinlto|plugin|mllvm|opt-remarks|load-pass-plugin|save-temps)")
# A function of the second unit that the first one calls, and a kernel of the second.
FUNCTION, KERNEL = "_Z6scaledi", "_Z5scalePf"
# What stands behind options that take a value. An option that is missing here is an error: it is new, or its value was overlooked.
VALUES = {
    "--load-pass-plugin=": ["/none.so"],
    "--lto-aa-pipeline=": ["basic-aa"],
    "--lto-basic-block-sections=": ["none", "all", "/none"],
    "--lto-CGO": ["0", "1", "2", "3", "4"],
    "--lto-cs-profile-file=": ["/none"],
    "--lto-known-safe-vtables=": ["_ZTV1A"],
    "--lto-newpm-passes=": ["globaldce", "default<O1>", "no-such-pass"],
    "--lto-O": ["0", "1", "2", "3", "4", "s"],
    "--lto-partitions=": ["1", "8", "0"],
    "--lto-sample-profile=": ["/none"],
    "--lto=": ["full", "thin"],
    "--mllvm=": ["-amdgpu-dump-hsa-metadata", "-no-such-option"],
    "--opt-remarks-filename": ["remarks.yaml"],
    "--opt-remarks-format": ["yaml", "bitstream"],
    "--opt-remarks-hotness-threshold=": ["1", "many"],
    "--opt-remarks-passes": ["inline"],
    "--plugin-opt=-": ["amdgpu-dump-hsa-metadata", "mattr=+xnack", "mcpu=gfx908", "no-such-option", "pass-through=-lc"],
    "--plugin-opt=cs-profile-path=": ["/none"],
    "--plugin-opt=dwo_dir=": ["."],
    "--plugin-opt=jobs=": ["2", "all", "x"],
    "--plugin-opt=lto-partitions=": ["1", "8"],
    "--plugin-opt=obj-path=": ["kept.o"],
    "--plugin-opt=opt-remarks-filename=": ["remarks.yaml"],
    "--plugin-opt=opt-remarks-format=": ["yaml", "bitstream"],
    "--plugin-opt=opt-remarks-hotness-threshold=": ["1"],
    "--plugin-opt=opt-remarks-passes=": ["inline"],
    "--plugin-opt=O": ["0", "1", "2", "3", "4"],
    "--plugin-opt=sample-profile=": ["/none"],
    "--plugin-opt=stats-file=": ["stats.json"],
    "--plugin-opt=thinlto-index-only=": ["index"],
    "--plugin-opt=thinlto-object-suffix-replace=": [".a;.b"],
    "--plugin-opt=thinlto-prefix-replace=": ["a;b"],
    "--plugin-opt=time-trace=": ["trace.json"],
    "--plugin=": ["/none.so"],
    "--save-temps=": ["opt"],
    "--thinlto-cache-dir=": ["cache"],
    "--thinlto-cache-policy=": ["prune_after=1h"],
    "--thinlto-distributor-arg=": ["x"],
    "--thinlto-distributor=": ["/none"],
    "--thinlto-jobs=": ["2"],
    "--thinlto-remote-compiler-arg=": ["x"],
    "--thinlto-remote-compiler-prepend-arg=": ["x"],
    "--thinlto-remote-compiler=": ["/none"],
    "--thinlto-single-module=": ["x"],
}
# What --help does not list or lists elsewhere, and words as clang and users write them.
OTHERS = [
    ["-mllvm", "-amdgpu-dump-hsa-metadata"], ["--mllvm", "-amdgpu-dump-hsa-metadata"], ["-mllvm=-amdgpu-dump-hsa-metadata"],
    ["-mllvm", "-no-such-option"], ["-plugin-opt=O0"], ["-lto-O0"], ["-lto-CGO0"], ["--lto-O0", "--lto-CGO0"],
    ["--lto-newpm-passes", "globaldce"], ["--plugin-opt=mcpu=gfx90a"], ["--plugin-opt=mcpu=gfx908"], ["--plugin-opt=thinlto"],
    ["--plugin-opt=no-such-option"], ["--lto-no-such-option"], ["-plugin", "/none.so"], ["--thinlto-emit-index-files"],
    [f"--undefined={FUNCTION}"], ["-u", FUNCTION], [f"-u{FUNCTION}"], ["--undefined=nothing"], ["--undefined-glob=*scaled*"],
    [f"--entry={FUNCTION}"], ["-e", FUNCTION], [f"--defsym={FUNCTION}={KERNEL}"], [f"--wrap={FUNCTION}"],
    ["--print-map"], ["-M"], ["-Map", "out.map"], ["-Map=out.map"], ["--cref"], ["--trace"], ["-t"], [f"--trace-symbol={FUNCTION}"],
    [f"-y{FUNCTION}"], ["-y", KERNEL], ["--why-extract=-"], ["--gc-sections"], ["--print-gc-sections", "--gc-sections"], ["-O0"],
    ["--strip-all"], ["-s"], ["-Bsymbolic"], ["--hash-style=sysv"], ["--time-trace=trace.json"], ["--no-such-option"],
]
# Arguments of the inner clang.
COMPILER = [["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-Oz"], ["-Ofast"], ["-O0", "-fno-lto"], ["-fno-lto"], ["-flto=thin"],
            ["-flto-partitions=1"], ["-flto-partitions=8"], ["-flto-jobs=2"], ["-mcpu=gfx90a"], ["-mcpu=gfx908"], ["-g"],
            ["-mcode-object-version=5"], ["-fprofile-use=/none"], ["-fcs-profile-generate"], ["-fsave-optimization-record"],
            ["-mcumode"], ["-ffoo"]]


def listed(lld):
    """The options of --help, each with its values."""
    text = subprocess.run([lld, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = sorted({line.split()[0] for line in text.splitlines() if line.startswith("  -") and CONCERNS.match(line.strip())})
    found = []
    for name in names:
        option, bracket, _ = re.sub(r"\[.*", "<>", name).partition("<")
        takes = bool(bracket) or option in VALUES
        if takes and option not in VALUES:
            sys.exit(f"{name}: add a value for it to VALUES")
        # "--opt-remarks-filename <value>"
        joint = "" if not takes or option.endswith(("=", "-", "O")) else "="
        found += [[f"{option}{joint}{value}"] for value in VALUES[option]] if takes else [[option]]
    return found


@dataclasses.dataclass
class Result:
    """What one tool made of a line."""

    code: int
    text: str
    files: list
    image: object = None  # what was read of the code object
    kernels: object = None  # the notes of its kernels


def link(tool, objects, words, folder):
    """Links the objects with these arguments, in a folder of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    line = [tool, "--linker-path=/usr/bin/ld", "--emit-fatbin-only", *objects, "-o", "out.hipfb", *words]
    done = subprocess.run([str(word) for word in line], cwd=folder, env={**os.environ, "TMPDIR": str(folder / "tmp")},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    files = sorted(path.name for path in folder.iterdir() if path.name not in ("out.hipfb", "tmp", "out.img"))
    result = Result(done.returncode, done.stdout, files)
    if done.returncode == 0:
        target = f"-targets=hip-{TRIPLE}--gfx90a"
        subprocess.run(["clang-offload-bundler", "-unbundle", "-type=o", "-input=out.hipfb", "-output=out.img", target], cwd=folder,
                       check=True)
        result.image, result.kernels = read(folder / "out.img")
    return result


# What was read of files with this content: most options change nothing.
KNOWN = {}


def read(path):
    """What a code object holds, and the notes of its kernels; or the first bytes of another file."""
    content = path.read_bytes()
    if not content.startswith(b"\x7fELF"):
        return content[:4], None
    if content not in KNOWN:
        # Sections and symbols are in another order.
        seen = dict(views(str(path)))
        parts = {name: seen[name] for name in ("symbols", "notes", "instructions")}
        KNOWN[content] = parts, code_object.metadata(str(path))[0]
    return KNOWN[content]


def names(text, words):
    """Whether a message names the option, or what stands behind it."""
    return any(part and part in text for word in words for part in (word.partition("=")[0], word.rpartition("=")[2]))


def verdict(words, one, other, plain):
    """How the second tool's result compares with the first one's, and whether that is fine. `plain` are the results without an option."""
    said = names(other.text, words)
    if other.code:
        return ("rejected by both" if one.code else "rejected by name", said)
    if one.code:
        return ("rejected by the peer alone", True)
    if one.kernels != other.kernels or one.image != other.image and not any("partitions=" in word for word in words):
        return ("other code" + (", with a warning" if said else ""), said)
    if (one.text and not other.text) or (set(one.files) - set(other.files) and not said):
        return ("prints or writes less", False)
    if said and "warning: " in other.text:
        return ("equal, with a warning", True)
    return ("equal" if one.image != plain[0].image or one.text or one.files else "equal, as without the option", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fatlink", type=pathlib.Path, required=True, help="fatlink, as clang-linker-wrapper")
    parser.add_argument("--llvm", type=pathlib.Path, default="/usr/lib/llvm-22", help="LLVM's folder")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where to link")
    parser.add_argument("--all", action="store_true", help="print every line, not only those that differ")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="link with each N-th line only")
    arguments = parser.parse_args()
    binaries, out = arguments.llvm / "bin", arguments.out.resolve()
    os.environ["PATH"] = f"{binaries}:{os.environ['PATH']}"
    out.mkdir(parents=True, exist_ok=True)
    objects = []
    for name in ("main", "scale"):
        objects.append(out / f"{name}.o")
        subprocess.run([binaries / "clang++", "-x", "hip", "--offload-new-driver", "-fgpu-rdc", "-nogpuinc", "-nogpulib", "-O2",
                        "--offload-arch=gfx90a", "-c", INPUTS / f"{name}.hip", "-o", objects[-1]], check=True)
    # With words for all triples, AMD's and NVIDIA's options are both read.
    shared = [[f"--plugin-opt={option}"] for option in ("O0", "thinlto", "save-temps", "disable-verify", "mcpu=gfx90a", "-mattr=+ptx78")]
    shared += [["-mllvm", "-amdgpu-dump-hsa-metadata"], ["--lto-O0"], ["--mllvm=-amdgpu-dump-hsa-metadata"], ["--lto-emit-asm"], [""]]
    tools = [binaries / "clang-linker-wrapper", arguments.fatlink.resolve()]
    lines = [("linker", words) for words in listed(binaries / "ld.lld") + OTHERS] + [("compiler", words) for words in COMPILER]
    lines += [("linker for all", words) for words in shared]
    lines = lines[:: arguments.every]

    def both(number, kind, words):
        option, _, is_shared = kind.partition(" ")
        passed = [f"--device-{option}={'' if is_shared else TRIPLE + '='}{word}" for word in words]
        return [link(tool, objects, passed, out / f"{number}.{name}") for tool, name in zip(tools, ("theirs", "ours"))]

    plain = both("plain", "linker", [])
    if plain[0].image is None or plain[0].image != plain[1].image:
        sys.exit("the links without options differ")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda numbered: both(numbered[0], *numbered[1]), enumerate(lines)))
    counts, wrong = {}, 0
    for (kind, words), (one, other) in zip(lines, results):
        text, fine = verdict(words, one, other, plain)
        counts[text] = counts.get(text, 0) + 1
        wrong += not fine
        if arguments.all or not fine:
            print(f"{'ok' if fine else 'WRONG':6} {kind} {' '.join(words)}: {text}")
    print(f"{len(lines)} lines:", ", ".join(f"{count} {text}" for text, count in sorted(counts.items())))
    print(f"{wrong} that differ without a message")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
