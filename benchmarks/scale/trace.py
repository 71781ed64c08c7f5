#!/usr/bin/env python3
"""Measures the jobs of a link, for the simulation of `cargo xtask bench scale`: what each job costs, reads and writes.

    trace.py --dist DIST --cuda CUDA --name large --note "2 cores of …" -o large.json OBJECTS...
    trace.py --dist DIST --cuda CUDA --name small --note "2 cores of …" -o small.json --small-kernels 6000

The jobs run by way of a distributor, which is this script, too, --jobs of them at a time. Their processor time is taken, which another load
on the machine changes little. --small-kernels makes units of a hundred kernels each with a few instructions.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

LLVM = "/usr/lib/llvm-22/bin"
MARK = "--measure="


def run_job(command):
    """Runs a job, and returns the seconds of processor time that it and the tools that it starts take."""
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"a job failed: {' '.join(command)}")
    return round(used.ru_utime + used.ru_stime, 4)


def distribute():
    """Runs the jobs of a list, and writes what they took to a file."""
    out, _, count = sys.argv[1].removeprefix(MARK).rpartition(",")
    jobs = json.loads(pathlib.Path(sys.argv[-1]).read_text())
    common = jobs["common"]
    size = lambda path: os.stat(path).st_size
    with concurrent.futures.ThreadPoolExecutor(int(count)) as pool:
        seconds = list(pool.map(lambda job: run_job(common["args"] + job["args"]), jobs["jobs"]))
    units, rows = {}, []
    for job, taken in zip(jobs["jobs"], seconds, strict=True):
        manifest = job["args"][0]
        read = [path for path in job["inputs"] if path != manifest]
        for path in read:
            units.setdefault(path, (len(units), size(path)))
        rows.append({"seconds": taken, "units": [units[path][0] for path in read], "manifest": size(manifest),
                     "result": size(job["outputs"][0])})
    pathlib.Path(out).write_text(json.dumps({
        "program": size(common["args"][0]), "tools": sum(map(size, common["inputs"])),
        "units": [bytes for _, bytes in units.values()], "jobs": rows}))


def small_kernels(folder, count):
    """Objects with this many kernels, a hundred in each."""
    numbers = random.Random(1)
    objects = []
    for unit in range((count + 99) // 100):
        text = ['target triple = "nvptx64-nvidia-cuda"',
                'target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"',
                "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()"]
        for kernel in range(100 * unit, min(count, 100 * unit + 100)):
            text += [f"define ptx_kernel void @small_{kernel}(ptr %p, float %x) {{",
                     "  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()", "  %q = getelementptr float, ptr %p, i32 %t",
                     "  %v0 = load float, ptr %q"]
            length = numbers.randrange(2, 12)
            for step in range(length):
                operation = numbers.choice(["fadd", "fmul", "fsub", "fdiv"])
                text.append(f"  %v{step + 1} = {operation} float %v{step}, {numbers.choice(['%x', f'{float(kernel + step)}'])}")
            text += [f"  store float %v{length}, ptr %q", "  ret void", "}"]
        source = folder / f"small_{unit}.ll"
        source.write_text("\n".join(text) + "\n")
        bitcode, images = source.with_suffix(".bc"), source.with_suffix(".images")
        subprocess.run([f"{LLVM}/llvm-as", source, "-o", bitcode], check=True)
        subprocess.run([f"{LLVM}/llvm-offload-binary", "-o", images,
                        f"--image=file={bitcode},triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"], check=True)
        host = folder / "none.c"
        host.write_text("")
        objects.append(source.with_suffix(".o"))
        subprocess.run([f"{LLVM}/clang", "-c", host, "-Xclang", f"-fembed-offload-object={images}", "-o", objects[-1]], check=True)
    return objects


def main():
    if len(sys.argv) > 1 and sys.argv[1].startswith(MARK):
        return distribute()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--note", required=True, help="the machine, and its load")
    parser.add_argument("--small-kernels", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", required=True, dest="output")
    parser.add_argument("objects", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        objects = small_kernels(folder, arguments.small_kernels) if arguments.small_kernels else arguments.objects
        jobs, image = folder / "jobs.json", folder / "image"
        # A response file: there may be more objects than fit on a line.
        line = folder / "objects.rsp"
        line.write_text("\n".join(map(str, objects)))
        command = [f"{arguments.dist}/bin/fatlink", "--emit-fatbin-only", f"--cuda-path={arguments.cuda}", f"@{line}", "-o", image,
                   "--offload-stats=json", f"--offload-distributor={pathlib.Path(__file__).resolve()}",
                   f"--offload-distributor-arg={MARK}{jobs},{arguments.jobs}"]
        done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
        stats = json.loads(done.stdout)
        if not jobs.exists():
            sys.exit("the program is compiled in one piece: it has no jobs")
        resources = subprocess.run([f"{arguments.dist}/bin/offload-bundle", "resources", image], check=True,
                                   stdout=subprocess.PIPE, text=True)
        rows = (line.split() for line in resources.stdout.splitlines())
        kernels = sum(1 for row in rows if row and row[0].isdigit() and row[-1] != "[function]")
        phases = {phase["name"]: phase["cpu_seconds"] for phase in stats["phases"]}
        trace = {"name": arguments.name, "note": arguments.note, "kernels": kernels,
                 "plan_seconds": phases.get("symbols and partitions", 0), "join_seconds": phases.get("joining", 0),
                 **json.loads(jobs.read_text())}
        text = json.dumps(trace, separators=(",", ":")).replace('{"seconds"', '\n{"seconds"')
        pathlib.Path(arguments.output).write_text(text + "\n")


main()
