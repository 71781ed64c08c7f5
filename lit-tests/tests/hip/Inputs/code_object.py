"""What AMD GPU code objects hold, as LLVM's tools print it."""
import re
import struct
import subprocess


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def metadata(file):
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


COUNTS = (".vgpr_count", ".agpr_count", ".sgpr_count", ".private_segment_fixed_size", ".group_segment_fixed_size",
          ".vgpr_spill_count", ".sgpr_spill_count")


def split(lines):
    """The numbers of a kernel's metadata that the compiler decides, and the other lines."""
    counts = {line.split(":")[0].strip(): int(line.split(":")[1]) for line in lines if line.split(":")[0].strip() in COUNTS}
    return counts, [line for line in lines if line.split(":")[0].strip() not in COUNTS]


def exported(file):
    """The dynamic symbols without their places. Functions may have other sizes."""
    fields = [line.split() for line in output("llvm-readelf", "--dyn-syms", "-W", file)]
    return sorted((words[2] if words[3] == "OBJECT" else "", words[3], words[4], words[5], words[7])
                  for words in fields if len(words) == 8 and words[0] != "Num:")


def sections(file):
    """Address and offset of every section, by its number."""
    found = {}
    for line in output("llvm-readelf", "-S", "-W", file):
        if fields := re.match(r"\s*\[ *(\d+)\] (\S+)\s+\S+\s+([0-9a-f]+) ([0-9a-f]+)", line):
            found[fields[1]] = (int(fields[3], 16), int(fields[4], 16))
    return found


def descriptors(file):
    """The bytes of every kernel's descriptor, by the kernel's name."""
    with open(file, "rb") as opened:
        data = opened.read()
    places, found = sections(file), {}
    for line in output("llvm-readelf", "--dyn-syms", "-W", file):
        words = line.split()
        if len(words) == 8 and words[7].endswith(".kd") and words[6] in places:
            address, offset = places[words[6]]
            start = int(words[1], 16) - address + offset
            found[words[7][:-3]] = data[start:start + 64]
    return found


def header_flags(file):
    """The flags of the header, with the processor in the lowest byte."""
    with open(file, "rb") as opened:
        return struct.unpack_from("<I", opened.read(52), 48)[0]


def symbols_of(file, name):
    """Address and content of every symbol of a name, or of a name that a suffix with a dot makes unique."""
    with open(file, "rb") as opened:
        data = opened.read()
    places = sections(file)
    for line in output("llvm-readelf", "--symbols", "-W", file):
        words = line.split()
        if len(words) == 8 and words[6] in places and (words[7] == name or words[7].startswith(name + ".")):
            address, offset = places[words[6]]
            start = int(words[1], 16)
            yield start, data[start - address + offset:start - address + offset + int(words[2])]
