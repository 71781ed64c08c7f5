# kernels.py TRIPLE PREFIX: six kernels in LLVM IR, whose code is larger than everything else in a link of them.
import sys

triple, prefix = sys.argv[1:]
convention = "protected amdgpu_kernel" if triple.startswith("amdgcn") else "ptx_kernel"
print(f'target triple = "{triple}"')
for kernel in range(6):
    print(f"define {convention} void @{prefix}{kernel}(ptr %p, i32 %n) {{")
    value = "%n"
    for step in range(50):
        print(f"  %a{step} = mul i32 {value}, {kernel * 7919 + step * 31 + 3}\n  %b{step} = xor i32 %a{step}, {step * 101 + kernel}")
        print(f"  store volatile i32 %b{step}, ptr %p")
        value = f"%b{step}"
    print("  ret void\n}")
