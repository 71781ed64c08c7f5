"""Compares the gate with this machine's driver on random fatbins: what it passes must load, and what it refuses must not.

    python3 benchmarks/gate/fatbins.py make FOLDER [--count 500] [--seed 1] [--cuda TOOLKIT ...]
    python3 benchmarks/gate/fatbins.py judge FOLDER [--offload-bundle dist/bin/offload-bundle]

Each fatbin has one to six entries, of machine code, PTX and LTO-IR for random targets, some of them twice, in a random compression, and in
every third one bit is flipped. Each image is made by one of the toolkits, and so is the fatbin; CUDA_PATH is the only one by default. `make`
needs no GPU, `judge` no toolkit. Without a GPU, the verdicts alone are counted (--no-gpu).
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess

TARGETS = ["75", "80", "86", "89", "90", "90a", "100", "100a", "100f", "103", "120", "120f", "121"]
PTX_VERSIONS = ["7.8", "8.0", "8.4", "8.8", "9.0", "9.1", "9.3", "9.5"]
COMPRESSIONS = [["--compress=false"], ["--compress-all"], ["--compress-all", "--compress-mode=speed"], []]
# Since CUDA 13.5.
CONCATENATION = ["--concat"]
# A damaged image may hang the driver.
LONGEST = 60

PTX = """.version {version}
.target sm_{target}
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<2>;
.reg .b64 %d<2>;
ld.param.u64 %d1, [p];
mov.u32 %r1, {number};
st.global.u32 [%d1], %r1;
ret;
}}
"""


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


class Toolkit:
    """The tools of one CUDA release."""

    def __init__(self, place, folder):
        self.tools = place / "bin"
        self.folder = folder / place.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.concatenates = "--concat" in run(self.tools / "fatbinary", "--help").stdout

    def lto_ir(self, target):
        """LTO-IR of one kernel, made once. A target that only this family or GPU has is not one of a virtual architecture of LTO-IR."""
        number = target.rstrip("af")
        file = self.folder / f"{number}.ltoir"
        if not file.exists():
            source = self.folder / "k.cu"
            source.write_text('extern "C" __global__ void k(unsigned *p) { *p = 1; }\n')
            run(self.tools / "nvcc", "-ltoir", "-gencode", f"arch=compute_{number},code=lto_{number}", source, "-o", file)
        return file


def entry(random_, folder, number, toolkits):
    """One option of fatbinary, for a random image."""
    kind, target = random_.choice(["elf", "elf", "ptx", "ptx", "nvvm"]), random_.choice(TARGETS)
    toolkit = random_.choice(toolkits)
    stem = folder / str(number)
    if kind == "nvvm":
        return f"--image3=kind=nvvm,sm={target},file={toolkit.lto_ir(target)}"
    ptx = stem.with_suffix(".ptx")
    version = random_.choice(PTX_VERSIONS) if kind == "ptx" else "9.0"
    ptx.write_text(PTX.format(version=version, target=target, number=number))
    if kind == "ptx":
        return f"--image3=kind=ptx,sm={target},file={ptx}"
    cubin = stem.with_suffix(".cubin")
    options = random_.choice([[], [], ["-c"]])
    run(toolkit.tools / "ptxas", "-arch", f"sm_{target}", *options, ptx, "-o", cubin)
    return f"--image3=kind=elf,sm={target},file={cubin}"


def generate(random_, folder, toolkits):
    """A random fatbin, at a place where load-modules finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    images = [entry(random_, folder, number, toolkits) for number in range(random_.randint(1, 6))]
    images += random_.sample(images, random_.randint(0, min(2, len(images))))
    fatbin, toolkit = folder / "0.fatbin", random_.choice(toolkits)
    how = [*COMPRESSIONS, *([CONCATENATION] if toolkit.concatenates else [])]
    run(toolkit.tools / "fatbinary", "-64", f"--create={fatbin}", *random_.choice(how), *images)
    (folder / "0.kernels").write_text("k")
    if random_.random() < 1 / 3:
        data = bytearray(fatbin.read_bytes())
        # Behind the container's own header: its size decides how much the driver reads.
        data[random_.randrange(16, len(data))] ^= 1 << random_.randrange(8)
        fatbin.write_bytes(data)
        (folder / "flipped").touch()


