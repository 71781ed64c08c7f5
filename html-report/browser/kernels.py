"""Writes a program with many kernels, as PTX or machine code, for pages of this size."""

import pathlib
import subprocess

# A first view and a search are measured with as many.
KERNELS = 10_000
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
# What templates make of names.
NAME = "_ZN7library6detail{length}kernel_{number:05}INS_6LayoutILi{rows}ELi{columns}EEENS_7traits{short}IfEEEEvPKT0_PS5_i"
BODY = """.visible .entry {name}(.param .u64 from, .param .u64 to, .param .u32 number)
{{
.reg .u64 %rd<4>; .reg .f32 %f<4>; .reg .u32 %r<4>;
ld.param.u64 %rd1, [from];
ld.param.u64 %rd2, [to];
cvta.to.global.u64 %rd1, %rd1;
cvta.to.global.u64 %rd2, %rd2;
ld.global.f32 %f1, [%rd1];
{work}
st.global.f32 [%rd2], %f1;
ret;
}}
"""


def name(number):
    """The mangled name of one of them."""
    return NAME.format(length=len("kernel_00000"), number=number, rows=8 << number % 5, columns=4 << number % 7, short=number % 3)


def ptx(numbers):
    """Kernels of many sizes."""
    work = lambda number: "fma.rn.f32 %f1, %f1, %f1, %f1;\n" * (1 + number * number % 97)
    return HEADER + "".join(BODY.format(name=name(number), work=work(number)) for number in numbers)


def cubins(folder, kernels, each=500, jobs=2):
    """Machine code of so many kernels, in files of `each`; those that are there already are kept."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files, running = [], []
    for first in range(0, kernels, each):
        output = folder / f"{first:05}.cubin"
        files.append(output)
        if output.exists():
            continue
        source = folder / f"{first:05}.ptx"
        source.write_text(ptx(range(first, min(first + each, kernels))))
        running.append((output, subprocess.Popen(["ptxas", "-O1", "-arch", "sm_80", source, "-o", output.with_suffix(".partial")])))
        if len(running) == jobs:
            finish(running.pop(0))
    for one in running:
        finish(one)
    return files


def report(bundle, work, number=KERNELS):
    """A report of so many kernels."""
    page = pathlib.Path(work) / "kernels.html"
    subprocess.run([bundle, "report", *cubins(pathlib.Path(work) / "kernels", number), "-o", page], check=True)
    return page


def finish(running):
    output, process = running
    if process.wait():
        raise RuntimeError(f"ptxas cannot compile {output.stem}.ptx")
    output.with_suffix(".partial").rename(output)
