#!/usr/bin/env python3
"""Generates programs and shared libraries whose kernels are reached by symbols with versions, version scripts, dynamic lists, tables in named
sections, libraries that lld finds by itself, and options that name symbols; links each with --offload-gc=host by GNU ld, gold, lld and mold, and
runs it on a CUDA runtime that only prints which kernels are launched. Each of them must be in the image. Needs no GPU.

    names.py --dist DIST --cuda CUDA --out FOLDER [--count 50] [--seed 1]

What a library exports is what the linker put into its dynamic symbols: a driver calls all of these.
"""

import concurrent.futures
import random
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import generated

LINKERS = ["bfd", "gold", "lld", "mold"]
UNITS = 3
# Kernels of a unit, each with a function that launches it.
KERNELS = 10
MAGIC = "0x6b65726e656c7321"

RUNTIME = r"""
#include <cstdio>
#include <map>
struct dim3 { unsigned x, y, z; };
#include <set>
static std::map<const void *, const char *> &names() { static auto *all = new std::map<const void *, const char *>; return *all; }
// Launches may come before the registration (-init): they are named at the end.
struct Launches {
  std::set<const void *> stubs;
  ~Launches() {
    for (const void *stub : stubs) std::printf("launched %s\n", names().count(stub) ? names()[stub] : "(unregistered)");
  }
};
static Launches &launches() { static Launches all; return all; }
extern "C" {
void **__cudaRegisterFatBinary(void *) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *stub, char *, const char *name, int, void *, void *, void *, void *, int *) { launches(); names()[stub] = name; }
void __cudaRegisterVar(void **, char *, char *, const char *, int, unsigned long, int, int) {}
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, unsigned long, int, int) {}
unsigned __cudaPushCallConfiguration(dim3, dim3, unsigned long, void *) { return 0; }
int __cudaPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void **) { return 0; }
int cudaLaunchKernel(const void *stub, dim3, dim3, void **, unsigned long, void *) {
  launches().stubs.insert(stub);
  return 0;
}
}
"""

# Calls functions of a library by name, and by name and version.
DRIVER = r"""
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
#include <string>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return std::printf("%s\n", dlerror()), 1;
  for (int i = 2; i < argc; ++i) {
    char *version = std::strchr(argv[i], '@');
    if (version) { *version++ = 0; if (*version == '@') ++version; }
    if (std::strncmp(argv[i], "__start_", 8) == 0) {
      std::string end = std::string("__stop_") + (argv[i] + 8);
      auto from = (void (**)())dlsym(library, argv[i]), to = (void (**)())dlsym(library, end.c_str());
      for (; from && from < to; ++from) (*from)();
      continue;
    }
    void *found = version ? dlvsym(library, argv[i], version) : dlsym(library, argv[i]);
    if (!found) return std::printf("%s\n", dlerror()), 1;
    ((void (*)())found)();
  }
}
"""

SECTIONS = [".data.drv", ".data.rel.ro.drv", ".data.rel.local.drv", ".data.rel.drv", ".ldata.drv", ".data.drv.sub", "drv", "my.drv", ".drv"]


def unit(number):
    """The source of a unit: kernels and the functions that launch them."""
    lines = []
    for k in range(KERNELS):
        name = f"{number}_{k}"
        lines.append(f'extern "C" __global__ void kernel_{name}() {{}}')
        lines.append(f'extern "C" void launch_{name}() {{ kernel_{name}<<<1, 1>>>(); }}')
    return "\n".join(lines) + "\n"


