"""Prints PTX of a kernel that calls every function which a header declares as one of the device runtime."""

import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
declarations = re.findall(r"extern\s[^;{]*?__cudart_builtin__[^;{]*?\b(\w+)\s*\([^()]*\)\s*;", text)
# ptxas rejects this one for sm_90 and later.
names = sorted(set(declarations) - {"cudaDeviceSynchronize"})
print(".version 8.0\n.target sm_90\n.address_size 64")
for name in names:
    print(f".extern .func (.param .b32 result) {name} (.param .b64 one, .param .b64 two);")
print(".visible .entry kernel() {\n.param .b64 one; .param .b64 two; .param .b32 result;")
print("st.param.b64 [one], 0; st.param.b64 [two], 0;")
for name in names:
    print(f"call.uni (result), {name}, (one, two);")
print("ret;\n}")
