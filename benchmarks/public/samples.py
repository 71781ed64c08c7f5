#!/usr/bin/env python3
"""NVIDIA's CUDA samples, linked by nvcc, by LLVM's tool and by fatlink from the same objects of machine code.

    python3 benchmarks/public/samples.py --clone cuda-samples --dist dist --cuda "$CUDA_PATH" --out OUT
    OUT/run.sh       # on a machine with a GPU of sm_90

The clone has to have the commit below. Each sample is compiled by `nvcc -dc` and by clang (`-fgpu-rdc` without LTO); what one of them cannot compile
is listed. Registers, stack, shared memory and barriers of each kernel have to be those of the other linker of the same objects. run.sh runs every
program with lazy and eager loading, and compares exit codes.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import generated

COMMIT = "c94ff366"
# Without graphics, MPI, further libraries, files, or loops that only time.
SAMPLES = """0_Introduction/asyncAPI 0_Introduction/clock 0_Introduction/fp16ScalarProduct 0_Introduction/matrixMul
0_Introduction/mergeSort 0_Introduction/simpleAssert 0_Introduction/simpleAtomicIntrinsics 0_Introduction/simpleAttributes
0_Introduction/simpleAWBarrier 0_Introduction/simpleCallback 0_Introduction/simpleCooperativeGroups
0_Introduction/simpleCubemapTexture 0_Introduction/simpleHyperQ 0_Introduction/simpleLayeredTexture
0_Introduction/simpleMultiCopy 0_Introduction/simpleOccupancy 0_Introduction/simplePitchLinearTexture
0_Introduction/simplePrintf 0_Introduction/simpleStreams 0_Introduction/simpleTemplates 0_Introduction/simpleVoteIntrinsics
0_Introduction/simpleZeroCopy 0_Introduction/template 0_Introduction/vectorAdd 2_Concepts_and_Techniques/convolutionSeparable
2_Concepts_and_Techniques/eigenvalues 2_Concepts_and_Techniques/histogram 2_Concepts_and_Techniques/inlinePTX
2_Concepts_and_Techniques/interval 2_Concepts_and_Techniques/reduction 2_Concepts_and_Techniques/reductionMultiBlockCG
2_Concepts_and_Techniques/scalarProd 2_Concepts_and_Techniques/scan 2_Concepts_and_Techniques/shfl_scan
2_Concepts_and_Techniques/sortingNetworks 2_Concepts_and_Techniques/streamOrderedAllocation
2_Concepts_and_Techniques/threadFenceReduction 3_CUDA_Features/binaryPartitionCG 3_CUDA_Features/cdpAdvancedQuicksort
3_CUDA_Features/cdpBezierTessellation 3_CUDA_Features/cdpQuadtree 3_CUDA_Features/cdpSimplePrint
3_CUDA_Features/cdpSimpleQuicksort 3_CUDA_Features/globalToShmemAsyncCopy 3_CUDA_Features/graphConditionalNodes
3_CUDA_Features/graphMemoryNodes 3_CUDA_Features/newdelete 3_CUDA_Features/simpleCudaGraphs
3_CUDA_Features/warpAggregatedAtomicsCG 5_Domain_Specific/BlackScholes 5_Domain_Specific/binomialOptions
5_Domain_Specific/dwtHaar1D 5_Domain_Specific/fastWalshTransform 5_Domain_Specific/quasirandomGenerator
5_Domain_Specific/SobolQRNG 6_Performance/transpose 6_Performance/alignedTypes""".split()


def attempt(command, folder):
    """Whether a command succeeds; prints its errors."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