class Program:
    """The files of one program; each way takes launchers that no other way uses."""

    def __init__(self, choice):
        self.choice = choice
        self.launchers = [f"launch_{u}_{k}" for u in range(UNITS) for k in range(KERNELS)]
        choice.shuffle(self.launchers)
        self.is_library = choice.random() < 0.6
        self.files = {}
        self.flags = []
        self.linkers = LINKERS
        # Functions that main calls.
        self.calls = []
        # The version script, by the names of versions.
        self.script = {}
        self.lists = []
        # Archives, with the source of their only member.
        self.archived = []

    def take(self):
        return self.launchers.pop()

    def entry(self, name, body):
        """A visible function; a library's is called by the driver if the link exports it."""
        return f'extern "C" void {name}();\nextern "C" void {name}() {{ {body} }}\n'

    def exported(self):
        """Functions that a version script, a dynamic list or an option may export."""
        code = "".join(f'extern "C" void {name}();\n' for name in self.launchers)
        names = []
        for number in range(self.choice.randint(2, 5)):
            name = f"api_{self.choice.choice('abc')}{number}"
            names.append(name)
            code += self.entry(name, f"{self.take()}();")
        # A C++ function.
        code += f"namespace ns {{ void api_cpp(int) {{ {self.take()}(); }} }}\n"
        self.files["api.cpp"] = code
        patterns = [names[0], "api_[ab]*", '"api_?0"', "api_?1", "api_a*", 'extern "C" { api_b*; "%s"; }' % names[1],
                    'extern "C++" { ns::api_cpp*; "ns::api_cpp(int)"; }', "_ZN2ns7api_cppEi", "api_*", "nothing*", '"api_*"']
        chosen = self.choice.sample(patterns, self.choice.randint(0, 3))
        lines = ["".join(f"    {pattern};\n" for pattern in chosen)]
        way = self.choice.choice(["script", "script", "script", "list", "option", "all", "none"])
        if way == "script":
            local = self.choice.choice(["*", "*", "api_a*", "api_?0; api_?1", "launch_*", names[-1], 'extern "C" { api_*; }'])
            shown = f"  global:\n{lines[0]}" if chosen else ""
            self.script["V1"] = f"{{ /* a comment */\n{shown}  local: {local};\n}}"
        elif way == "list":
            self.lists.append("{\n" + (lines[0] or "    nothing*;\n") + "};\n")
        elif way == "option":
            self.flags.append(f"-Wl,--export-dynamic-symbol={self.choice.choice(['api_a*', names[0], 'api_?1'])}")
        elif way == "all":
            self.flags.append("-Wl,-E")

    def versions(self):
        """Symbols with versions, of functions with other names."""
        code = ""
        nodes = self.choice.sample(["V1", "V2", "V3"], self.choice.randint(1, 3))
        for number in range(self.choice.randint(1, 3)):
            for place, node in enumerate(nodes):
                launcher = self.take()
                name = f"inner_{number}_{node}"
                hidden = self.choice.choice(["", "", '__attribute__((visibility("protected"))) '])
                code += f'extern "C" void {launcher}();\nextern "C" {hidden}void {name}() {{ {launcher}(); }}\n'
                default = "@@" if place + 1 == len(nodes) else "@"
                code += f'asm(".symver {name}, api_version_{number}{default}{node}");\n'
        self.files["versions.cpp"] = code
        for node in nodes:
            self.script.setdefault(node, self.choice.choice(["{ local: *; }", "{ global: other*; local: *; }"]) if node == "V1" else "{ }")

    def table(self):
        """A table from a symbol in one object to a symbol in another, walked in a constructor or by a call."""
        section = self.choice.choice(SECTIONS)
        attribute = f'__attribute__((section("{section}"), used))'
        suffix = section.rsplit(".", 1)[-1]
        head = "struct Part { unsigned long magic; void (*run)(); };\n"
        names = [f"table_{i}" for i in range(self.choice.randint(3, 5))]
        for place, name in enumerate(names):
            launchers = [self.take() for _ in range(self.choice.randint(1, 2))]
            code = head + "".join(f'extern "C" void {launcher}();\n' for launcher in launchers)
            parts = ", ".join(f"{{{MAGIC}, {launcher}}}" for launcher in launchers)
            is_bound = place in (0, len(names) - 1)
            variable = name if is_bound else self.choice.choice([name, suffix])
            code += f"extern Part {variable}[];\n" if is_bound else ""
            code += f"{attribute} {'' if is_bound else 'static '}Part {variable}[] = {{{parts}}};\n"
            self.files[f"table_{place}.cpp"] = code
        walk = (head + f"extern Part {names[0]}[], {names[-1]}[];\n" +
                f'extern "C" __attribute__((visibility("hidden"))) void walk_table() {{\n'
                f"  volatile unsigned long *from = &{names[0]}[0].magic, *to = &{names[-1]}[0].magic;\n"
                f"  for (; from <= to; ++from) if (*from == {MAGIC}) ((void (*)())from[1])();\n}}\n")
        if self.is_library:
            walk += "__attribute__((constructor)) static void start() { walk_table(); }\n"
        else:
            self.calls.append("walk_table")
        self.files["walk.cpp"] = walk

    def autolink(self):
        """A library that only lld finds: the others do not link such a program."""
        launcher = self.take()
        self.files["autolink.cpp"] = ('#pragma comment(lib, "helper")\nextern "C" void help();\n'
                                  'extern "C" __attribute__((visibility("hidden"))) void helped() { help(); }\n' +
                                  ("__attribute__((constructor)) static void started() { helped(); }\n" if self.is_library else ""))
        self.archived.append(("helper", f'extern "C" void {launcher}();\nextern "C" void help() {{ {launcher}(); }}\n'))
        if not self.is_library:
            self.calls.append("helped")
        self.linkers = ["lld"]

    def bounds(self):
        """A table between the bounds that the linker defines, which nothing but code that is not reached names."""
        launchers = [self.take() for _ in range(2)]
        code = "".join(f'extern "C" void {launcher}();\n' for launcher in launchers)
        for launcher in launchers:
            code += f'__attribute__((section("jobs"), used)) static void (*of_{launcher})() = {launcher};\n'
        visibility = self.choice.choice(["", '__attribute__((visibility("hidden"))) '])
        code += (f"extern {visibility}void (*__start_jobs[])(), (*__stop_jobs[])();\n"
                 f'extern "C" __attribute__((visibility("hidden"))) void not_reached() {{\n'
                 f"  for (auto job = __start_jobs; job != __stop_jobs; ++job) (*job)();\n}}\n")
        self.files["bounds.cpp"] = code

    def named(self):
        """Functions that nothing but an option names."""
        launcher = self.take()
        way = self.choice.choice(["undefined", "defsym", "init", "wrap"])
        self.files["named.cpp"] = (f'extern "C" void {launcher}();\nextern "C" void named() {{ {launcher}(); }}\n')
        if way == "undefined":
            self.flags.append("-Wl,-u,named")
        elif way == "defsym":
            self.flags.append("-Wl,--defsym=other_name=named")
            if not self.is_library:
                self.files["calls_other.cpp"] = ('extern "C" void other_name();\nextern "C" void call_other() { other_name(); }\n')
                self.calls.append("call_other")
        elif way == "init":
            self.flags.append("-Wl,-init,named")
        else:
            self.files["named.cpp"] = (f'extern "C" void {launcher}();\nextern "C" void __real_target();\n'
                                       f'extern "C" void __wrap_target() {{ {launcher}(); __real_target(); }}\n')
            target = self.take()
            self.files["target.cpp"] = f'extern "C" void {target}();\nextern "C" void target() {{ {target}(); }}\n'
            self.files["calls_target.cpp"] = ('extern "C" void target();\nextern "C" void call_target() { target(); }\n' +
                                              ("__attribute__((constructor)) static void started() { call_target(); }\n" if self.is_library else ""))
            self.flags.append("-Wl,--wrap=target")
            if not self.is_library:
                self.calls.append("call_target")

    def generate(self):
        ways = self.choice.sample(["exported", "versions", "table", "bounds", "autolink", "named"], self.choice.randint(1, 3))
        if self.choice.random() < 0.7 and "autolink" in ways and len(ways) > 1:
            ways.remove("autolink")
        if not self.is_library and "versions" in ways:
            self.flags.append("-Wl,-E")
        for way in ways:
            getattr(self, way)()
        self.ways = ways
        if self.script:
            nodes = sorted(self.script)
            text = "".join(f"{node} {self.script[node]}{' ' + nodes[i - 1] if i else ''};\n" for i, node in enumerate(nodes))
            # A script without names of versions is another form.
            if nodes == ["V1"] and "versions" not in ways and self.choice.random() < 0.5:
                text = text.removeprefix("V1 ")
            self.files["script"] = text
            self.flags.append("-Wl,--version-script=script")
        if self.lists:
            self.files["list"] = "".join(self.lists)
            self.flags.append("-Wl,--dynamic-list=list")
        if not self.is_library:
            lines = [f'extern "C" void {name}();' for name in self.calls]
            self.files["main.cpp"] = "\n".join(lines + ["int main() {", *[f"  {name}();" for name in self.calls], "}"]) + "\n"
        return self


