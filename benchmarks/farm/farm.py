#!/usr/bin/env python3
"""Links with real engines: servers of the Remote Execution API and Slurm for jobs, and stores for shared results. Each link has to have the
bytes of a local one, whatever happens to the engine. Installs what it needs from Debian and PyPI, as root.

    farm.py --dist DIST --work FOLDER [--engine NAME]...
"""

import argparse
import os
import importlib
import pathlib
import sys

# No folder of compiled files in the sources.
sys.dont_write_bytecode = True

from common import Farm, Failed  # noqa: E402

# Each is a module of this folder with a function `test(farm)`.
ENGINES = ["reapi", "slurm", "webdav", "s3"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", required=True, help="the folder that `cargo xtask dist` makes")
    parser.add_argument("--cuda", default=os.environ.get("CUDA_PATH"), help="the CUDA toolkit, by default that of CUDA_PATH")
    parser.add_argument("--work", required=True, help="a folder for programs, servers and logs, which is kept")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one; may be repeated")
    arguments = parser.parse_args()
    farm = Farm(*(pathlib.Path(folder).resolve() for folder in (arguments.dist, arguments.cuda, arguments.work)))
    farm.compile()
    for name in arguments.engine or ENGINES:
        print(f"engine {name}", flush=True)
        try:
            importlib.import_module(name).test(farm)
        except Failed as error:
            farm.counts["failed"] += 1
            print(f"engine {name} FAILED: {error}", flush=True)
    print(f"{farm.counts['passed']} passed, {farm.counts['failed']} failed, 0 skipped")
    sys.exit(farm.counts["failed"] > 0)


main()
