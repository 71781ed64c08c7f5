#!/usr/bin/env python3
"""Measures fatlink's device links on a machine with many cores: see README.md beside this."""

import argparse
import os
import pathlib
import resource
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent


class Links:
    def __init__(self, cuda):
        self.cuda = cuda

    def measure(self, objects, jobs=None):
        """Links once, the device code alone; returns seconds by the clock and of all processors."""
        line = [HERE / "bin/clang-linker-wrapper", "--should-extract=sm_90", "--host-triple=x86_64-pc-linux-gnu"]
        line += ["--linker-path=/bin/true", f"--cuda-path={self.cuda}", "-o", HERE / "out"]
        for option in (f"--cuda-path={self.cuda}", "-O2", "-flto=full"):
            line.append(f"--device-compiler=nvptx64-nvidia-cuda={option}")
        line += [f"--wrapper-jobs={jobs}"] if jobs else []
        environment = dict(os.environ, PATH=f"{self.cuda}/bin:{os.environ['PATH']}", FATLINK_CACHE="off")
        before, start = processor_time(), time.monotonic()
        subprocess.run([*line, *objects], check=True, env=environment, stdout=subprocess.DEVNULL)
        return time.monotonic() - start, processor_time() - before


def processor_time():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def objects(corpus):
    return sorted((HERE / corpus).glob("*.o"))


def split(paths):
    """Units with one heavy kernel each, and all others."""
    heavy = [path for path in paths if path.name.startswith("chemistry")]
    return heavy, [path for path in paths if path not in heavy]


def best(measure, rounds):
    return min((measure() for _ in range(rounds)), key=lambda figures: figures[0])


def longest_alone(links, paths):
    """The heavy kernels, each linked alone with what it calls."""
    heavy, others = split(paths)
    shared = [path for path in others if path.stem in ("counters", "state", "noise", "closures")]
    times = {}
    for path in heavy:
        times[path.stem] = links.measure([path, *shared])[0]
        print(f"  {path.stem} alone: {times[path.stem]:.2f} s", flush=True)
    return max(times.values())


def report(name, value, goal, good):
    print(f"{name}: {value} (goal {goal}) {'ok' if good else 'MISSED'}", flush=True)


def links_of_one_corpus(links, cores, rounds):
    large = objects("large")
    print(f"large: {len(large)} units", flush=True)
    alone = longest_alone(links, large)
    wall, processor = best(lambda: links.measure(large), rounds)
    bound = max(alone, processor / cores)
    print(f"  all jobs: {wall:.2f} s, {processor:.1f} s of processor; longest kernel {alone:.2f} s; "
          f"processor / cores {processor / cores:.2f} s", flush=True)
    report("large, all jobs over its bound", f"{wall / bound:.2f}", 1.3, wall / bound <= 1.3)
    one, one_processor = links.measure(large, jobs=1)
    print(f"  one job: {one:.2f} s, {one_processor:.1f} s of processor; {one / wall:.2f} times slower", flush=True)
    flat = split(large)[1]
    wall = best(lambda: links.measure(flat), rounds)[0]
    one = links.measure(flat, jobs=1)[0]
    print(f"flat (large without the heavy kernels): all jobs {wall:.2f} s, one job {one:.2f} s")
    report("flat, one job over all jobs", f"{one / wall:.2f}", "at least 8 on 16 cores", one / wall >= 8)


def scale(links, rounds):
    units = objects("scale")
    shared = [path for path in objects("large") if path.stem in ("counters", "state", "noise", "closures")]
    costs = []
    for count in (1, 2, 5, 10, 20):
        wall, processor = best(lambda: links.measure([*shared, *units[:count]]), rounds)
        kernels = 100 * count
        costs.append(processor / kernels)
        print(f"  {kernels} kernels: {wall:.2f} s, {1000 * wall / kernels:.2f} ms each, "
              f"{1000 * processor / kernels:.2f} ms of processor each", flush=True)
    growth = costs[-1] / costs[0]
    report("processor time for each kernel, 2,000 over 100", f"{growth:.2f}", 1.25, growth <= 1.25)


def programs(rounds):
    """The peer's build and fatlink's, in turn; medians for each kernel."""
    times = {"ours": {}, "theirs": {}}
    for _ in range(rounds):
        for side, found in times.items():
            run = subprocess.run([HERE / f"program.{side}"], capture_output=True, text=True, check=False)
            if not run.stdout.rstrip().endswith("PASS"):
                print(f"program.{side} ended with {run.returncode}:\n{run.stdout}{run.stderr}")
                return
            for line in run.stdout.splitlines():
                if " median " in line:
                    name, figures = line.split(" median ", 1)
                    found.setdefault(name.strip(), []).append(float(figures.split()[0]))
            checksums = [line for line in run.stdout.splitlines() if "sum of" in line]
            print(f"  program.{side}: PASS; {'; '.join(checksums)}", flush=True)
    for name, ours in times["ours"].items():
        middle = [sorted(figures)[len(figures) // 2] for figures in (ours, times["theirs"][name])]
        ratio = middle[0] / middle[1]
        report(f"{name}: {middle[0]:.4f} ms, the peer {middle[1]:.4f} ms", f"{ratio:.3f}", 1.02, ratio <= 1.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", default="/usr/local/cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["links", "scale", "programs"], action="append")
    arguments = parser.parse_args()
    chosen = arguments.only or ["links", "scale", "programs"]
    links = Links(arguments.cuda)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores", flush=True)
    if "programs" in chosen:
        programs(arguments.rounds)
    if "links" in chosen:
        links_of_one_corpus(links, cores, arguments.rounds)
    if "scale" in chosen:
        scale(links, arguments.rounds)


if __name__ == "__main__":
    main()
