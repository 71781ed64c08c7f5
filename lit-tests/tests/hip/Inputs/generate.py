"""Writes the units of a random HIP program: SEED FOLDER [rocm]. Prints their names. With AMD's headers (rocm), functions print, allocate memory and
call themselves.

Functions call each other across units, some through tables of pointers; kernels have LDS, also behind calls, launch bounds, constants and
variables of several kinds."""
import random
import sys

seed, folder = int(sys.argv[1]), sys.argv[2]
dice = random.Random(seed)
# Apart, so that a program is the same without these.
rocm, more = sys.argv[3:] == ["rocm"], random.Random(seed)
units = dice.randint(2, 5)
functions = dice.randint(3, 14)
kernels = dice.randint(3, 12)
indirect = dice.random() < 0.6
shared_behind_calls = dice.random() < 0.4
header = "<hip/hip_runtime.h>" if rocm else "\"hip.h\""
files = [[f"#include {header}", "typedef int (*function)(int);",
          "inline __device__ int common(int x) { return x * 3 + 1; }",
          "template <int n> __device__ __attribute__((noinline)) int unrolled(int x) {",
          "  int all[n];", "  for (int i = 0; i < n; ++i) all[i] = x * i;",
          "  for (int i = 0; i < n; ++i) __asm__ volatile(\"\" : \"+v\"(all[i]));",
          "  int sum = 0;", "  for (int i = 0; i < n; ++i) sum += all[i];", "  return sum;", "}"] for _ in range(units)]
for file in files:
    file += [f"__device__ int f{number}(int);" for number in range(functions)]
    file += ["extern __device__ function targets[4];"]
where = [dice.randrange(units) for _ in range(functions)]
# Half of the functions may stand in the table; a function of the table never calls through it.
listed = [number for number in range(functions) if number % 2 == 0][:4]
for number in range(functions):
    file = files[where[number]]
    noinline = "__attribute__((noinline)) " if dice.random() < 0.7 else ""
    body = [f"  int y = x + {dice.randint(1, 99)};"]
    if dice.random() < 0.5:
        body.append(f"  y ^= unrolled<{dice.choice([4, 12, 30, 60])}>(y);")
    if shared_behind_calls and number not in listed and dice.random() < 0.4:
        size = dice.randint(1, 300)
        file.append(f"__shared__ int lds{number}[{size}];")
        # The last element has a constant address, which the checker compares with the size.
        body.append(f"  lds{number}[y % {size}u] += y; lds{number}[{size - 1}] += 1; y = lds{number}[0];")
    if dice.random() < 0.3:
        body.append(f"  volatile int stack[{dice.randint(2, 40)}]; stack[y & 1] = y; y = stack[0];")
    if dice.random() < 0.3:
        file.append(f"static __device__ int count{number} = {number};")
        body.append(f"  y += count{number}++;")
    for callee in dice.sample(range(number + 1, functions), min(dice.randint(0, 2), functions - number - 1)):
        # What the table lists must not reach LDS.
        if number not in listed or not shared_behind_calls or callee in listed:
            body.append(f"  y += f{callee}(y);")
    if rocm and more.random() < 0.2:
        body.append("  printf(\"%d\\n\", y);")
    if rocm and more.random() < 0.2:
        body.append("  int *heap = (int *)malloc(64); heap[y & 7] = y; y += heap[0]; free(heap);")
    if rocm and more.random() < 0.2:
        body.append(f"  if (x > 9) y += f{number}(x - 7);")
    file += [f"__device__ {noinline}int f{number}(int x) {{", *body, "  return common(y);", "}"]
for number in range(kernels):
    file = files[dice.randrange(units)]
    bounds = f"__attribute__((amdgpu_flat_work_group_size(1, {dice.choice([64, 256, 1024])}))) " if dice.random() < 0.4 else ""
    body = [f"  int y = values[{number}];"]
    if dice.random() < 0.5:
        size = dice.randint(1, 500)
        body.append(f"  __shared__ int tile[{size}]; tile[y % {size}u] = y; tile[{size - 1}] += 1; y += tile[0];")
    if dice.random() < 0.3:
        file.append(f"__constant__ int table{number}[4] = {{1, 2, 3, {number}}};")
        body.append(f"  y += table{number}[y & 3];")
    if dice.random() < 0.4:
        body.append(f"  y ^= unrolled<{dice.choice([8, 50, 90])}>(y);")
    for callee in dice.sample(range(functions), dice.randint(0, 2)):
        body.append(f"  y += f{callee}(y);")
    if indirect and dice.random() < 0.5:
        body.append("  y += targets[y & 3](y);")
    file += [f"__global__ {bounds}void k{number}(int *values) {{", *body, f"  values[{number}] = y;", "}"]
names = [f"f{dice.choice(listed)}" for _ in range(4)]
files[0].append(f"__device__ function targets[4] = {{{', '.join(names)}}};")
for number, file in enumerate(files):
    name = f"{folder}/unit{number}.hip"
    with open(name, "w") as out:
        out.write("\n".join(file) + "\n")
    print(name)
