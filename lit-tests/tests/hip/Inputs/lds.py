"""Which bytes of LDS the instructions of a function access, as far as their addresses are constants."""
import re

NUMBER = r"(0x[0-9a-f]+|-?\d+)"

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "96": 12, "128": 16}

# They compute or communicate, and access nothing.
NO_ACCESS = ("bpermute", "permute", "swizzle", "gws", "nop", "ordered", "append", "consume", "add_gs", "sub_gs", "bvh")


class Lds:
    """Follows constants through the registers of a function.

    A value is a number, or an entry of the table in which functions find the LDS variables of the kernel that called them: the
    address of the table and the column. It comes with the calls that its register must survive."""

    def __init__(self):
        # The base, the number of bytes, and the calls. The base is a number, an entry of a table with an offset, or None.
        self.accesses = []
        # The numbers that a kernel gives itself for these tables.
        self.numbers = set()
        self.values = {}
        # Registers that point at the row of a kernel.
        self.rows = {}

    def forget(self):
        self.values.clear()
        self.rows.clear()

    def read(self, text, address, base):
        name, _, rest = text.partition(" ")
        operands = [word.strip() for word in re.split(r",(?![^\[]*\])", rest)]
        if name.startswith("ds_"):
            self.access(name, operands)
        if name.startswith("v_dual_"):
            for half in text.split("::"):
                self.move(*half.strip().partition(" ")[::2])
        elif name in ("s_add_u32", "s_add_co_u32") and len(operands) == 3 and (table := of_two(operands[1:], base)):
            self.written(operands[0])
            self.rows[operands[0]] = table
        elif load := re.match(rf"s_load_(?:dword|b32|dwordx2|b64) s\[?(\d+)(?::\d+)?\]?, s\[(\d+):\d+\], {NUMBER}$", text):
            table = self.rows.get(f"s{load[2]}")
            self.written(operands[0])
            if table is not None:
                for place in range(2 if "x2" in name or "64" in name else 1):
                    self.values[f"s{int(load[1]) + place}"] = ((table, int(load[3], 0) // 4 + place), ())
        elif call := re.match(r"s_(?:swappc_b64|call_b64)\b.*s\[(\d+):\d+\]$", text):
            self.call(base.get(int(call[1])))
        else:
            self.move(name, rest)

    def move(self, name, rest):
        """Records what one instruction writes."""
        operands = [word.strip() for word in re.split(r",(?![^\[]*\])", rest)]
        if name.startswith(("ds_write", "ds_store", "buffer_store", "global_store", "flat_store", "scratch_store", "s_cmp")):
            return
        value = None
        if name.removesuffix("_e32").removesuffix("_e64") in ("v_mov_b32", "v_dual_mov_b32", "s_mov_b32", "s_movk_i32"):
            value = self.value(operands[-1])
            if operands[0] == "s15" and value is not None and isinstance(value[0], int):
                self.numbers.add(value[0])
        self.written(operands[0])
        if "swap" in name:
            self.written(operands[-1])
        if value is not None:
            self.values[operands[0]] = value

    def value(self, operand):
        if re.fullmatch(NUMBER, operand):
            return int(operand, 0), ()
        return self.values.get(operand)

    def call(self, target):
        """Keeps what the function at this address may leave alone, which is known when all functions are read."""
        self.rows.clear()
        if target is None:
            self.values.clear()
        self.values = {register: (value, (*calls, (register, target))) for register, (value, calls) in self.values.items()}

    def written(self, operand):
        if one := re.fullmatch(r"([sv])\[?(\d+)(?::(\d+)\])?", operand):
            for number in range(int(one[2]), int(one[3] or one[2]) + 1):
                self.values.pop(f"{one[1]}{number}", None)
                self.rows.pop(f"{one[1]}{number}", None)

    def access(self, name, operands):
        if any(part in name for part in NO_ACCESS):
            return
        # Loads and atomics that return a value have the result first.
        place = 1 if re.match(r"ds_(read|load|.*_rtn)", name) else 0
        words = operands[-1].split() if operands else []
        offsets = {key: int(number, 0) for word in words for key, _, number in [word.partition(":")] if key.startswith("offset")}
        address = operands[place].split()[0] if place < len(operands) else ""
        base, calls = self.value(address) or (None, ())
        bits = re.search(r"[a-z](\d+)(?:_|$)", re.sub(r"^ds_(read|write|load|store|wrxchg|storexchg)2?(_2addr)?(_rtn)?(_stride64|st64)?", "ds", name))
        size = SIZES.get(bits[1] if bits else "32", 4)
        if "offset0" in offsets or "offset1" in offsets or re.search(r"(read2|write2|2addr)", name):
            stride = size * (64 if "st64" in name or "stride64" in name else 1)
            offset = max(offsets.get("offset0", 0), offsets.get("offset1", 0)) * stride
        else:
            offset = offsets.get("offset", 0)
        if isinstance(base, int):
            base = (base & 0xffffffff) + offset
        elif base is not None:
            base = (*base, offset)
        self.accesses.append((base, size, calls))


def of_two(operands, base):
    """The address that one of two added registers holds."""
    for operand in operands:
        if re.fullmatch(r"s\d+", operand) and int(operand[1:]) in base and all(re.fullmatch(r"s\d+", word) for word in operands):
            return base[int(operand[1:])]
    return None
