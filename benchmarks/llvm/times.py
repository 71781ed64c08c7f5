"""Runs the programs beside this, each side in turn, and compares the times that they print: the least of several runs."""

import argparse
import collections
import pathlib
import re
import shlex
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
NUMBER = re.compile(r"\d+\.?\d*(?:e[-+]?\d+)?")


def times(output):
    """The numbers in lines about time, by their place."""
    lines = [line for line in output.splitlines() if re.search(r"time|\b[mu]?s\b|seconds", line, re.IGNORECASE)]
    return {f"{' '.join(re.sub(NUMBER, '#', line).split())} [{place}]": float(number)
            for line in lines for place, number in enumerate(NUMBER.findall(line))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=int, default=60, help="seconds of one run, and of all runs of a program before the last round")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    for folder in sorted((HERE / "programs").iterdir()):
        if not (folder / "arguments").exists() or (options.programs and folder.name not in options.programs):
            continue
        arguments = shlex.split((folder / "arguments").read_text())
        sides = sorted(path for path in folder.iterdir() if path.name != "arguments")
        least = {side.name: collections.defaultdict(lambda: float("inf")) for side in sides}
        codes = {}
        begin = time.monotonic()
        for turn in range(options.rounds):
            if turn and time.monotonic() - begin > options.limit:
                break
            for side in sides:
                try:
                    ran = subprocess.run([side, *arguments], cwd=folder, capture_output=True, text=True, errors="replace", timeout=options.limit)
                except subprocess.TimeoutExpired:
                    codes[side.name] = "timeout"
                    continue
                codes[side.name] = (ran.returncode, *re.findall(r"PASS|FAIL|[Mm]ismatch", ran.stdout))
                for what, number in times(ran.stdout).items():
                    least[side.name][what] = min(least[side.name][what], number)
        print(f"{folder.name}: {turn + 1} runs, {'ends alike' if len(set(codes.values())) == 1 else 'DIFFERS'}: {codes}", flush=True)
        for what in least[sides[-1].name]:
            figures = [least[side.name][what] for side in sides]
            print(f"    {what}: " + ", ".join(f"{side.name} {figure:.6g}" for side, figure in zip(sides, figures)), flush=True)


main()