def verdict(program, fatbin, gpu, driver, forced):
    """Whether the gate passes a fatbin; None if it cannot be read, so that no driver may get it."""
    if forced:
        command = [program, "explain", fatbin, "--gpu", gpu, "--driver", driver, "--ptx-jit=forced", "--json"]
    else:
        command = [program, "check", fatbin, "--gpus", gpu, "--driver", driver, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 2):
        return None
    return done.returncode == 0


def environment(mode, forced):
    """The environment of a process whose modules the driver loads so."""
    variables = dict(os.environ, CUDA_MODULE_LOADING=mode, CUDA_CACHE_DISABLE="1")
    if forced:
        variables["CUDA_FORCE_PTX_JIT"] = "1"
    return variables


def loads(program, folder, mode, forced):
    """Whether the driver loads a fatbin and finds its kernel, or how it fails."""
    try:
        command = [program, "load-modules", folder, "1"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(mode, forced), timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return False, "hangs"
    lines = done.stdout.splitlines()
    if len(lines) < 2:
        return False, f"ends the process ({done.returncode})"
    failure = json.loads(lines[1])["failure"]
    return failure is None, failure or ""


def machine(program, folder):
    """The GPU and the driver of this machine."""
    done = subprocess.run([program, "load-modules", folder, "0"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    gpu = json.loads(done.stdout.splitlines()[0])["gpu"]
    text = pathlib.Path("/proc/driver/nvidia/version").read_text()
    return f"sm_{gpu}", re.search(r"\b(\d+)\.\d+", text).group(1)


def print_counts(counts):
    """Prints how often each verdict met each outcome; the first word of a key is whether PTX was forced."""
    for key, count in sorted(counts.items(), key=str):
        words = ["forced PTX" if key[0] else "as usual", *map(str, key[1:])]
        print(f"{count:6}  {', '.join(words)}")


def make(options):
    random_ = random.Random(options.seed)
    places = options.cuda or [pathlib.Path(os.environ["CUDA_PATH"])]
    toolkits = [Toolkit(place.absolute(), options.folder / "lto-ir") for place in places]
    for number in range(options.count):
        generate(random_, options.folder / "fatbins" / str(number), toolkits)
    print(f"{options.count} fatbins, seed {options.seed}")


def judge_one(folder, options, program, machine_):
    """How a fatbin is judged and loaded: the keys of its counts, and what the two disagree on."""
    keys, fatbin = [], folder / "0.fatbin"
    kind = "a bit flipped" if (folder / "flipped").exists() else "whole"
    for forced in (False, True):
        passes = verdict(program, fatbin, *machine_, forced)
        word = {None: "unreadable", True: "passed", False: "refused"}[passes]
        if passes is None or options.no_gpu:
            keys.append((forced, kind, word))
            continue
        for mode in ("LAZY", "EAGER"):
            runs, failure = loads(program, folder, mode, forced)
            keys.append((forced, kind, mode, word, "loads" if runs else "fails"))
            if passes != runs:
                print(f"{fatbin}: {kind}, {word}, forced={forced}, {mode}: {failure or 'loads'}", flush=True)
    return keys


def judge(options):
    program = options.offload_bundle.resolve()
    machine_ = ("sm_90", "580") if options.no_gpu else machine(program, options.folder)
    folders = sorted((options.folder / "fatbins").iterdir(), key=lambda folder: int(folder.name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = collections.Counter(key for keys in pool.map(lambda folder: judge_one(folder, options, program, machine_), folders)
                                     for key in keys)
    print(f"{len(folders)} fatbins, {' with driver '.join(machine_)}")
    print_counts(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "judge"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuda", type=pathlib.Path, action="append")
    parser.add_argument("--offload-bundle", type=pathlib.Path, default=pathlib.Path("dist/bin/offload-bundle"))
    parser.add_argument("--no-gpu", action="store_true", help="judge for sm_90 with driver 580, and load nothing")
    options = parser.parse_args()
    {"make": make, "judge": judge}[options.what](options)


if __name__ == "__main__":
    main()
