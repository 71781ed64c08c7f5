"""What every store of shared results has to pass: the same bytes as a local link, cold and warm, whatever happens to the store."""

import contextlib
import errno
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from common import Proxy, check, run, wait_for

# Bytes in front of an entry's content.
HEADER = 88


class Store:
    """A server that keeps entries as files. Subclasses start it; its entries are read and written behind its back."""

    name = ""

    def __init__(self, farm):
        self.farm = farm
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=farm.work, prefix=f"{self.name}-"))
        self.server = self.start()

    def start(self):
        """Starts the server with what it has stored."""
        raise NotImplementedError

    def variables(self, port):
        """The environment of a link that uses the store at this port."""
        raise NotImplementedError

    def root(self):
        """The folder of the entries."""
        raise NotImplementedError

    def restart(self):
        self.stop()
        self.server = self.start()

    def stop(self):
        self.server.__exit__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def entries(self):
        """The names of all entries."""
        return sorted(str(path.relative_to(self.root())) for path in self.root().rglob("*") if path.is_file())

    def read(self, name):
        return (self.root() / name).read_bytes()

    def write(self, name, content):
        (self.root() / name).write_bytes(content)

    def clear(self):
        wait_for(self.is_cleared, message="entries come without end")

    def is_cleared(self):
        """Removes all entries. A server that was stopped in a request writes the entry when it goes on, into a folder that is being removed."""
        try:
            for path in self.root().iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return False
        return True


