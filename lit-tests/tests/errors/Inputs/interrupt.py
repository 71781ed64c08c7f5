"""interrupt.py SIGNAL COMMAND...: a link that is ended by a signal while one of its tools runs.

The tool writes its process id to the file "tool" when it has started. Afterwards nothing may be left: no tool, no file
in TMPDIR, no output at ./out. Says how the link ended.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time


def wait_for(what, condition):
    deadline = time.monotonic() + 300
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"interrupt.py: {what}")
        time.sleep(0.01)


def is_running(pid):
    try:
        # A zombie has ended, too; it waits only for its parent.
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[-1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


tool, tmp = pathlib.Path("tool"), pathlib.Path("tmp")
for old in (tool, pathlib.Path("out")):
    old.unlink(missing_ok=True)
tmp.mkdir(exist_ok=True)
link = subprocess.Popen(sys.argv[2:], env={**os.environ, "TMPDIR": str(tmp.absolute())})
wait_for("the tool did not start", lambda: tool.exists() and tool.read_text().endswith("\n"))
assert list(tmp.iterdir()), "there is nothing in TMPDIR to be removed"
link.send_signal(signal.Signals[sys.argv[1]])
code = link.wait(timeout=300)
print("ended by", signal.Signals(-code).name if code < 0 else f"exit code {code}")
pid = int(tool.read_text())
try:
    wait_for("the tool is still running", lambda: not is_running(pid))
finally:
    if is_running(pid):
        os.kill(pid, signal.SIGKILL)
print("left:", [path.name for path in tmp.iterdir()], pathlib.Path("out").exists())
