#!/usr/bin/python3
"""Makes reports of every kind with the programs in dist/, and opens them in headless Chromium: check.py.

usage: test.py --dist FOLDER --work FOLDER [REPORT.html...]    `cargo xtask test --browser` does this
"""

import argparse
import os
import pathlib
import subprocess
import sys

import check
import kernels
from driver import browser

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLANG = "/usr/lib/llvm-22/bin/clang++"
TARGETS = ["--offload-arch=sm_80", "--offload-arch=sm_90"]
HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028\u202e.o"


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def difference(bundle, work):
    """What differs between two fatbins with some kernels in common."""
    for name, numbers in (("old", range(0, 60)), ("new", range(20, 90))):
        source, cubin = work / f"{name}.ptx", work / f"{name}.cubin"
        source.write_text(kernels.ptx(numbers))
        # The optimizer of the second one makes other code of the same kernels.
        run("ptxas", "-O3" if name == "old" else "-O0", "-arch", "sm_80", source, "-o", cubin)
        run(bundle, "create", "-o", work / f"{name}.fatbin", f"--image=file={cubin}", f"--image=file={source}")
    run(bundle, "report", "--diff", work / "old.fatbin", work / "new.fatbin", "-o", work / "difference.html")
    return work / "difference.html"


def link(dist, work):
    """A link in several jobs, and the program that it writes."""
    cuda = os.environ["CUDA_PATH"]
    common = [f"--cuda-path={cuda}", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-foffload-lto", "-O2"]
    objects = []
    sources = [path for path in sorted((ROOT / "samples/cuda").rglob("*")) if path.suffix in (".cu", ".cpp")]
    for source in sources:
        objects.append(work / f"{source.stem}.o")
        to_device = ["-x", "cuda", *TARGETS, *common] if source.suffix == ".cu" else ["-O2"]
        run(CLANG, *to_device, f"-I{ROOT / 'samples/cuda'}", "-c", source, "-o", objects[-1])
    run(CLANG, "-B", dist / "bin", "--offload-link", *common, *objects, "-o", work / "program", f"-L{cuda}/lib", "-lcudart_static",
        "-ldl", "-lrt", "-lpthread", "-Wl,--offload-partition-size=1", "-Wl,--offload-ptx=newest",
        f"-Wl,--offload-report=html:{work / 'link.html'}")
    run(dist / "bin/offload-bundle", "report", work / "program", "-o", work / "program.html")
    return [work / "link.html", work / "program.html"]


def hostile(bundle, work):
    """An archive whose member's name is markup."""
    data = (work / "old.cubin").read_bytes()
    name = HOSTILE.encode() + b"/\n"
    member = lambda label, body: b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (label, b"0", b"0", b"0", b"644", len(body)) + body + b"\n" * (len(body) % 2)
    (work / "hostile.a").write_bytes(b"!<arch>\n" + member(b"//", name) + member(b"/0", data))
    run(bundle, "report", work / "hostile.a", "-o", work / "hostile.html")
    return work / "hostile.html"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dist", type=pathlib.Path, required=True)
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("reports", nargs="*", type=pathlib.Path, help="further reports to open")
    options = arguments.parse_args()
    work, dist = options.work, options.dist
    work.mkdir(parents=True, exist_ok=True)
    bundle = dist / "bin/offload-bundle"
    pages = [*link(dist, work), difference(bundle, work), hostile(bundle, work), kernels.report(bundle, work), *options.reports]
    with browser() as on:
        on.size(1280, 900)
        return check.all_of(on, pages, work / "screenshots")


if __name__ == "__main__":
    sys.exit(main())
