"""Compares the kernels of a code object that was linked in partitions with those of one in one piece.

Every kernel must have at least the registers, scratch memory and LDS that it has in one piece, or those that its own code needs, and the
rest of its metadata must be equal. Exported symbols must be the same."""
import sys

from code_object import exported, metadata, split

whole, cut = sys.argv[1:3]
print("exported symbols", "equal" if exported(whole) == exported(cut) else "differ")
(one, rest), (other, other_rest) = metadata(whole), metadata(cut)
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
