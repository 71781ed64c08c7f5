# Tests with gigabytes of device code, which `cargo xtask test` leaves out: they need 6 GB of disk and a minute.
# `cargo xtask test --big` runs them.

import os
import shutil

tests = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "lit.cfg.py")
lit_config.load_config(config, tests)
config.test_source_root = os.path.dirname(__file__)
os.makedirs(config.test_exec_root, exist_ok=True)

# The registration object and the program hold one image each; GNU ld needs space beside them.
needed, free = 6_000_000_000, shutil.disk_usage(config.test_exec_root).free
if free < needed:
    lit_config.fatal(f"{config.test_exec_root} has {free / 1e9:.1f} GB free, and these tests need {needed / 1e9:.0f}: "
                     "let CARGO_TARGET_DIR name a folder on a larger disk")
