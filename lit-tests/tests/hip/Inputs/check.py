"""Checks that every kernel of a code object has the registers, the scratch memory and the LDS of all functions that it can reach.

The functions are disassembled. What they use, what they call, and whose address they take is read from their instructions alone; the
metadata of LLVM is only compared with that."""
import re
import struct
import sys

from code_object import descriptors, header_flags, metadata, output, symbols_of
from lds import Lds

NUMBER = r"(0x[0-9a-f]+|-?\d+)"

# Processors that address scratch memory by flat instructions, so that frames are counted for a lane.
FLAT_SCRATCH = (0x4c, 0x4f, 0x5f, 0x41, 0x43, 0x44, 0x46, 0x47, 0x48, 0x4a, 0x4e, 0x54, 0x55, 0x58, 0x59)

# Processors on which one file holds both kinds of vector registers.
UNIFIED = (0x3f, 0x40, 0x4b, 0x4c, 0x4f, 0x5f)

# Processors with half as many vector registers again.
LARGE_FILE = (0x41, 0x46, 0x48, 0x4a, 0x4e)

# The first processor on which a kernel does not choose the number of its scalar registers.
GFX10 = 0x33


class Function:
    """What the instructions of a function show."""

    def __init__(self, name, address):
        self.name, self.address, self.end = name, address, address
        self.vgprs = self.agprs = self.sgprs = self.frame = 0
        self.calls, self.taken = set(), set()
        self.indirect = False
        self.lds = Lds()
        # Addresses that scalar registers hold, by the number of the lower register.
        self.base = {}

    def read(self, text, address):
        self.end = address
        self.vgprs = max(self.vgprs, registers(text, "v"))
        self.agprs = max(self.agprs, registers(text, "a"))
        self.sgprs = max(self.sgprs, registers(text, "s"))
        self.lds.read(text, address, self.base)
        if got := re.match(r"s_getpc_b64 s\[(\d+):", text):
            # The program counter is that of the next instruction.
            self.base[int(got[1])] = address + 4
        elif add := re.match(rf"s_add(?:_co)?_[ui]32 s(\d+), s(\d+), {NUMBER}$", text):
            self.add(*add.groups())
        elif move := re.match(rf"s_(?:addk_i32|movk_i32|mov_b32) s32, {NUMBER}", text):
            self.frame = max(self.frame, int(move[1], 0))
        elif jump := re.match(r"s_(?:swappc_b64 s\[\d+:\d+\], |call_b64 .*|(setpc)_b64 )s\[(\d+):", text):
            self.jump(int(jump[2]), is_tail=bool(jump[1]))
        elif "s_swappc" in text or "s_call" in text:
            self.indirect = True
        elif write := re.match(r"\w+ s\[?(\d+)(?::(\d+))?", text):
            if not text.startswith("s_addc"):
                for number in range(int(write[1]), int(write[2] or write[1]) + 1):
                    self.base.pop(number, None)

    def add(self, to, first, number):
        number = signed(int(number, 0))
        if int(first) in self.base:
            self.base[int(to)] = self.base.pop(int(first)) + number
            self.taken.add(self.base[int(to)])
        elif to == first == "32":
            self.frame = max(self.frame, number)

    def jump(self, register, is_tail):
        target = self.base.get(register)
        if target is not None:
            self.calls.add(target)
        # A function returns by such a jump, too; the address is in this register or was saved from it.
        elif not is_tail:
            self.indirect = True


def largest_group(lines):
    """The largest group that the metadata of a kernel allows."""
    return next(int(line.split()[-1]) for line in lines if ".max_flat_workgroup_size" in line)


def registers(text, letter):
    """One more than the highest number of a register in an instruction."""
    single = [int(number) + 1 for number in re.findall(rf"\b{letter}(\d+)\b", text)]
    ranges = [int(last) + 1 for last in re.findall(rf"\b{letter}\[\d+:(\d+)\]", text)]
    return max(single + ranges, default=0)


def signed(number):
    return number - (1 << 32) if number >= 1 << 31 else number


