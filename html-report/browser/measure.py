#!/usr/bin/python3
"""Measures how long a report takes to be on the screen, and a search in it, in milliseconds; prints JSON. Times are those of a clock, which on a
busy machine measures the machine; `processor` is the processor time of the page's main thread.

usage: measure.py REPORT.html [--rounds N]
       measure.py --bundle PROGRAM --work FOLDER [--rounds N]    makes a report of 10,000 kernels with offload-bundle
"""

import argparse
import json
import pathlib
import statistics
import sys

import kernels
from driver import browser


def searches(on):
    """Parts of names, as they are typed, a target, and a comparison of numbers."""
    name = on.run("const { names } = JSON.parse(document.getElementById('data').textContent); return names[Math.floor(names.length / 2)][0]")
    return [name[:3], name[:8], name, "sm_ kernel", "registers>=8", "no-such-name", ""]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("report", nargs="?", type=pathlib.Path)
    arguments.add_argument("--bundle", type=pathlib.Path)
    arguments.add_argument("--work", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    report = options.report or kernels.report(options.bundle, options.work)
    views, filters, processor = [], [], {"views": [], "searches": []}
    with browser() as on:
        on.size(1280, 900)
        for _ in range(options.rounds):
            views.append(on.open(report))
            processor["views"].append(on.processor_time())
            texts = searches(on)
            for text in texts:
                before = on.processor_time()
                filters.append(on.search(text))
                processor["searches"].append(on.processor_time() - before)
        number = on.run("return JSON.parse(document.getElementById('data').textContent).names.length")
    json.dump({"kernels": number, "bytes": report.stat().st_size, "first_view": statistics.median(views), "slowest_view": max(views), "search": statistics.median(filters),
               "slowest_search": max(filters),
               "processor": {name: {"median": statistics.median(times), "most": max(times)} for name, times in processor.items()}},
              sys.stdout)
    print()


if __name__ == "__main__":
    main()
