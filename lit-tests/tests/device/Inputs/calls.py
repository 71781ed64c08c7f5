"""Checks that each kernel in a file's cubins has at least the registers and the stack of everything that it calls.

usage: calls.py FILE...    prints the kernels of each file with both, and fails if one of them has too little

The calls are those of .nv.callgraph and of the relocations of code, which name their targets in finished cubins, too.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile


class Cubin:
    def __init__(self, data):
        table, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        fields = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * at) for at in range(count)]
        start = fields[names][4]
        text = lambda at: data[at:data.index(b"\0", at)].decode()
        self.sections = [(text(start + field[0]), field, data[field[4]:field[4] + field[5]] if field[1] != 8 else b"")
                         for field in fields]
        symtab = next(field for _, field, _ in self.sections if field[1] == 2)
        strings = fields[symtab[6]][4]
        symbols = [struct.unpack_from("<IBBHQQ", data, symtab[4] + at) for at in range(0, symtab[5], 24)]
        self.symbols = [(text(strings + symbol[0]), symbol[1] & 15) for symbol in symbols]

    def calls(self):
        function = 2
        found = set()
        for name, field, content in self.sections:
            if name == ".nv.callgraph":
                for caller, callee in struct.iter_unpack("<II", content):
                    if 0 < caller < len(self.symbols) and 0 < callee < len(self.symbols):
                        found.add((self.symbols[caller][0], self.symbols[callee][0]))
            elif name.startswith((".rela.text.", ".rel.text.")):
                step = 24 if name.startswith(".rela") else 16
                for at in range(0, len(content), step):
                    target, kind = self.symbols[struct.unpack_from("<Q", content, at + 8)[0] >> 32]
                    if kind == function:
                        found.add((name.split(".text.", 1)[1], target))
        return {pair for pair in found if pair[0] != pair[1]}


def output(command, file):
    return json.loads(subprocess.run(["offload-bundle", command, file, "--json"], check=True, capture_output=True).stdout)


def check(file, folder):
    for number, row in enumerate(output("list", file), 1):
        # Units of nvcc stay in programs, for another device link by the driver.
        if row["image"].startswith("cubin") and row["section"] != "__nv_relfatbin":
            command = ["offload-bundle", "extract", file, "--index", str(number), "-o", folder]
            subprocess.run(command, check=True, capture_output=True)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        functions = {one["name"]: one for cubin in output("resources", path) for one in cubin["functions"]}
        calls = Cubin(open(path, "rb").read()).calls()
        for kernel in (one for one in functions.values() if one["kernel"]):
            reached, open_names = set(), [kernel["name"]]
            while open_names:
                caller = open_names.pop()
                for callee in (to for of, to in calls if of == caller and to not in reached):
                    reached.add(callee)
                    open_names.append(callee)
            least = [functions[name] for name in reached if name in functions]
            for key in ["registers", "stack"]:
                most = max([one[key] or 0 for one in least], default=0)
                if (kernel[key] or 0) < most:
                    sys.exit(f"{file}: {name}: {kernel['name']} has {key} {kernel[key]}, and what it calls {most}")
            print(f"{kernel['name']}: {kernel['registers']} registers, stack {kernel['stack']}, {len(least)} callees")


for each in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as scratch:
        check(each, scratch)