def disassembled(file):
    """The functions of a file by address."""
    lines = output("llvm-objdump", "-d", file)
    functions, current = {}, None
    # Where values of two paths meet, nothing is known of registers.
    targets = {(jump[1], int(jump[2], 16)) for line in lines if (jump := re.search(r"branch.*<(.*)\+(0x[0-9a-f]+)>", line))}
    for line in lines:
        if start := re.match(r"([0-9a-f]+) <(.*)>:", line):
            address = int(start[1], 16)
            current = functions.setdefault(address, Function(start[2], address))
        elif current and "//" in line:
            text, _, place = line.partition("//")
            address = int(place.split(":")[0], 16)
            if (current.name, address - current.address) in targets:
                current.lds.forget()
            current.read(text.strip(), address)
    for function in functions.values():
        # A jump of a long function to itself.
        function.calls = {place for place in function.calls if not function.address < place <= function.end}
    return functions


def addresses_in_data(file):
    """The addresses of relocations of data and of the global offset table."""
    lines = output("llvm-readelf", "-r", "-W", file)
    return {int(line.split()[3], 16) for line in lines if "R_AMDGPU_RELATIVE64" in line}


class Checker:
    def __init__(self, file):
        self.file = file
        self.functions = disassembled(file)
        self.processor = header_flags(file) & 0xff
        names = {function.name: function for function in self.functions.values()}
        self.descriptors = descriptors(file)
        self.kernels = {name: names[name] for name in self.descriptors if name in names}
        taken = addresses_in_data(file)
        taken |= set().union(*(function.taken - function.calls for function in self.functions.values()))
        self.taken = {self.functions[address] for address in taken if address in self.functions}
        self.taken -= set(self.kernels.values())
        self.reached = {name: self.reach(kernel) for name, kernel in self.kernels.items()}
        self.tables = self.lds_tables()
        self.largest_groups = {name: largest_group(lines) for name, lines in metadata(file)[0].items()}
        self.wrong = self.dynamic = 0

    def error(self, text):
        print(f"{self.file}: {text}")
        self.wrong += 1

    def callees(self, function):
        return {self.functions[address] for address in function.calls if address in self.functions}

    def reach(self, kernel):
        """All functions that a kernel can reach; those whose address is taken if it calls unknown ones."""
        reached, open_functions = {kernel}, [kernel]
        while open_functions:
            function = open_functions.pop()
            nexts = self.callees(function) | (self.taken if function.indirect else set())
            open_functions += nexts - reached
            reached |= nexts
        return reached

    def lds_tables(self):
        """By address: the table's entries by rows, one row for a kernel. Functions find their variables by the kernel's number."""
        tables = {}
        for address, content in symbols_of(self.file, "llvm.amdgcn.lds.offset.table"):
            users = [kernel for name, kernel in self.kernels.items()
                     if any(address in function.taken for function in self.reached[name])]
            for kernel in users:
                if len(kernel.lds.numbers) != 1:
                    print(f"{self.file}: {kernel.name} has no number for a table of LDS offsets")
            rows = 1 + max((max(kernel.lds.numbers, default=0) for kernel in users), default=0)
            entries = struct.unpack(f"<{len(content) // 4}I", content)
            width = len(entries) // rows
            tables[address] = [entries[row * width:(row + 1) * width] for row in range(rows)]
        return tables

    def check(self):
        for name, kernel in self.kernels.items():
            self.check_kernel(name, kernel)
        indirect = sum(kernel.indirect for kernel in self.kernels.values())
        lds = sum(any(function.lds.accesses for function in reached) for reached in self.reached.values())
        print(f"{len(self.kernels)} kernels, {indirect} call through pointers, {len(self.taken)} functions that may be meant, "
              f"{lds} use LDS, {self.dynamic} dynamic LDS, {self.wrong} errors")
        return self.wrong

    def check_kernel(self, name, kernel):
        group, private = struct.unpack_from("<II", self.descriptors[name])
        rsrc3, rsrc1 = struct.unpack_from("<II", self.descriptors[name], 44)
        properties, = struct.unpack_from("<H", self.descriptors[name], 56)
        wave32, dynamic = properties >> 10 & 1, properties >> 11 & 1
        reached = self.reached[name]
        for function in reached:
            if missing := [address for address in function.calls if address not in self.functions]:
                self.error(f"{function.name} calls {missing[0]:#x}, where no function is")
        unified = self.processor in UNIFIED
        vgprs = ((rsrc1 & 0x3f) + 1) * (8 if unified or wave32 else 4)
        vector = max(function.vgprs for function in reached)
        self.check_group(name, vgprs, wave32, is_workgroup_mode=rsrc1 >> 29 & 1)
        accumulation = max(function.agprs for function in reached)
        first = ((rsrc3 & 0x3f) + 1) * 4
        limits = [("vector registers", vector, min(vgprs, first) if unified else vgprs),
                  ("accumulation registers", accumulation, vgprs - first if unified else vgprs)]
        if self.processor < GFX10 or unified:
            limits.append(("scalar registers", max(function.sgprs for function in reached), ((rsrc1 >> 6 & 15) + 1) * 8))
        if not dynamic:
            # Frames are counted for a wave where scratch memory is addressed by buffer instructions.
            scale = 1 if self.processor in FLAT_SCRATCH else (32 if wave32 else 64)
            limits.append(("bytes of scratch memory", self.depth(kernel, scale, ()), private))
            if any(function.indirect for function in reached):
                self.error(f"{name} calls unknown functions and has a stack of fixed size")
        limits.append(("bytes of LDS", self.lds_needed(kernel, reached, group), group))
        for what, needed, has in limits:
            if needed > has:
                self.error(f"{name} has {has} {what} and needs {needed}")

    def check_group(self, name, vgprs, wave32, is_workgroup_mode):
        """Checks that all waves of the largest group of a kernel find their registers."""
        if self.processor < GFX10 or self.processor in UNIFIED:
            registers, units = (512 if self.processor in UNIFIED else 256), 4
        else:
            registers = (1024 if wave32 else 512) * (3 if self.processor in LARGE_FILE else 2) // 2
            units = 4 if is_workgroup_mode else 2
        waves = -(-self.largest_groups[name] // (32 if wave32 else 64))
        if -(-waves // units) * vgprs > registers:
            self.error(f"{name} has {vgprs} vector registers, too many for groups of {self.largest_groups[name]}")

    def lds_needed(self, kernel, reached, group):
        """Bytes up to the last that is accessed at a known address, in the part of fixed size."""
        needed, beyond = 0, False
        for function in reached:
            for base, size, calls in function.lds.accesses:
                if not all(self.survives(*call) for call in calls):
                    base = None
                if isinstance(base, tuple):
                    base = self.offset(kernel, *base)
                if base is None:
                    # At an unknown place. What is not there at all would be dynamic.
                    beyond = beyond or group == 0
                elif base >= group:
                    beyond = True
                else:
                    needed = max(needed, base + size)
        self.dynamic += beyond
        return needed

    def survives(self, register, called):
        """Whether a call leaves a register alone."""
        if called not in self.functions:
            return False
        number = int(register[1:])
        used = [function.vgprs if register[0] == "v" else function.sgprs for function in self.reach(self.functions[called])]
        return number >= max(used)

    def offset(self, kernel, table, column, offset):
        """An entry of a table of LDS offsets for this kernel."""
        rows = self.tables.get(table)
        numbers = kernel.lds.numbers
        if rows is None or len(numbers) != 1 or min(numbers) >= len(rows) or column >= len(rows[min(numbers)]):
            return None
        return rows[min(numbers)][column] + offset

    def depth(self, function, scale, path):
        """The deepest stack from a function on, in bytes of a lane. Recursive functions have none."""
        if function in path:
            return 0
        below = [self.depth(callee, scale, path + (function,)) for callee in self.callees(function)]
        return function.frame // scale + max(below, default=0)


if __name__ == "__main__":
    sys.exit(any([Checker(file).check() for file in sys.argv[1:]]))