@contextlib.contextmanager
def small_disk(folder, kilobytes):
    """A file system with little room."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder])
    try:
        yield
    finally:
        run(["umount", "--lazy", folder])


def warnings(link):
    return [line for line in link.messages.splitlines() if "warning:" in line]


def quiet(link):
    check(not warnings(link), f"unexpected warnings: {warnings(link)}")
    return link


def counts(link, **expected):
    """Checks numbers of --offload-stats; a function is a condition."""
    found = link.stats["remote_cache"]
    for name, value in expected.items():
        good = value(found[name]) if callable(value) else found[name] == value
        check(good, f"{name} is {found[name]}: {json.dumps(found)}")
    return link


def one_warning(link, text):
    found = warnings(link)
    check(len(found) == 1 and text in found[0], f"expected one warning with '{text}': {found}")
    return link


class Tests:
    """The tests of one store."""

    def __init__(self, farm, store):
        self.farm, self.store = farm, store
        self.key = farm.work / "cache.key"
        self.key.write_text("0123456789abcdef" * 4)

    def start(self, program, *arguments, port=None, **variables):
        environment = {"SSL_CERT_FILE": "", **self.store.variables(port or self.store.server.port), **variables}
        return self.farm.start(program, arguments, env=environment)

    def link(self, program, *arguments, **options):
        return self.farm.same(self.start(program, *arguments, **options).end(), program)

    def keyed(self, program, *arguments, **options):
        return self.link(program, f"--offload-cache-key-file={self.key}", *arguments, **options)

    def all(self):
        name = self.store.name
        for title, work in [
            ("cold and warm", self.cold_and_warm),
            ("another program with the same code", self.part),
            ("behind a folder", self.folder),
            ("200 ms of delay", self.delay),
            ("read-only", self.read_only),
            ("two links at once", self.two_at_once),
            ("damaged, cut off, exchanged and foreign entries", self.entries),
            ("wrongly keyed entries", self.wrong_key),
            ("killed in the middle", self.killed),
            ("stopped in the middle", self.stopped),
        ]:
            self.farm.test(f"{name}: {title}", work)

    def cold_and_warm(self):
        notes = []
        for program in ("cuda", "hip"):
            self.store.clear()
            cold = counts(quiet(self.link(program)), hits=0, refused=0, unsent=0, sent=lambda sent: sent > 1)
            stored = len(self.store.entries())
            check(stored == cold.stats["remote_cache"]["sent"], f"{stored} entries are in the store")
            warm = counts(quiet(self.link(program)), misses=0, sent=0, hits=lambda hits: hits > 0)
            check(all(job["cached"] for job in warm.stats["jobs"]), "a job of the warm link ran")
            counts(quiet(self.keyed(program)), hits=0, misses=lambda misses: misses > 1)
            counts(quiet(self.keyed(program)), misses=0, sent=0, hits=lambda hits: hits > 0)
            notes.append(f"{program}: {stored} entries, {cold.stats['remote_cache']['sent_bytes']} bytes")
        return "; ".join(notes)

    def part(self):
        """A program of three of the four units finds what it shares with the whole."""
        self.store.clear()
        quiet(self.link("cuda"))
        part = counts(quiet(self.link("part")), hits=lambda hits: hits > 1, misses=lambda misses: misses > 0)
        found = part.stats["remote_cache"]
        return f"{found['hits']} found, {found['misses']} not"

    def folder(self):
        self.store.clear()
        folder = f"--offload-cache={self.store.folder}/first"
        quiet(self.link("cuda", folder))
        shutil.rmtree(f"{self.store.folder}/first")
        counts(quiet(self.link("cuda", folder)), misses=0, hits=lambda hits: hits > 0)
        counts(quiet(self.link("cuda", folder)), misses=0, hits=0)

    def delay(self):
        self.store.clear()
        with Proxy(self.store.server.port, delay=0.1) as proxy:
            cold = counts(quiet(self.link("cuda", port=proxy.port)), unsent=0, hits=0)
            warm = counts(quiet(self.link("cuda", port=proxy.port)), misses=0)
            part = counts(quiet(self.link("part", port=proxy.port)), hits=lambda hits: hits > 1)
        seconds = [sum(phase["wall_seconds"] for phase in link.stats["phases"] if phase["name"] == "the whole link")
                   for link in (cold, warm, part)]
        requests = part.stats["remote_cache"]["receiving_seconds"]
        return f"cold {seconds[0]:.2f} s, warm {seconds[1]:.2f} s, part {seconds[2]:.2f} s with {requests:.2f} s of requests"

    def read_only(self):
        self.store.clear()
        mode = "--offload-cache-remote-mode=read-only"
        counts(quiet(self.link("cuda", mode)), hits=0, sent=0)
        check(not self.store.entries(), "a reader has added entries")
        quiet(self.link("cuda"))
        counts(quiet(self.link("cuda", mode)), misses=0, sent=0, hits=lambda hits: hits > 0)

    def two_at_once(self):
        self.store.clear()
        links = [self.start(program) for program in ("cuda", "cuda", "hip")]
        for link, program in zip(links, ("cuda", "cuda", "hip")):
            quiet(self.farm.same(link.end(), program))
        counts(quiet(self.link("cuda")), misses=0)
        counts(quiet(self.link("hip")), misses=0)

    def entries(self):
        """Each damage is found, and mended by the link that found it."""
        self.store.clear()
        quiet(self.keyed("cuda"))
        damages = {
            "damaged": lambda content, other: content[:-1] + bytes([content[-1] ^ 1]),
            "damaged header": lambda content, other: content[:50] + bytes([content[50] ^ 1]) + content[51:],
            "cut off": lambda content, other: content[:len(content) // 2],
            "cut off in the header": lambda content, other: content[:HEADER - 1],
            "empty": lambda content, other: b"",
            "longer": lambda content, other: content + b"\0",
            "exchanged": lambda content, other: other,
            "a page": lambda content, other: b"<html><body>Please log in</body></html>",
            "huge": lambda content, other: content + bytes(5 << 20),
        }
        for damage, of in damages.items():
            contents = {name: self.store.read(name) for name in self.store.entries()}
            check(len(contents) > 1, "there are no entries")
            names = list(contents)
            for place, name in enumerate(names):
                self.store.write(name, of(contents[name], contents[names[place - 1]]))
            link = counts(self.keyed("cuda"), hits=0, refused=len(contents), sent=len(contents))
            one_warning(link, f"{len(contents)} entries of the remote cache")
            counts(quiet(self.keyed("cuda")), misses=0, refused=0)
            for name in names:
                check(self.store.read(name) == contents[name], f"{damage}: the entry was not replaced")

    def wrong_key(self):
        """Somebody without the key puts entries in the place of ours."""
        other = self.store.farm.work / "other.key"
        other.write_text("fedcba9876543210" * 4)
        self.store.clear()
        quiet(self.link("cuda", f"--offload-cache-key-file={other}"))
        forged = [self.store.read(name) for name in self.store.entries()]
        self.store.clear()
        quiet(self.link("cuda"))
        forged += [self.store.read(name) for name in self.store.entries()]
        self.store.clear()
        counts(quiet(self.keyed("cuda")), hits=0)
        names = self.store.entries()
        for start in (0, len(names)):
            for name, content in zip(names, forged[start:]):
                self.store.write(name, content)
            link = counts(self.keyed("cuda"), hits=0, refused=len(names))
            one_warning(link, "were not used: the first is")
            counts(quiet(self.keyed("cuda")), misses=0)

    def killed(self):
        """The server ends while a link reads and writes."""
        self.store.clear()
        link = self.start("cuda")
        wait_for(lambda: link.process.poll() is not None or len(self.store.entries()) > 0, message="nothing was stored")
        self.store.server.signal(signal.SIGKILL)
        link = self.farm.same(link.end(), "cuda")
        check(len(warnings(link)) <= 1, f"more than one warning: {warnings(link)}")
        gone = one_warning(self.link("cuda"), "was not used for the rest of this link")
        counts(gone, hits=0, sent=0)
        self.store.restart()
        quiet(self.link("cuda"))
        counts(quiet(self.link("cuda")), misses=0)
        return f"the first link said {warnings(link)}" if warnings(link) else "the first link had sent everything"

    def stopped(self):
        """The server no longer answers, and closes no connection."""
        self.store.clear()
        link = self.start("cuda", "--offload-cache-remote-timeout=1.5")
        wait_for(lambda: link.process.poll() is not None or len(self.store.entries()) > 0, message="nothing was stored")
        self.store.server.signal(signal.SIGSTOP)
        link = self.farm.same(link.end(), "cuda")
        check(len(warnings(link)) <= 1, f"more than one warning: {warnings(link)}")
        begun = time.monotonic()
        silent = one_warning(self.link("cuda", "--offload-cache-remote-timeout=1.5"), "no answer within 1500 ms")
        counts(silent, hits=0)
        seconds = time.monotonic() - begun
        self.store.server.signal(signal.SIGCONT)
        return f"a link without an answer took {seconds:.1f} s"


def prepare(farm):
    """A program of three of the units of the whole."""
    if "part" not in farm.programs:
        farm.programs["part"] = farm.programs["cuda"][:3]
        farm.expected["part"] = farm.link("part").image


def certificate(folder):
    """A certificate for 127.0.0.1 that no system trusts, and its key."""
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"])
    return folder / "certificate.pem", folder / "key.pem"


def test_secure(tests, port, url):
    """A link trusts the certificates that the environment names, and no others."""
    trusted, _ = tests.store.certificate
    variables = {"FATLINK_CACHE_REMOTE": url, "port": port}
    tests.store.clear()
    quiet(tests.link("cuda", SSL_CERT_FILE=str(trusted), **variables))
    counts(quiet(tests.link("cuda", SSL_CERT_FILE=str(trusted), **variables)), misses=0)
    one_warning(tests.link("cuda", **variables), "no secure connection")


def version(command):
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
