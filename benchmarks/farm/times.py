#!/usr/bin/env python3
"""Times a link whose jobs run in an engine on this machine against a local one with as many jobs, in turn.

    times.py --dist DIST --cuda CUDA --work FOLDER --engine reapi --jobs 2 --rounds 5 OBJECTS...
    times.py --dist DIST --cuda CUDA --work FOLDER --engine slurm --nodes 2 --jobs 2 --rounds 5 OBJECTS...

No result is known; a server of the Remote Execution API has the program and the tools, as for any link but the first. Prints the ratio of wall
times with minimum and maximum, and what a job costs beside running it. OBJECTS are those of `cargo xtask bench --objects large`, for example.
--packages names a folder with the engine, for a machine without a network. With --nodes, the jobs of Slurm are shared by nodes that each have a
part of the processors.
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True

from common import Farm, check  # noqa: E402
import reapi  # noqa: E402
import slurm  # noqa: E402


def timed(farm, arguments, **options):
    begun = time.monotonic()
    link = farm.link("timed", arguments, **options)
    return time.monotonic() - begun, link


@contextlib.contextmanager
def server(farm, arguments):
    """The arguments of a link with a server, and its environment. Nothing runs in the link unless the server fails: the processors are those
    of its workers."""
    buildbox = pathlib.Path(arguments.packages).resolve() if arguments.packages else reapi.engine(farm)
    with reapi.Casd(farm, buildbox, "times", workers=arguments.jobs) as casd:
        yield reapi.distributor(farm, casd.port, "--no-cached-results", "--patience=600"), {}


@contextlib.contextmanager
def cluster(farm, arguments):
    """The arguments of a link with Slurm, and its environment."""
    with slurm.Cluster(farm, arguments.nodes, arguments.jobs, arguments.packages) as nodes:
        check(nodes.processors == arguments.jobs, f"{arguments.nodes} nodes have {nodes.processors} processors and not {arguments.jobs}")
        yield slurm.distributor(farm, nodes), nodes.env


ENGINES = {"reapi": server, "slurm": cluster}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--engine", choices=ENGINES, default="reapi")
    parser.add_argument("--packages")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("objects", nargs="+")
    arguments = parser.parse_args()
    farm = Farm(*(pathlib.Path(folder).resolve() for folder in (arguments.dist, arguments.cuda, arguments.work)))
    farm.programs["timed"] = [pathlib.Path(path).resolve() for path in arguments.objects]
    farm.partition_size = None
    local = [f"--wrapper-jobs={arguments.jobs}"]
    with ENGINES[arguments.engine](farm, arguments) as (words, environment):
        remote = [*local, *words]
        farm.expected = {"timed": farm.link("timed", local).image}
        seconds, link = timed(farm, remote, env=environment)
        farm.same(link, "timed")
        print(f"first link: {seconds:.1f} s", flush=True)
        ratios, costs = [], []
        for number in range(arguments.rounds):
            here, _ = timed(farm, local)
            there, link = timed(farm, remote, env=environment)
            farm.same(link, "timed")
            check(link.elsewhere > 0 and link.returned == 0, f"not all jobs ran elsewhere: {link.messages}")
            ratios.append(there / here)
            costs.append((there - here) * arguments.jobs / link.elsewhere)
            nodes = slurm.nodes_text(slurm.jobs_of_nodes(link))
            print(f"round {number + 1}: local {here:.2f} s, elsewhere {there:.2f} s, {link.elsewhere} jobs {nodes}".rstrip(), flush=True)
    print(f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}), "
          f"a job costs {1000 * statistics.median(costs):.0f} ms more ({1000 * min(costs):.0f}-{1000 * max(costs):.0f})")


main()
