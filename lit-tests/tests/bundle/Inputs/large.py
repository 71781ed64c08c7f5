# Prints LLVM IR of a kernel beside a table of 64 KiB that does not compress, so that an image takes many pages.
import random

numbers = random.Random(1)
table = ", ".join(f"i32 {numbers.getrandbits(31)}" for _ in range(16384))
print(f"""target triple = "nvptx64-nvidia-cuda"
@table = addrspace(1) global [16384 x i32] [{table}]
define ptx_kernel void @kernel(i64 %at, ptr addrspace(1) %out) {{
  %from = getelementptr i32, ptr addrspace(1) @table, i64 %at
  %number = load i32, ptr addrspace(1) %from
  store i32 %number, ptr addrspace(1) %out
  ret void
}}""")
