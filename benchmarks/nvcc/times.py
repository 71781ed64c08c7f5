#!/usr/bin/env python3
"""Times device links of nvcc's objects by fatlink and nvcc, where there are many cores: see README.md beside this."""

import argparse
import concurrent.futures
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TARGET = "90"
FORMS = {"sass": "sm", "ptx": "compute", "lto": "lto"}


class Tools:
    def __init__(self, arguments):
        self.cuda, self.folder = arguments.cuda.resolve(), arguments.folder.resolve()
        self.fatlink = self.folder / "bin/clang-linker-wrapper"
        self.fatlink.parent.mkdir(parents=True, exist_ok=True)
        self.fatlink.unlink(missing_ok=True)
        if arguments.fatlink:
            self.fatlink.symlink_to(arguments.fatlink.resolve(strict=True))
        path = f"{self.cuda}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "CUDA_PATH": str(self.cuda)}
        self.environment.pop("FATLINK_CACHE", None)

    def run(self, *command):
        """Ends the script with the output of a command that fails."""
        done = subprocess.run([str(word) for word in command], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))[:400]} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def time(self, command):
        """Seconds by the clock, and of all processors."""
        before, start = processor_time(), time.monotonic()
        self.run(*command)
        return time.monotonic() - start, processor_time() - before

    def compile(self, source, form, include):
        target = self.folder / form / source.relative_to(source.parents[1]).with_suffix(".o")
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_suffix(".part.o")
            self.run(self.cuda / "bin/nvcc", "-std=c++17", "-O2", "-dc", "-w", f"-I{include}",
                     f"-I{self.cuda}/include/cccl", f"-gencode=arch=compute_{TARGET},code={FORMS[form]}_{TARGET}",
                     source, "-o", part)
            part.rename(target)
        return target

    def nvcc(self, objects, options):
        return [self.cuda / "bin/nvcc", "-dlink", *options, f"-gencode=arch=compute_{TARGET},code=sm_{TARGET}",
                *objects, "-o", self.folder / "nvcc.o"]

    def fatlink_line(self, objects, *options):
        """The device link alone: the host linker is /bin/true."""
        return [self.fatlink, "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true",
                f"--cuda-path={self.cuda}", f"--offload-sass=sm_{TARGET}", *options,
                "-o", self.folder / "fatlink.out", *objects]

    def kernels(self, file):
        dump = self.run(self.cuda / "bin/cuobjdump", "--dump-elf-symbols", file)
        return sorted(line.split()[-1] for line in dump.splitlines() if "STO_ENTRY" in line or " ENTRY " in line)


def processor_time():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def nvcc_at_its_best(tools, form, objects, cores):
    """The options of nvcc's device link; with LTO, the number of threads with which one link took least."""
    if form != "lto":
        return []
    times = {}
    for threads in {max(1, cores // 2), cores}:
        times[threads] = tools.time(tools.nvcc(objects, ["-dlto", f"-split-compile-extended={threads}"]))[0]
    shown = ", ".join(f"{threads}: {seconds:.1f} s" for threads, seconds in times.items())
    print(f"  nvcc -dlto with -split-compile-extended= {shown}")
    return ["-dlto", f"-split-compile-extended={min(times, key=times.get)}"]


def in_turn(rounds, theirs, ours):
    """A B A B …; the runs of both."""
    return zip(*((theirs(), ours()) for _ in range(rounds)))


def report(name, theirs, ours):
    ratios = [our_wall / their_wall for (our_wall, _), (their_wall, _) in zip(ours, theirs)]
    figures = [f"{side} {statistics.median(wall for wall, _ in runs):.2f} s, "
               f"{statistics.median(processor for _, processor in runs):.2f} s of processor"
               for side, runs in (("fatlink", ours), ("nvcc", theirs))]
    print(f"{name}: fatlink over nvcc {spread(ratios)}; {'; '.join(figures)}", flush=True)


def measure(tools, form, objects, changed, arguments):
    options = nvcc_at_its_best(tools, form, objects, arguments.jobs)
    theirs = tools.nvcc(objects, options)
    if not arguments.fatlink:
        times = [tools.time(theirs) for _ in range(arguments.rounds)]
        print(f"{form}: nvcc {spread([wall for wall, _ in times])} s, "
              f"{statistics.median(processor for _, processor in times):.2f} s of processor, "
              f"{len(tools.kernels(tools.folder / 'nvcc.o'))} kernels", flush=True)
        return
    # Code that is split in the same way.
    ours = [f"--device-linker={option}" for option in options if option != "-dlto"]
    line = tools.fatlink_line(objects, *ours)
    their_runs, our_runs = in_turn(arguments.rounds, lambda: tools.time(theirs), lambda: tools.time(line))
    report(form, their_runs, our_runs)
    compare_kernels(tools, objects, ours)
    # nvcc keeps nothing: its runs count for this, too.
    report(f"{form}, one unit changed", their_runs, relinks(tools, objects, changed, ours, arguments.rounds))


def relinks(tools, objects, changed, options, rounds):
    """fatlink's links of the changed objects, each with the cache that a link before the change left."""
    cache, kept = tools.folder / "cache", tools.folder / "cache-kept"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    tools.run(*tools.fatlink_line(objects, *options, f"--offload-cache={kept}"))
    others = [changed if path.name == changed.name else path for path in objects]
    runs = []
    for _ in range(rounds):
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(kept, cache)
        runs.append(tools.time(tools.fatlink_line(others, *options, f"--offload-cache={cache}")))
    return runs


def compare_kernels(tools, objects, options):
    """A linker that loses kernels is fast."""
    tools.run(*tools.fatlink_line(objects, *options, "--emit-fatbin-only"))
    theirs, ours = tools.kernels(tools.folder / "nvcc.o"), tools.kernels(tools.folder / "fatlink.out")
    lost, more = set(theirs) - set(ours), set(ours) - set(theirs)
    differences = [f"; {title} {sorted(names)[:3]}" for title, names in (("MISSING", lost), ("only fatlink's", more))
                   if names]
    print(f"  {len(ours)} kernels, nvcc {len(theirs)}{''.join(differences)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=pathlib.Path, required=True, help="written by cargo xtask bench --sources")
    parser.add_argument("--cuda", type=pathlib.Path, default=pathlib.Path("/usr/local/cuda"))
    parser.add_argument("--fatlink", type=pathlib.Path, help="the program; without it nvcc links alone")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/nvcc-times"), help="for all files")
    parser.add_argument("--form", choices=FORMS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="units whose names contain this")
    parser.add_argument("--without", action="append", default=[], help="no units whose names contain this")
    arguments = parser.parse_args()
    tools = Tools(arguments)
    root = arguments.sources.resolve()
    sources = sorted(path for path in root.glob("*.cu") if arguments.only in path.name
                     and not any(word in path.name for word in arguments.without))
    changed = next((root / "changed").glob("*.cu"))
    print(f"{len(sources)} units, {arguments.jobs} cores", flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for form in arguments.form or FORMS:
            start = time.monotonic()
            compiled = pool.map(lambda source, form=form: tools.compile(source, form, HERE.parent / "include"),
                                [*sources, changed])
            *objects, changed_object = compiled
            print(f"{form}: compiled in {time.monotonic() - start:.0f} s", flush=True)
            measure(tools, form, objects, changed_object, arguments)


if __name__ == "__main__":
    main()