class Generator(generated.Generator):
    def common(self):
        """Compiles what all programs share."""
        for number in range(UNITS):
            (self.work / f"u{number}.cu").write_text(unit(number))
        (self.work / "runtime.cpp").write_text(RUNTIME)
        (self.work / "driver.cpp").write_text(DRIVER)
        compile = generated.compiler(self.options, "-O1", "-fPIC", "-ffunction-sections", "-fdata-sections")
        jobs = [compile + [f"u{number}.cu", "-o", f"u{number}.o"] for number in range(UNITS)]
        jobs.append([self.options.clang, "-O1", "-shared", "-fPIC", "runtime.cpp", "-o", "libcudart.so"])
        jobs.append([self.options.clang, "-O1", "driver.cpp", "-ldl", "-o", "driver"])
        self.compile_all(jobs)

    def program(self, number):
        """Links one program by each linker and runs it; returns the differences, and how many kernels are launched and left out."""
        choice = random.Random(self.options.seed * 7919 + number)
        program = Program(choice).generate()
        folder, target = generated.folders(self.options, number)
        for name, text in program.files.items():
            (folder / name).write_text(text)
        objects = []
        for name in program.files:
            if name.endswith(".cpp"):
                # Tables are walked by what compilers may not know.
                level = "-O0" if name == "walk.cpp" else "-O1"
                compiler = choice.choice([self.options.clang, "g++"]) if "pragma" not in program.files[name] else self.options.clang
                flags = choice.choice([[], ["-ffunction-sections"], ["-ffunction-sections", "-fdata-sections"]])
                generated.run([compiler, "-c", level, "-fPIC", *flags, name, "-o", name + ".o"], folder)
                objects.append(name + ".o")
        objects.sort()
        for name, text in program.archived:
            (folder / f"{name}.cc").write_text(text)
            generated.run([self.options.clang, "-c", "-O1", "-fPIC", f"{name}.cc", "-o", f"{name}.o"], folder)
            generated.run(["/usr/lib/llvm-22/bin/llvm-ar", "rc", f"lib{name}.a", f"{name}.o"], folder)
        objects += [f"../u{unit}.o" for unit in range(UNITS)]
        results = [self.linked(program, folder, target, objects, linker) for linker in program.linkers]
        return number, program, results

    def linked(self, program, folder, target, objects, linker):
        output = target / linker
        shared = ["-shared"] if program.is_library else []
        line = [self.options.clang, "-B", f"{self.options.dist}/bin", "--offload-link", f"--cuda-path={self.options.cuda}", *shared,
                f"-fuse-ld={linker}", *objects, *program.flags, "-L.", self.work / "libcudart.so", f"-Wl,-rpath,{self.work}", "-Xlinker",
                "--offload-gc=host", "-Xlinker", "--wrapper-verbose", "-o", output]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            # Linkers reject some scripts, such as patterns that match nothing.
            return linker, None, (done.stdout + done.stderr).strip().splitlines()[-3:]
        if program.is_library:
            listed = generated.run(["nm", "-D", "--defined-only", "--with-symbol-versions", output], folder)
            symbols = (line.split() for line in listed.splitlines())
            names = [name for _, kind, name in symbols if kind in "TWD" and
                     re.match(r"(api|launch|inner|named|ns|_ZN2ns|help|other_name|__start_jobs)", name)]
            names = [name.split("@")[0] if name.startswith("__start_") else name for name in names]
            command = [self.work / "driver", output, *names]
        else:
            command = [output]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{output}: exit {ran.returncode}: {ran.stdout}{ran.stderr}")
        launched = set(re.findall(r"launched (\S+)", ran.stdout))
        symbols = subprocess.run([f"{self.options.cuda}/bin/cuobjdump", "--dump-elf-symbols", output], capture_output=True, text=True).stdout
        present = set(re.findall(r"ENTRY\s+(\S+)", symbols))
        all_kept = re.search("keeps all kernels: (.*)", done.stdout + done.stderr)
        return linker, (launched, present, all_kept and all_kept[1]), []


def main():
    options = generated.arguments(__doc__, count=50).parse_args()
    generator = Generator(options)
    generator.common()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(generator.program, range(options.count)))
    links = launches = left_out = kept_all = refused = dropped = 0
    for number, program, results in found:
        for linker, result, why in results:
            if result is None:
                refused += 1
                print(f"p{number:03} {linker}: not linked: {' / '.join(why)}")
                continue
            launched, present, all_kept = result
            links += 1
            launches += len(launched)
            left_out += UNITS * KERNELS - len(present)
            kept_all += bool(all_kept)
            if launched - present:
                dropped += 1
                print(f"p{number:03} {linker} {program.ways}: DROPPED {sorted(launched - present)}")
    print(f"{links} links of {len(found)} programs ({refused} that the linker rejects, {kept_all} that keep all kernels): {launches} kernels are launched, "
          f"{left_out} of {links * UNITS * KERNELS} are left out; {dropped} links dropped a kernel that is launched")
    sys.exit(dropped != 0)


main()
