"""settle.py FILE: waits until a file was changed so long ago that its times tell whether it has changed again.

Where a file system counts whole seconds, that takes longer; a file that was changed exactly at a full second looks like one of such a file
system.
"""

import os
import sys
import time

for _ in range(6000):
    changed = os.stat(sys.argv[1]).st_ctime_ns
    if time.time_ns() - changed > (100_000_000 if changed % 1_000_000_000 else 5_000_000_000):
        sys.exit()
    time.sleep(0.01)
sys.exit(f"settle.py: the clock of {sys.argv[1]} stands still")
