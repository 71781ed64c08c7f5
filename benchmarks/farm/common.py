"""What the tests of all engines share: programs, links, servers, and a proxy that delays or damages."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

LLVM = "/usr/lib/llvm-22/bin"

# Kernels that take long enough to be interrupted.
CUDA_UNIT = r"""
#include <cuda_runtime.h>
template <int N> __device__ double step(double x, int i) {
  double y = x;
  for (int k = 0; k < N; ++k) y = fma(y, sin(y + k), cos(y * i)) / (1.0 + fabs(y)) + pow(fabs(y), 1.0 / (k + 2));
  return y;
}
#define KERNEL(N) __global__ void NAME##N(double *p, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i < n) p[i] = step<N>(p[i], i) + step<N + 1>(p[i], n); }
"""


class Failed(Exception):
    """A test that fails."""


class Farm:
    """The programs to link, and how."""

    def __init__(self, dist, cuda, work):
        self.dist, self.cuda, self.work = map(pathlib.Path, (dist, cuda, work))
        self.work.mkdir(parents=True, exist_ok=True)
        self.counts = {"passed": 0, "failed": 0}
        self.programs = {}

    def tool(self, name):
        return str(self.dist / "bin" / name)

    def compile(self):
        """Compiles one program for NVIDIA's GPUs and one for AMD's, and links each without an engine."""
        objects = []
        for unit in range(4):
            text = CUDA_UNIT.replace("NAME##N", f"unit{unit}_##N")
            text += "".join(f"KERNEL({number})\n" for number in (2, 3, 5, 9))
            text += f"void launch{unit}(double *p) {{ " + "".join(
                f"unit{unit}_{number}<<<1, 1>>>(p, 1); " for number in (2, 3, 5, 9)) + "}\n"
            source = self.work / f"unit{unit}.cu"
            source.write_text(text)
            objects.append(source.with_suffix(".o"))
            run([f"{LLVM}/clang++", "-x", "cuda", f"--cuda-path={self.cuda}", "-Wno-unknown-cuda-version", "-fgpu-rdc",
                 "-foffload-lto", "--offload-arch=sm_90", "-O2", "-c", source, "-o", objects[-1]])
        self.programs["cuda"] = objects
        inputs = pathlib.Path(__file__).parents[2] / "lit-tests/tests/hip/Inputs"
        objects = []
        for name in ("table", "listed"):
            objects.append(self.work / f"{name}.hip.o")
            run([f"{LLVM}/clang++", "-x", "hip", "--offload-new-driver", "-fgpu-rdc", "-nogpuinc", "-nogpulib", "-O2", "-c",
                 "--offload-arch=gfx90a", "--offload-arch=gfx1100", inputs / f"{name}.hip", "-o", objects[-1]])
        self.programs["hip"] = objects
        self.expected = {}
        for name in self.programs:
            self.expected[name] = self.link(name).image

    def command(self, program, arguments, output):
        # Small programs are cut only if they have to be.
        return [self.tool("fatlink"), "--emit-fatbin-only", "--offload-partition-size=1", f"--cuda-path={self.cuda}", "--offload-stats=json",
                "--wrapper-verbose", *self.programs[program], "-o", output, *arguments]

    def start(self, program, arguments, **options):
        """Starts a link."""
        output = pathlib.Path(tempfile.mkdtemp(dir=self.work, prefix="link-")) / "image"
        environment = {**os.environ, "PATH": f"{LLVM}:{os.environ['PATH']}", **options.pop("env", {})}
        process = subprocess.Popen(list(map(str, self.command(program, arguments, output))), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment, **options)
        return Link(process, output)

    def link(self, program, arguments=(), **options):
        """Links, and checks that the image is there."""
        return self.start(program, arguments, **options).end()

    def same(self, link, program):
        """Checks that the image has the bytes of a local link."""
        check(link.image == self.expected[program], f"{program}: the image differs from that of a local link")
        return link

    def test(self, title, work):
        """Runs one test and prints its result."""
        begun = time.monotonic()
        try:
            note = work() or ""
            self.counts["passed"] += 1
            result = "ok"
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self.counts["failed"] += 1
            result, note = "FAILED", str(error)
        print(f"test {title} ... {result} ({time.monotonic() - begun:.1f} s) {note}".rstrip(), flush=True)


class Link:
    """A link that runs or has run."""

    def __init__(self, process, output):
        self.process, self.output = process, output
        self.image, self.stats, self.messages = b"", {}, ""

    def end(self, limit=300):
        try:
            stdout, self.messages = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"the link did not end within {limit} s")
        check(self.process.returncode == 0, f"the link failed: {self.messages}")
        self.stats = json.loads(stdout)
        self.image = self.output.read_bytes()
        shutil.rmtree(self.output.parent)
        return self

    @property
    def elsewhere(self):
        return self.stats["jobs_elsewhere"]

    @property
    def returned(self):
        return self.stats["jobs_returned"]


def check(condition, message):
    if not condition:
        raise Failed(message)


def run(command, **options):
    """Runs a command that has to succeed, and returns its output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    check(done.returncode == 0, f"{' '.join(map(str, command))} failed: {done.stderr or done.stdout}")
    return done.stdout


def install(packages):
    """Installs Debian packages that are missing."""
    missing = [name for name in packages if "install ok installed" not in subprocess.run(
        ["dpkg-query", "-W", "-f=${Status}", name], capture_output=True, text=True).stdout]
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update"], env=environment)
        # Services of the machine are not started: the tests start their own.
        run(["apt-get", "install", "-y", "--no-install-recommends", *missing], env={**environment, "RUNLEVEL": "1"})


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait_for(condition, limit=30, message="nothing happened"):
    """Waits until the condition holds, and returns its value."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failed(f"{message} within {limit} s")


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Server:
    """A server that ends with the test."""

    def __init__(self, command, port, log, **options):
        self.port = port
        self.log = open(log, "ab")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL, start_new_session=True, **options)
        wait_for(lambda: answers(port) or self.process.poll() is not None, message=f"{command[0]} did not start")
        check(self.process.poll() is None, f"{command[0]} ended: see {log}")

    def signal(self, number):
        """Sends a signal to the server and everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def descendants(pid):
    """The processes that a process has started, directly or not, with their names."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            own, rest = stat.read_text().split(" (", 1)
            name, rest = rest.rsplit(") ", 1)
            children.setdefault(int(rest.split()[1]), []).append((int(own), name))
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child[0])
    return found


class Proxy:
    """Passes connections on to a server of this machine, each piece after a delay, or with some bytes changed."""

    def __init__(self, port, delay=0.0, change=None):
        self.target, self.delay, self.change = port, delay, change
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._pass(client, server, None)
                self._pass(server, client, self.change)

    def _pass(self, source, target, change):
        pieces, ready = [], threading.Condition()

        def read():
            with contextlib.suppress(OSError):
                while piece := source.recv(1 << 16):
                    with ready:
                        pieces.append((time.monotonic() + self.delay, piece))
                        ready.notify()
            with ready:
                pieces.append((time.monotonic() + self.delay, b""))
                ready.notify()

        def write():
            with contextlib.suppress(OSError):
                while True:
                    with ready:
                        ready.wait_for(lambda: pieces)
                        due, piece = pieces.pop(0)
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not piece:
                        target.shutdown(socket.SHUT_WR)
                        return
                    target.sendall(change(piece) if change else piece)

        for work in (read, write):
            threading.Thread(target=work, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def digest(content):
    return hashlib.sha256(content).hexdigest()
