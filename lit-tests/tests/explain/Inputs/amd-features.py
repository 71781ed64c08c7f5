"""Prints the target ids with one feature that only one of clang and offload-bundle accepts."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

clang, offload_bundle, processors = sys.argv[1:]


def accepts(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def compare(target):
    theirs = accepts(clang, "-x", "c", "-target", "amdgcn-amd-amdhsa", "-nogpulib", f"-mcpu={target}", "-fsyntax-only", "/dev/null")
    ours = accepts(offload_bundle, "explain", "x.hipfb", "--gpu", target)
    return [] if ours == theirs else [f"{target}: clang {theirs}, offload-bundle {ours}"]


names = open(processors).read().split()
with ThreadPoolExecutor(4) as pool:
    for lines in pool.map(compare, [f"{name}:{feature}" for name in names for feature in ("xnack+", "sramecc-")]):
        for line in lines:
            print(line)
