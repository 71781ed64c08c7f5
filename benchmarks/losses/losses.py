#!/usr/bin/env python3
"""Plants losses of device code in the ways of build systems, and says what each tool makes of them: see README.md beside this."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = HERE.parent.parent / "lit-tests/tests/Inputs"
LINKERS = ["ld.bfd", "ld.gold", "ld.lld-22", "ld.mold"]

# Host code without kernels.
PLAIN = {
    "main.c": "void start(void) {}\n",
    "calls.c": "void launch_a(void);\nvoid start(void) { launch_a(); }\n",
    "hook.c": "void hook(void);\nvoid start(void) { hook(); }\n",
    "common.c": "int launch_shared;\nint *start(void) { return &launch_shared; }\n",
    "versioned.c": '__asm__(".symver launch_a,launch_a@V1");\nvoid launch_a(void);\nvoid start(void) { launch_a(); }\n',
    "pragma.c": '#pragma comment(lib, "a")\nvoid launch_a(void);\nvoid start(void) { launch_a(); }\n',
    "weak.c": "__attribute__((weak)) void launch_a(void);\nvoid start(void) { if (launch_a) launch_a(); }\n",
    "member.c": "void launch_a(void);\nvoid between(void) { launch_a(); }\n",
    "between.c": "void between(void);\nvoid start(void) { between(); }\n",
    "runtime.c": "".join(f"void {name}(void) {{}}\n" for name in (
        "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary", "__cudaRegisterFunction", "__cudaRegisterVar",
        "__cudaRegisterManagedVar", "__cudaRegisterSurface", "__cudaRegisterTexture")) + "int atexit(void (*f)(void)) { return 0; }\n",
    "constructor.c": "void launch_a(void);\n__attribute__((constructor)) static void run(void) { launch_a(); }\n",
}
# Host code of the kernel kernel_<name>, which launch_<name> launches.
HOST = """#include "entry.h"
void kernel_{name}(void) {{ __asm__("nop"); }}
ENTRY(kernel_{name}, 0, 0)
void launch_{name}(void) {{ kernel_{name}(); }}
{more}
"""
MORE = {
    "a": "void __wrap_hook(void) { launch_a(); }",
    "s": "int launch_shared = 1;",
    "v": '__asm__(".symver launch_v,launch_a@@V1");',
}
DEVICE = "__attribute__((nvptx_kernel)) void kernel_{name}(void) {{}}\n"

SHARED = ["-shared"]
A = ["main.o", "liba.a"]
# Name: the words behind the linker and the output, and files of that case alone. {folder} is that of the link.
CASES = {
    "-u": (SHARED + ["-u", "launch_a"] + A, {}),
    "-uNAME": (SHARED + ["-ulaunch_a"] + A, {}),
    "--undefined": (SHARED + ["--undefined=launch_a"] + A, {}),
    "--undefined, two words": (SHARED + ["--undefined", "launch_a"] + A, {}),
    "--undef (abbreviated)": (SHARED + ["--undef=launch_a"] + A, {}),
    "--undefined-glob": (SHARED + ["--undefined-glob=launch_*"] + A, {}),
    "-e": (SHARED + ["-e", "launch_a"] + A, {}),
    "-eNAME": (SHARED + ["-elaunch_a"] + A, {}),
    "--entry": (SHARED + ["--entry=launch_a"] + A, {}),
    "--require-defined": (SHARED + ["--require-defined=launch_a"] + A, {}),
    "-require-defined": (SHARED + ["-require-defined=launch_a"] + A, {}),
    "--defsym": (SHARED + ["--defsym=other=launch_a"] + A, {}),
    "--defsym, two words": (SHARED + ["--defsym", "other=launch_a"] + A, {}),
    "-defsym": (SHARED + ["-defsym=other=launch_a+8"] + A, {}),
    "-init and -u": (SHARED + ["-init", "launch_a", "-u", "launch_a"] + A, {}),
    "--wrap": (SHARED + ["--wrap=hook", "hook.o", "liba.a"], {}),
    "--whole-archive": (SHARED + ["--whole-archive", *A, "--no-whole-archive"], {}),
    "--whole-arch (abbreviated)": (SHARED + ["--whole-arch", *A, "--no-whole-archive"], {}),
    "--push-state": (SHARED + ["--push-state", "--whole-archive", "liba.a", "--pop-state", "main.o"], {}),
    "-L and -l": (SHARED + ["calls.o", "-L.", "-la"], {}),
    "-l:": (SHARED + ["calls.o", "-L", ".", "-l:liba.a"], {}),
    "--library-path, --library": (SHARED + ["calls.o", "--library-path=.", "--library=a"], {}),
    "--library-p (abbreviated)": (SHARED + ["calls.o", "--library-p=.", "--library=a"], {}),
    "-Bstatic -la -Bdynamic": (SHARED + ["calls.o", "-L.", "-Bstatic", "-la", "-Bdynamic"], {}),
    "response file": (SHARED + ["@words"], {"words": "calls.o\n-L.\n-la\n"}),
    "response file in a response file": (SHARED + ["@words"], {"words": "calls.o @more", "more": "-L. '-la'"}),
    "groups that need each other": (SHARED + ["between.o", "--start-group", "liba.a", "libmember.a", "--end-group"], {}),
    "archives in the wrong order, twice": (SHARED + ["between.o", "liba.a", "libmember.a", "liba.a"], {}),
    "--start-lib": (SHARED + ["calls.o", "--start-lib", "a.o", "b.o", "--end-lib"], {}),
    "thin archive": (SHARED + ["calls.o", "libthin.a"], {}),
    "archive of an archive's member name twice": (SHARED + ["calls.o", "libtwice.a"], {}),
    "common symbol": (SHARED + ["common.o", "libs.a"], {}),
    "versioned symbol": (SHARED + ["versioned.o", "libv.a", "--version-script=map"], {"map": "V1 { launch_a; };"}),
    "version script that hides": (SHARED + ["calls.o", "liba.a", "--version-script=map"], {"map": "{ local: *; };"}),
    "dynamic list": (SHARED + ["calls.o", "liba.a", "--dynamic-list=list"], {"list": "{ start; };"}),
    "weak reference and another one": (SHARED + ["weak.o", "calls2.o", "liba.a"], {}),
    "weak reference and -u": (SHARED + ["weak.o", "-u", "launch_a", "liba.a"], {}),
    "constructor": (SHARED + ["constructor.o", "liba.a"], {}),
    "--gc-sections": (SHARED + ["--gc-sections", "calls.o", "liba.a"], {}),
    "--icf=all": (SHARED + ["--icf=all", "calls.o", "liba.a", "b.o"], {}),
    "--exclude-libs": (SHARED + ["--exclude-libs=ALL", "calls.o", "liba.a"], {}),
    "-Bsymbolic -z now --no-undefined": (SHARED + ["-Bsymbolic", "-z", "now", "--no-undefined", "calls.o", "runtime.o", "liba.a"], {}),
    "script: EXTERN": (SHARED + ["x.ld", *A], {"x.ld": "EXTERN(launch_a)"}),
    "script: ENTRY": (SHARED + ["x.ld", *A], {"x.ld": "ENTRY(launch_a)"}),
    "script: assignment": (SHARED + ["x.ld", *A], {"x.ld": "other = launch_a;"}),
    "script: INPUT": (SHARED + ["calls.o", "x.ld"], {"x.ld": "INPUT(liba.a)"}),
    "script: GROUP and AS_NEEDED": (SHARED + ["calls.o", "-L.", "-lx"], {"libx.so": "GROUP(AS_NEEDED(liba.a))"}),
    "script: quoted": (SHARED + ["calls.o", "x.ld"], {"x.ld": 'INPUT("lib a.a")'}),
    "script: INCLUDE": (SHARED + ["calls.o", "x.ld"], {"x.ld": "INCLUDE y.ld", "y.ld": "INPUT(liba.a)"}),
    "script: sysroot": (SHARED + ["--sysroot={folder}", "calls.o", "x.ld"], {"x.ld": "INPUT(=/liba.a)"}),
    "script: 100 KB": (SHARED + ["x.ld", *A], {"x.ld": f"/*{100000 * '0'}*/ EXTERN(launch_a)"}),
    "-T": (SHARED + ["-T", "x.ld", *A], {"x.ld": "EXTERN(launch_a) SECTIONS { .text : { *(.text*) } }"}),
    "-T: /DISCARD/ of the entries": (SHARED + ["-T", "x.ld", "a.o"], {"x.ld": "SECTIONS { /DISCARD/ : { *(llvm_offload_entries) } }"}),
    "-T: /DISCARD/ of the images": (SHARED + ["-T", "x.ld", "a.o"], {"x.ld": "SECTIONS { /DISCARD/ : { *(.nv_fatbin) } }"}),
    "#pragma comment(lib)": (SHARED + ["-L.", "pragma.o"], {}),
    "objcopy -R of one object": (SHARED + ["a.o", "lost_b.o"], {}),
    "objcopy -R of a member": (SHARED + ["calls.o", "c.o", "liblost.a"], {}),
    "ld -r of all": (SHARED + ["both.o"], {}),
    "ld -r of all, and one more": (SHARED + ["both.o", "c.o"], {}),
    "units of other targets": (SHARED + ["a.o", "b80.o"], {}),
    "-r of a line with an archive": (["-r", "calls.o", "liba.a"], {}),
    "program, not a library": (["-e", "start", "calls.o", "runtime.o", "liba.a"], {}),
    "static program": (["-static", "-e", "start", "calls.o", "runtime.o", "liba.a"], {}),
}


def run(words, folder, check=True, **more):
    return subprocess.run([str(word) for word in words], cwd=folder, check=check, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def prepare(folder, llvm):
    """Makes the objects and archives of all cases."""
    clang = [llvm / "bin/clang", "-fPIC", "-fcommon", "-ffunction-sections", "-I", INPUTS, "-c"]
    for name, text in PLAIN.items():
        (folder / name).write_text(text)
        run([*clang, name], folder)
    (folder / "calls2.c").write_text(PLAIN["calls.c"].replace("start", "start_too"))
    run([*clang, "calls2.c"], folder)
    for name in "abcsv":
        embed(folder, clang, name, "sm_90", f"{name}.o")
    embed(folder, clang, "b", "sm_80", "b80.o")
    archive = [llvm / "bin/llvm-ar", "rcs"]
    for library, members in {"a": ["a.o"], "s": ["s.o"], "v": ["v.o"], "member": ["member.o"]}.items():
        run([*archive, f"lib{library}.a", *members], folder)
    shutil.copy(folder / "liba.a", folder / "lib a.a")
    run([*archive[:1], "rcsT", "libthin.a", "a.o", "b.o"], folder)
    (folder / "other").mkdir()
    shutil.copy(folder / "b.o", folder / "other/a.o")
    run([llvm / "bin/llvm-ar", "qcs", "libtwice.a", "other/a.o", "a.o"], folder)
    for name, out in (("b.o", "lost_b.o"), ("a.o", "lost_a.o")):
        run([llvm / "bin/llvm-objcopy", "-R", ".llvm.offloading", name, out], folder)
    run([*archive, "liblost.a", "lost_a.o"], folder)
    run(["/usr/bin/ld.bfd", "-r", "a.o", "b.o", "-o", "both.o"], folder)


def embed(folder, clang, name, target, out):
    """A host object with a kernel for one target."""
    (folder / f"{name}.c").write_text(HOST.format(name=name, more=MORE.get(name, "")))
    (folder / f"{name}.device.c").write_text(DEVICE.format(name=name))
    device = ["--target=nvptx64-nvidia-cuda", f"-march={target}", "-nogpulib", "-O1", "-emit-llvm", "-c"]
    run([clang[0], *device, f"{name}.device.c", "-o", f"{name}.bc"], folder)
    image = f"--image=file={name}.bc,triple=nvptx64-nvidia-cuda,arch={target},kind=cuda"
    run([clang[0].parent / "llvm-offload-binary", "-o", f"{name}.images", image], folder)
    run([*clang, f"{name}.c", "-Xclang", f"-fembed-offload-object={name}.images", "-o", out], folder)


def verdict(tool, linker, words, folder, bundle):
    """What a tool makes of a case."""
    (folder / "out.so").unlink(missing_ok=True)
    done = run([tool, f"--linker-path=/usr/bin/{linker}", "-o", "out.so", *words], folder, check=False)
    if done.returncode:
        return ("error", done.stdout)
    checked = run([bundle, "check", "out.so"], folder, check=False).stdout
    bad = [code for code in ("FB017", "FB028", "FB029", "FB030", "FB031") if code in checked]
    symbols = run(["nm", "out.so"], folder).stdout
    entries = [line.split()[-1].partition("$")[0] for line in symbols.splitlines() if " kernel_" in line and " U " not in line]
    if bad:
        return ("warning" if "warning:" in done.stdout and bad == ["FB029"] else "LOST", " ".join(bad))
    if not entries:
        return ("no kernel", done.stdout)
    text = run([bundle, "resources", "out.so"], folder, check=False).stdout
    lost = [kernel for kernel in entries if kernel not in text]
    return ("LOST", f"{' '.join(lost)} unregistered") if lost else ("right", done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=pathlib.Path, required=True, help="the folder of fatlink's programs")
    parser.add_argument("--llvm", type=pathlib.Path, default=pathlib.Path("/usr/lib/llvm-22"), help="LLVM's folder")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where to link")
    parser.add_argument("--verbose", action="store_true", help="print what the tools say where a result is not right")
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    os.environ["PATH"] = f"{arguments.llvm}/bin:{os.environ['PATH']}"
    shutil.rmtree(arguments.out, ignore_errors=True)
    folder = arguments.out.resolve()
    folder.mkdir(parents=True)
    prepare(folder, arguments.llvm)
    tools = {"fatlink": dist / "bin/fatlink", "LLVM": arguments.llvm / "bin/clang-linker-wrapper"}
    counts = {name: {} for name in tools}
    # LLVM's tool takes archive members only for targets that objects on the line have code for.
    beside = {f"{case}, beside an object with device code": (words + ["c.o"], files) for case, (words, files) in CASES.items()
              if "c.o" not in words}
    for case, (words, files) in (CASES | beside).items():
        for name, text in files.items():
            (folder / name).write_text(text)
        words = [word.replace("{folder}", str(folder)) for word in words]
        row = []
        for linker in LINKERS:
            # Not every linker has every option.
            plain = run([f"/usr/bin/{linker}", "-o", "plain.so", *words], folder, check=False)
            if plain.returncode:
                continue
            results = {name: verdict(path, linker, words, folder, dist / "bin/offload-bundle") for name, path in tools.items()}
            for name, (what, _) in results.items():
                counts[name][what] = counts[name].get(what, 0) + 1
            row.append(f"{linker.split('.')[1].split('-')[0]} {'/'.join(what for what, _ in results.values())}")
            if arguments.verbose:
                for name, (what, text) in results.items():
                    if what != "right":
                        print(f"    {case}, {linker}, {name}: {what}: {text.strip()[:300]}")
        print(f"{case}: {', '.join(row) or 'no linker has it'}")
        for name in files:
            (folder / name).unlink()
    for name, found in counts.items():
        print(f"{name}: {', '.join(f'{count} {what}' for what, count in sorted(found.items()))}")
    sys.exit("LOST" in counts["fatlink"])


if __name__ == "__main__":
    main()
