# LLVM's own tests of clang-linker-wrapper, run with fatlink in its place: `cargo xtask upstream-tests`.
#
# It rewrites the tests so that every call of the tool leaves its result in a file; bash runs them to their end.

import os

import lit.formats

config.name = "upstream"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".c"]
tests = lit_config.params["tests"]
config.test_source_root = tests
config.test_exec_root = os.path.join(tests, "out")

wrapper = lit_config.params["wrapper"]
llvm = lit_config.params["llvm"]
config.substitutions += [
    (r"%clang\b", os.path.join(llvm, "bin", "clang")),
    (r"ln -s clang-linker-wrapper\b", f"ln -s {wrapper}"),
    (r"(?<![-\w/])clang-linker-wrapper(?=\s)", " ".join([wrapper, lit_config.params.get("options", "")])),
]
targets = ["x86", "nvptx", "amdgpu", "spirv"]
config.available_features.update(f"{target}-registered-target" for target in targets)
config.available_features.update(["lld", "shell", "system-linux"])
config.environment["PATH"] = os.pathsep.join([os.path.join(llvm, "bin"), os.environ["PATH"]])
config.environment["HOME"] = config.test_exec_root
for variable in ["LD_LIBRARY_PATH", "CUDA_PATH"]:
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
