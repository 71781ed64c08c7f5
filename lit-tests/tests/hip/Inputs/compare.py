"""Compares two code objects: sections, symbols, notes, kernel descriptors and instructions."""
import sys

from code_object import output


def without_numbers(lines):
    """The lines of a symbol table, sorted, without their places in it."""
    return sorted(line.partition(":")[2] for line in lines if ":" in line)


def disassembled(file):
    lines = output("llvm-objdump", "-d", file)
    return [line for line in lines if file not in line]


def views(file):
    yield "sections", [line.replace(file, "") for line in output("llvm-readelf", "-S", "-W", file)]
    yield "symbols", without_numbers(output("llvm-readelf", "--symbols", "--dyn-syms", "-W", file))
    yield "notes", output("llvm-readelf", "-n", file)
    yield ".rodata", [line for line in output("llvm-readelf", "-x", ".rodata", file) if file not in line]
    yield "instructions", disassembled(file)


def main():
    theirs, ours = sys.argv[1:]
    for (name, one), (_, other) in zip(views(theirs), views(ours)):
        print(name, "equal" if one == other else "differ")
        for line in set(one) ^ set(other) if one != other else []:
            print("  ", "theirs" if line in one else "ours", line)


if __name__ == "__main__":
    main()
