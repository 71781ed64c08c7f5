"""Compares the kernels of a code object that was linked in partitions with those of one in one piece.

Every kernel must have at least the registers, scratch memory and LDS that it has in one piece, or those that its own code needs, and the
rest of its metadata must be equal. Exported symbols must be the same."""
import subprocess
import sys


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def kernels(file):
    """The metadata of every kernel by name, as a list of its lines, and the lines around."""
    found, others, current = {}, [], None
    for line in output("llvm-readelf", "-n", file):
        if line.startswith("  - "):
            current = [line.replace("  - ", "    ")]
        elif line.startswith("    ") and current is not None:
            current.append(line)
        else:
            current = None
            others.append(line)
        if current and line.startswith("    .name:"):
            found[line.split()[-1]] = current
    return found, others


def exported(file):
    fields = [line.split() for line in output("llvm-readelf", "--dyn-syms", "-W", file)]
    # Functions may have other sizes.
    return sorted((words[2] if words[3] == "OBJECT" else "", words[3], words[4], words[5], words[7]) for words in fields if len(words) == 8 and words[0] != "Num:")


COUNTS = (".vgpr_count", ".agpr_count", ".sgpr_count", ".private_segment_fixed_size", ".group_segment_fixed_size",
          ".vgpr_spill_count", ".sgpr_spill_count")


def split(lines):
    counts = {line.split(":")[0].strip(): int(line.split(":")[1]) for line in lines if line.split(":")[0].strip() in COUNTS}
    return counts, [line for line in lines if line.split(":")[0].strip() not in COUNTS]


whole, cut = sys.argv[1:3]
print("exported symbols", "equal" if exported(whole) == exported(cut) else "differ")
(one, rest), (other, other_rest) = kernels(whole), kernels(cut)
sized = [line for line in rest if "0x" not in line]
print("documents", "equal" if sized == [line for line in other_rest if "0x" not in line] else "differ")
print("kernels", "equal" if sorted(one) == sorted(other) else "differ")
worse = better = same = 0
for name in sorted(set(one) & set(other)):
    (counts, text), (cut_counts, cut_text) = split(one[name]), split(other[name])
    if text != cut_text:
        print("metadata of", name, "differs:", [line for line in set(text) ^ set(cut_text)])
    deltas = {key: cut_counts[key] - counts[key] for key in counts if cut_counts[key] != counts[key]}
    if deltas and "-v" in sys.argv:
        print(name, deltas)
    worse += any(delta > 0 for delta in deltas.values())
    better += bool(deltas) and all(delta < 0 for delta in deltas.values())
    same += not deltas
print(f"{same} kernels the same, {worse} with more of something, {better} with less")