class Sample:
    def __init__(self, options, tree, name):
        self.options, self.name = options, name.split("/")[1]
        self.folder = tree / "Samples" / name
        self.target = Path(options.out).absolute() / "programs" / ("p" + self.name)
        self.includes = [f"-I{options.cuda}/include/cccl", f"-I{tree}/Common", f"-I{self.folder}", f"-I{self.folder}/inc"]

    def objects(self, kind):
        """Compiles all files; None if one does not compile."""
        cuda, made = self.options.cuda, []
        for source in sorted([*self.folder.glob("*.cu"), *self.folder.glob("*.cpp"), *self.folder.glob("src/*.c*")]):
            output = self.folder / f"{source.stem}.{source.suffix[1:]}.{kind}.o"
            if source.suffix == ".cpp":
                command = ["g++", f"-I{cuda}/include", "-O2", "-c"]
            elif kind == "nvcc":
                command = [f"{cuda}/bin/nvcc", "-dc", "-arch=sm_90", "-O2", "-std=c++17"]
            else:
                command = [word for word in generated.compiler(self.options, "-O2", "-std=c++17") if word != "-foffload-lto"]
            passed, said = attempt([*command, *self.includes, source, "-o", output], self.folder)
            if not passed:
                first = next((line for line in said.splitlines() if "error" in line), "")
                print(f"{self.name}: {kind} does not compile {source.name}: {first[:150]}")
                return None
            made.append(output)
        return made

    def link(self, kind, way, command):
        self.target.mkdir(parents=True, exist_ok=True)
        output = self.target / way
        passed, said = attempt([*command, "-o", output], self.folder)
        if not passed:
            print(f"{self.name}: {way} does not link objects of {kind}: {said.strip().splitlines()[-1][:200] if said.strip() else ''}")
        return passed

    def run(self):
        """Links in all ways; returns the pairs that differ, and the number of programs."""
        cuda, dist = self.options.cuda, self.options.dist
        libraries = [f"-L{cuda}/lib", "-lcudadevrt", f"{cuda}/lib/libcudart.so.13", "-ldl", "-lpthread", "-lstdc++", "-lm"]
        differs = []
        if (made := self.objects("nvcc")) is not None:
            dlink = self.folder / "dlink.o"
            attempt([f"{cuda}/bin/nvcc", "-dlink", "-arch=sm_90", *made, "-lcudadevrt", "-o", dlink], self.folder)
            both = self.link("nvcc", "nvcc", ["g++", *made, dlink, *libraries])
            both &= self.link("nvcc", "fatlink", ["g++", "-B", f"{dist}/bin", *made, *libraries])
            differs += self.compare("nvcc", "fatlink") if both else [f"{self.name}: not linked"]
        if (made := self.objects("clang")) is not None:
            runtime = [word for part in (f"-L{cuda}/lib", "-lcudadevrt") for word in ("-Xoffload-linker", part)]
            line = [self.options.clang, "--offload-link", f"--cuda-path={cuda}", *made, *libraries]
            peer = self.link("clang", "peer", [*line, *runtime])
            ours = self.link("clang", "clang", [*line, "-B", f"{dist}/bin"])
            # Some samples define host functions in a file that another one includes.
            differs += [f"{self.name}: not linked"] if peer and not ours else []
            differs += self.compare("peer", "clang") if peer and ours else []
        programs = list(self.target.iterdir()) if self.target.is_dir() else []
        for program in programs:
            attempt(["strip", program], self.folder)
        return differs, len(programs)

    def compare(self, one, other):
        first, second = self.resources(one), self.resources(other)
        return [f"{self.name}: {one} and {other} differ in {kernel}: {first.get(kernel)} {second.get(kernel)}"
                for kernel in sorted(first.keys() | second.keys()) if first.get(kernel) != second.get(kernel)]

    def resources(self, way):
        """What each kernel of the linked images takes. Units of nvcc stay in programs for the driver."""
        def output(command):
            said = subprocess.run([f"{self.options.dist}/bin/offload-bundle", command, self.target / way, "--json"], check=True, capture_output=True)
            return json.loads(said.stdout)

        linked = {number for number, row in enumerate(output("list"), 1) if row["section"] == ".nv_fatbin"}
        functions = [one for cubin in output("resources") if cubin["index"] in linked for one in cubin["functions"]]
        keys = ("registers", "stack", "shared", "barriers")
        # LLVM's tool links NVIDIA's device runtime whether it is needed or not.
        own = [one for one in functions if one["kernel"] and "cuda_device_runtime" not in one["name"]]
        return {one["name"]: [one[key] for key in keys] for one in own}


ONE = r"""one() {
  local name=$(basename "$1") loading which
  [ -e "$2/$name.done" ] && return
  for loading in LAZY EAGER; do
    for which in nvcc fatlink peer clang; do
      [ -x "$1/$which" ] || continue
      CUDA_MODULE_LOADING=$loading timeout 60 "$1/$which" > "$2/$name.$which.$loading" 2>&1
      echo "exit $?" >> "$2/$name.$which.$loading"
    done
    for pair in "nvcc fatlink" "peer clang"; do
      set -- "$1" "$2" $pair
      [ -x "$1/$3" ] && [ "$(tail -n1 "$2/$name.$3.$loading")" != "$(tail -n1 "$2/$name.$4.$loading")" ] && echo "DIFFERENT $1 $pair $loading"
    done
  done
  touch "$2/$name.done"
}
"""


def take_sources(clone, tree):
    """Writes the sources of the samples; a clone may lack large files of others."""
    def git(*words):
        return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True).stdout

    folders = ["Common", *(f"Samples/{name}" for name in SAMPLES)]
    for name in git("ls-tree", "-r", "--name-only", COMMIT, "--", *folders).decode().splitlines():
        if name.endswith((".cu", ".cpp", ".cuh", ".h", ".inl", ".hpp")):
            place = tree / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(git("show", f"{COMMIT}:{name}"))


def main():
    parser = generated.arguments(__doc__, count=len(SAMPLES))
    parser.add_argument("--clone", required=True, help="a clone of NVIDIA/cuda-samples, with or without a work tree")
    options = parser.parse_args()
    for name in ("dist", "cuda"):
        setattr(options, name, Path(getattr(options, name)).absolute())
    tree = generated.work_folder(options) / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    take_sources(options.clone, tree)
    script = generated.script("Runs samples as nvcc, LLVM's tool and fatlink link them, and compares exit codes.", ONE, "exit 0", "programs that end well",
                              "fatlink")
    found = generated.generate(options, lambda number: Sample(options, tree, SAMPLES[number]).run(), script)
    differs = [line for lines, _ in found for line in lines]
    print("\n".join([*differs, f"{sum(count for _, count in found)} programs of {len(found)} samples, {len(differs)} differences"]))


main()
