# smaller.py FILE OTHER BYTES: fails unless FILE is at least BYTES smaller than OTHER.
import os
import sys

file, other, least = sys.argv[1:]
saved = os.path.getsize(other) - os.path.getsize(file)
sys.exit(0 if saved >= int(least) else f"only {saved} bytes smaller")
