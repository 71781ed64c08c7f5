# Tests with Bazel, which `cargo xtask test` leaves out: Debian's package brings Java. `cargo xtask test --nightly` installs it and runs these tests.

import os

tests = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "lit.cfg.py")
lit_config.load_config(config, tests)
config.test_source_root = os.path.dirname(__file__)
# Bazel would download its rules, which Debian has as files.
rules = {"rules_java": "rules/java", "rules_proto": "rules/proto", "bazel_skylib": "tools/skylib",
         "platforms": "tools/platforms"}
overrides = " ".join(f"--override_repository={name}=/usr/share/bazel/{place}" for name, place in rules.items())
config.substitutions += [("%bazel-options", overrides)]
