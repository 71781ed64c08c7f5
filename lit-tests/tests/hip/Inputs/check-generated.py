"""Links random programs in one piece and in partitions, and checks and compares the code: FATLINK INPUTS FIRST LAST."""
import os
import subprocess
import sys

fatlink, inputs, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TARGETS = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"]
FLAGS = "-x hip --offload-new-driver -fgpu-rdc -nogpuinc -nogpulib -O2 -c".split()


def run(*words, check=True):
    done = subprocess.run(words, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode


wrong = 0
for seed in range(first, last + 1):
    folder, target = f"program{seed}", TARGETS[seed % len(TARGETS)]
    os.makedirs(folder, exist_ok=True)
    units = run(sys.executable, f"{inputs}/generate.py", str(seed), folder)[0].split()
    for unit in units:
        run("clang++", *FLAGS, f"-I{inputs}", f"--offload-arch={target}", unit, "-o", unit + ".o")
    objects = [unit + ".o" for unit in units]
    for name, size in ("whole", "whole"), ("cut", "1"):
        run(fatlink, "--emit-fatbin-only", "--save-temps", *objects, "-o", f"{folder}/{name}", f"--offload-partition-size={size}")
    images = [f"{folder}/{name}.amdgcn.{target}.img" for name in ("whole", "cut")]
    compared, _ = run(sys.executable, f"{inputs}/compare-cut.py", *images)
    for name, image in zip(("whole", "cut"), images):
        text, code = run(sys.executable, f"{inputs}/check.py", image, check=False)
        print(f"{seed} {target} {name}: {text.strip()}")
        # What is wrong in one piece, too, is not the cut's fault.
        wrong += bool(code) and name == "cut"
    wrong += " differ\n" in compared
    print("  " + compared.strip().splitlines()[-1])
print(f"{wrong} wrong")
