# Tests with hipcc and AMD's own headers and libraries, which `cargo xtask test` leaves out: they come from Debian's experimental suite.
# `cargo xtask test --rocm` installs them and runs these tests.

import os

tests = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "lit.cfg.py")
lit_config.load_config(config, tests)
config.test_source_root = os.path.dirname(__file__)
rocm = os.environ.get("FATLINK_ROCM") or lit_config.fatal("FATLINK_ROCM has to name the folder of `cargo xtask setup --rocm`")
config.substitutions += [
    ("%hipcc", os.path.join(rocm, "bin", "hipcc")),
    ("%rocm", rocm),
    ("%hip-inputs", os.path.join(os.path.dirname(tests), "hip", "Inputs")),
]
