"""Runs a link with less and less memory, or with fewer and fewer processes.

usage: limits.py memory|processes COMMAND...

However little there is, the link ends by itself: well and with its output, or with an error and without any, and it leaves
nothing behind. Says in how many ways it has ended.
"""

import collections
import os
import pathlib
import resource
import subprocess
import sys

MIB = 1 << 20
kind, command = sys.argv[1], sys.argv[2:]
output, tmp = pathlib.Path("out"), pathlib.Path("tmp")
tmp.mkdir(exist_ok=True)
tmp.chmod(0o777)
pathlib.Path.cwd().chmod(0o777)


def run(limit, amount, words):
    return subprocess.run(
        words,
        preexec_fn=lambda: resource.setrlimit(limit, (amount, amount)),
        env={**os.environ, "TMPDIR": str(tmp.absolute()), "RUST_BACKTRACE": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )


if kind == "memory":
    limit = resource.RLIMIT_AS
    # Below that the program cannot be started at all.
    first = next(mib for mib in range(20, 500, 5) if run(limit, mib * MIB, [command[0], "--version"]).returncode == 0)
    amounts = [mib * MIB for mib in range(first + 5, first + 405, 25)]
else:
    limit, amounts = resource.RLIMIT_NPROC, range(1, 16)
    if os.geteuid() == 0:
        # The limit does not hold for root. Nobody else may read what root can.
        keep = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *keep, *command]

endings = collections.Counter()
for amount in amounts:
    output.unlink(missing_ok=True)
    link = run(limit, amount, command)
    said = f"{kind} {amount}: exit code {link.returncode}: {link.stderr}"
    # The host linker has errors and exit codes of its own.
    ours = link.returncode == 1 and any(line.startswith("fatlink: error: ") for line in link.stderr.splitlines())
    assert link.returncode == 0 or ours or "ld.lld" in link.stderr, said
    assert output.exists() == (link.returncode == 0), said
    assert "LLVM crashed" not in link.stderr, said
    # Rust's library has words of its own before ours where a thread has started and then gets no stack for its signals.
    assert "panicked" not in link.stderr or "failed to allocate an alternative stack" in link.stderr, said
    assert not list(tmp.iterdir()), said
    endings[link.returncode == 0] += 1
    print(said.strip())
print("fails with little, works with more:", endings[False] > 0 and endings[True] > 0)
