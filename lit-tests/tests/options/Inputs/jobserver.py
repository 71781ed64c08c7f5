"""Runs a command as a recipe of `make -jN`, with a jobserver of N - 1 tokens, and says which tokens it has at the end.

usage: jobserver.py fifo|pipe TOKENS COMMAND...
"""

import os
import subprocess
import sys

kind, tokens, command = sys.argv[1], sys.argv[2], sys.argv[3:]
if kind == "fifo":  # GNU make from 4.4 on
    os.mkfifo("fifo")
    take = give = os.open("fifo", os.O_RDWR)
    address, inherited = f"fifo:{os.path.abspath('fifo')}", ()
else:  # before
    take, give = os.pipe()
    address, inherited = f"{take},{give}", (take, give)
os.write(give, tokens.encode())
environment = dict(os.environ, MAKEFLAGS=f" -j{len(tokens) + 1} --jobserver-auth={address} -- A=--jobserver-auth=0,0")
status = subprocess.run(command, env=environment, pass_fds=inherited, timeout=600).returncode
os.set_blocking(take, False)
try:
    left = os.read(take, 100).decode()
except BlockingIOError:
    left = ""
if kind == "fifo":
    os.remove("fifo")
print(f"status {status}, tokens '{''.join(sorted(left))}'")
