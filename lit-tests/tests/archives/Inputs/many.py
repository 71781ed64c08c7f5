"""many.py TEMPLATE.o COUNT: copies the object under long names, with host_0000 and kernel_0000 in it renumbered.

Names in ELF and bitcode string tables are plain bytes, so this saves COUNT compilations. Writes main.c, which calls all.
"""

import pathlib
import sys

template = pathlib.Path(sys.argv[1]).read_bytes()
numbers = [b"%04d" % n for n in range(int(sys.argv[2]))]
for number in numbers:
    content = template.replace(b"host_0000", b"host_" + number).replace(b"kernel_0000", b"kernel_" + number)
    pathlib.Path(f"member_{number.decode()}_{'x' * 150}.o").write_bytes(content)
calls = b"".join(b"  void host_%s(void); host_%s();\n" % (number, number) for number in numbers)
pathlib.Path("main.c").write_bytes(b"int main(void) {\n" + calls + b"}\n")
