"""Checks that every kernel of a code object has the registers and the scratch memory of all functions that it can reach.

The functions are disassembled. What they use, what they call, and whose address they take is read from their instructions alone; the
metadata of LLVM is only compared with that."""
import re
import struct
import subprocess
import sys


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


class Function:
    def __init__(self, name, address):
        self.name, self.address = name, address
        self.vgprs = self.agprs = self.sgprs = self.frame = 0
        self.calls, self.taken = set(), set()
        self.indirect = False


def registers(text, letter):
    """One more than the highest number of a register in an instruction."""
    single = [int(number) + 1 for number in re.findall(rf"\b{letter}(\d+)\b", text)]
    ranges = [int(last) + 1 for last in re.findall(rf"\b{letter}\[\d+:(\d+)\]", text)]
    return max(single + ranges, default=0)


def signed(number):
    return number - (1 << 32) if number >= 1 << 31 else number


def disassembled(file):
    functions, current = {}, None
    for line in output("llvm-objdump", "-d", file):
        if start := re.match(r"([0-9a-f]+) <(.*)>:", line):
            current = Function(start[2], int(start[1], 16))
            functions.setdefault(current.address, current)
            current = functions[current.address]
            base = {}
        elif current and "//" in line:
            text, _, place = line.partition("//")
            read(current, text.strip(), int(place.split(":")[0], 16), base)
    return functions


def read(function, text, address, base):
    function.vgprs = max(function.vgprs, registers(text, "v"))
    function.agprs = max(function.agprs, registers(text, "a"))
    function.sgprs = max(function.sgprs, registers(text, "s"))
    number = r"(0x[0-9a-f]+|-?\d+)"
    if got := re.match(r"s_getpc_b64 s\[(\d+):", text):
        # The program counter is that of the next instruction.
        base[int(got[1])] = address + 4
    elif add := re.match(rf"s_add(?:_co)?_[ui]32 s(\d+), s(\d+), {number}$", text):
        if int(add[2]) in base:
            base[int(add[1])] = base.pop(int(add[2])) + signed(int(add[3], 0))
            function.taken.add(base[int(add[1])])
        elif add[1] == add[2] == "32":
            function.frame = max(function.frame, signed(int(add[3], 0)))
    elif move := re.match(rf"s_(?:addk_i32|movk_i32|mov_b32) s32, {number}", text):
        function.frame = max(function.frame, int(move[1], 0))
    elif call := re.match(r"s_(?:swappc_b64 s\[\d+:\d+\], |call_b64 .*)s\[(\d+):", text):
        target = base.get(int(call[1]))
        if target is None:
            function.indirect = True
        else:
            function.calls.add(target)
    elif "s_swappc" in text or "s_call" in text:
        function.indirect = True
    elif write := re.match(r"\w+ s\[?(\d+)(?::(\d+))?", text):
        if not text.startswith("s_addc"):
            for number in range(int(write[1]), int(write[2] or write[1]) + 1):
                base.pop(number, None)


def addresses_in_data(file):
    """The addresses of relocations of data and of the global offset table."""
    lines = output("llvm-readelf", "-r", "-W", file)
    return {int(line.split()[3], 16) for line in lines if "R_AMDGPU_RELATIVE64" in line}


def check(file):
    functions = disassembled(file)
    data = open(file, "rb").read()
    flags, = struct.unpack_from("<I", data, 48)
    unified = flags & 0xff in (0x3f, 0x40, 0x4b, 0x4c, 0x4f, 0x5f)
    names = {function.name: function for function in functions.values()}
    sections = {}
    for line in output("llvm-readelf", "-S", "-W", file):
        if fields := re.match(r"\s*\[ *(\d+)\] (\S+)\s+\S+\s+([0-9a-f]+) ([0-9a-f]+)", line):
            sections[fields[1]] = (int(fields[3], 16), int(fields[4], 16))
    descriptors = {}
    for line in output("llvm-readelf", "--dyn-syms", "-W", file):
        words = line.split()
        if len(words) == 8 and words[7].endswith(".kd") and words[6] in sections:
            address, offset = sections[words[6]]
            descriptors[words[7][:-3]] = int(words[1], 16) - address + offset
    kernels = {name: names[name] for name in descriptors if name in names}
    taken = addresses_in_data(file) | set().union(*(function.taken - function.calls for function in functions.values()))
    taken = {functions[address] for address in taken if address in functions} - set(kernels.values())
    wrong = checked = 0
    for name, kernel in kernels.items():
        group, private = struct.unpack_from("<II", data, descriptors[name])
        rsrc3, rsrc1 = struct.unpack_from("<II", data, descriptors[name] + 44)
        properties, = struct.unpack_from("<H", data, descriptors[name] + 56)
        wave32, dynamic = properties >> 10 & 1, properties >> 11 & 1
        reached, open_functions, indirect = {kernel}, [kernel], False
        while open_functions:
            function = open_functions.pop()
            nexts = {functions[address] for address in function.calls if address in functions}
            if missing := [address for address in function.calls if address not in functions]:
                print(f"{file}: {function.name} calls {missing[0]:#x}, where no function is")
                wrong += 1
            if function.indirect:
                indirect = True
                nexts |= taken
            open_functions += nexts - reached
            reached |= nexts
        units = 8 if unified or wave32 else 4
        vgprs = ((rsrc1 & 0x3f) + 1) * units
        vector = max(function.vgprs for function in reached)
        accumulation = max(function.agprs for function in reached)
        first = ((rsrc3 & 0x3f) + 1) * 4
        limits = [("vector registers", vector, min(vgprs, first) if unified else vgprs)]
        limits.append(("accumulation registers", accumulation, vgprs - first if unified else vgprs))
        if flags & 0xff < 0x33 or unified:
            limits.append(("scalar registers", max(function.sgprs for function in reached), ((rsrc1 >> 6 & 15) + 1) * 8))
        if not dynamic:
            # Frames are counted for a wave where scratch memory is addressed by buffer instructions.
            scale = 1 if flags & 0xff in SCRATCH else (32 if wave32 else 64)
            limits.append(("bytes of scratch memory", depth(kernel, functions, scale, ()), private))
            if indirect:
                print(f"{file}: {name} calls unknown functions and has a stack of fixed size")
                wrong += 1
        for what, needed, has in limits:
            if needed > has:
                print(f"{file}: {name} has {has} {what} and needs {needed}")
                wrong += 1
        checked += 1
    print(f"{checked} kernels, {sum(k.indirect for k in kernels.values())} call through pointers, {len(taken)} functions that may be meant, {wrong} errors")
    return wrong


# Processors that address scratch memory by flat instructions, so that frames are counted for a lane.
SCRATCH = (0x4c, 0x4f, 0x5f, 0x41, 0x43, 0x44, 0x46, 0x47, 0x48, 0x4a, 0x4e, 0x54, 0x55, 0x58, 0x59)


def depth(function, functions, scale, path):
    """The deepest stack from a function on, in bytes of a lane. Recursive functions have none."""
    if function in path:
        return 0
    below = [depth(functions[address], functions, scale, path + (function,)) for address in function.calls if address in functions]
    return function.frame // scale + max(below, default=0)


sys.exit(any([check(file) for file in sys.argv[1:]]))
