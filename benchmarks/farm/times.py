#!/usr/bin/env python3
"""Times a link over a server of the Remote Execution API with workers on this machine against a local one with as many jobs, in turn.

    times.py --dist DIST --cuda CUDA --work FOLDER --jobs 2 --rounds 5 OBJECTS...

The store has the program and the tools, as for any link but the first, and no result is known. Prints the ratio of wall times with minimum
and maximum, and what a job costs beside running it. OBJECTS are those of `cargo xtask bench --objects large`, for example. --buildbox
names a folder with the server, for a machine without a network.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True

from common import Farm, check  # noqa: E402
from reapi import Casd, distributor, engine  # noqa: E402


def timed(farm, arguments):
    begun = time.monotonic()
    link = farm.link("timed", arguments)
    return time.monotonic() - begun, link


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--buildbox")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("objects", nargs="+")
    arguments = parser.parse_args()
    farm = Farm(*(pathlib.Path(folder).resolve() for folder in (arguments.dist, arguments.cuda, arguments.work)))
    farm.programs["timed"] = [pathlib.Path(path).resolve() for path in arguments.objects]
    farm.partition_size = None
    buildbox = pathlib.Path(arguments.buildbox).resolve() if arguments.buildbox else engine(farm)
    local = [f"--wrapper-jobs={arguments.jobs}"]
    with Casd(farm, buildbox, "times", workers=arguments.jobs) as casd:
        # Nothing runs here unless the server fails: the processors are those of the workers.
        remote = [*local, *distributor(farm, casd.port, "--no-cached-results", "--patience=600")]
        farm.expected = {"timed": farm.link("timed", local).image}
        begun = time.monotonic()
        farm.same(farm.link("timed", remote), "timed")
        print(f"first link, with an empty store: {time.monotonic() - begun:.1f} s", flush=True)
        ratios, costs = [], []
        for number in range(arguments.rounds):
            here, _ = timed(farm, local)
            there, link = timed(farm, remote)
            farm.same(link, "timed")
            check(link.returned == 0, f"jobs came back: {link.messages}")
            ratios.append(there / here)
            costs.append((there - here) * arguments.jobs / link.elsewhere)
            print(f"round {number + 1}: local {here:.2f} s, over the server {there:.2f} s, {link.elsewhere} jobs", flush=True)
    print(f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}), "
          f"a job costs {1000 * statistics.median(costs):.0f} ms more ({1000 * min(costs):.0f}-{1000 * max(costs):.0f})")


main()
