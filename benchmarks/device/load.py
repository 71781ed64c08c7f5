#!/usr/bin/env python3
"""Measures what loading a compressed image costs against a plain one: see README.md beside this."""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FORMS = {"plain": ["-compress-mode=none"], "zstd": ["-compress-all"], "lz4": ["-compress-all", "-compress-mode=speed"]}

KERNEL = """extern "C" __global__ void k{number}(float *p, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = p[i], b = p[n + i], c = {number}.25f;
#pragma unroll
  for (int j = 0; j < {steps}; ++j) {{
    a = a * b + c;
    b = (j * {factor} % 7 < 3 ? b + a : b * c - a) + {number}.0f / (j + 1);
    if (j % 16 == {number} % 16) c = p[(i + j * {factor}) % n];
  }}
  p[i] = a + b + c;
}}
"""


def run(*line, environment=None):
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False,
                          env=environment and dict(os.environ, **environment))
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, line))}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Toolkit:
    def __init__(self, root, arch, folder):
        self.bin, self.arch, self.folder = pathlib.Path(root) / "bin", arch, folder

    def program(self):
        """The program that loads."""
        run(self.bin / "nvcc", "-O2", "-o", self.folder / "load", HERE / "load.cu", "-lcuda")
        return self.folder / "load"

    def generated(self, kernels):
        """A cubin of so many kernels, none like another."""
        source = self.folder / f"generated{kernels}.cu"
        texts = (KERNEL.format(number=n, steps=64 + n * 37 % 256, factor=2 * n + 3) for n in range(kernels))
        source.write_text("".join(texts))
        run(self.bin / "nvcc", "-cubin", f"-arch=sm_{self.arch}", "-o", source.with_suffix(".cubin"), source)
        return source.with_suffix(".cubin")

    def largest_of(self, library, count):
        """The largest cubins for this GPU in a library of NVIDIA's."""
        folder = self.folder / library.name
        folder.mkdir()
        subprocess.run([self.bin / "cuobjdump", "-xelf", f"sm_{self.arch}", library], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        return sorted(folder.glob("*.cubin"), key=lambda path: -path.stat().st_size)[:count]

    def fatbins(self, cubin):
        """The cubin in a fatbin of each form."""
        files = {}
        for form, options in FORMS.items():
            files[form] = self.folder / f"{cubin.stem}.{form}.fatbin"
            image = f"--image3=kind=elf,sm={self.arch},file={cubin}"
            run(self.bin / "fatbinary", "-64", "--create", files[form], *options, image)
        return files


def times(program, files, loading, processes, rounds):
    """Microseconds of the first load in a process and of later ones, by file: until the load returns, and until a kernel is loaded."""
    environment = {"CUDA_MODULE_LOADING": loading, "CUDA_CACHE_DISABLE": "1"}
    found = {path: {"first": [], "later": []} for path in files}
    for process in range(processes):
        # Each form is the first one in its share of the processes.
        turn = process % len(files)
        order = files[turn:] + files[:turn]
        for line in run(program, rounds, *order, environment=environment).splitlines():
            path, number, loaded, ready, _ = line.rsplit(" ", 4)
            which = "later" if number != "0" else "first" if pathlib.Path(path) == order[0] else None
            if which:
                found[pathlib.Path(path)][which].append((float(loaded), float(ready)))
    return found


def report(name, program, forms, arguments):
    sizes = ", ".join(f"{form} {path.stat().st_size:,}" for form, path in forms.items())
    print(f"{name}: bytes {sizes}", flush=True)
    for loading in ("LAZY", "EAGER"):
        found = times(program, list(forms.values()), loading, arguments.processes * len(forms), arguments.rounds)
        for which in ("first", "later"):
            medians = {}
            for form, path in forms.items():
                medians[form] = [statistics.median(column) for column in zip(*found[path][which])]
            base = next(iter(medians.values()))
            texts = [f"{form} {load:.0f} / {ready:.0f} us ({ready - base[1]:+.0f})" for form, (load, ready) in medians.items()]
            print(f"  {loading:5} {which:5} load / until a kernel is loaded: {', '.join(texts)}", flush=True)


def own_arch():
    text = run("nvidia-smi", "--query-gpu=compute_cap,driver_version,name", "--format=csv,noheader").splitlines()[0]
    print(text, flush=True)
    return text.split(",")[0].replace(".", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", default="/usr/local/cuda")
    parser.add_argument("--kernels", type=int, nargs="*", default=[1, 20, 200], help="sizes of the generated images")
    parser.add_argument("--library", type=pathlib.Path, action="append", default=[],
                        help="a library of NVIDIA's whose three largest cubins are measured")
    parser.add_argument("--pair", nargs=2, action="append", default=[], metavar=("PLAIN", "PACKED"),
                        help="two fatbins of the same image, made by offload-bundle recompress")
    parser.add_argument("--processes", type=int, default=7, help="for each form")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    arch = own_arch()
    with tempfile.TemporaryDirectory() as folder:
        toolkit = Toolkit(arguments.cuda, arch, pathlib.Path(folder))
        program = toolkit.program()
        for pair in arguments.pair:
            forms = dict(zip(("plain", "packed"), (pathlib.Path(path).resolve() for path in pair)))
            report(pair[0], program, forms, arguments)
        for kernels in arguments.kernels:
            report(f"{kernels} generated kernels", program, toolkit.fatbins(toolkit.generated(kernels)), arguments)
        for library in arguments.library:
            for cubin in toolkit.largest_of(library.resolve(), 3):
                report(f"{library.name}, {cubin.name}", program, toolkit.fatbins(cubin), arguments)


if __name__ == "__main__":
    main()
