"""Redis, with a password and a database of its own."""

import socket

import stores
from common import Server, check, free_port, install
from stores import counts, one_warning

PASSWORD = "a pass phrase"
PREFIX = "fatlink:"


class Redis(stores.Store):
    name = "redis"
    database = 3

    def __init__(self, farm, *options):
        self.options = options
        super().__init__(farm)

    def start(self):
        port = free_port()
        return Server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--requirepass",
                       PASSWORD, *self.options], port, self.farm.work / "redis.log")

    def variables(self, port):
        return {"FATLINK_CACHE_REMOTE": f"redis://127.0.0.1:{port}/{self.database}", "FATLINK_CACHE_REMOTE_PASSWORD": PASSWORD}

    def commands(self, *commands):
        """Sends commands, and returns their replies."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            file = connection.makefile("rwb")
            for words in [("AUTH", PASSWORD), ("SELECT", self.database), *commands]:
                words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
                file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            file.flush()
            return [self.reply(file) for _ in range(len(commands) + 2)][2:]

    def reply(self, file):
        line = file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply(file) for _ in range(int(rest))]
        check(kind != b"-", f"Redis says {rest!r}")
        return rest

    def entries(self):
        (keys,) = self.commands(("KEYS", f"{PREFIX}*"))
        return sorted(key.decode() for key in keys)

    def read(self, name):
        return self.commands(("GET", name))[0]

    def write(self, name, content):
        self.commands(("SET", name, content))

    def clear(self):
        self.commands(("FLUSHDB",))


def test(farm):
    install(["redis-server", "openssl"])
    stores.prepare(farm)
    with Redis(farm) as store:
        tests = stores.Tests(farm, store)
        tests.all()

        def wrong_password():
            link = one_warning(tests.link("cuda", FATLINK_CACHE_REMOTE_PASSWORD="wrong"), "WRONGPASS")
            check("wrong;" not in link.messages and PASSWORD not in link.messages, "a password is in the messages")

        farm.test("redis: a wrong password", wrong_password)

    def full():
        with Redis(farm, "--maxmemory-policy", "noeviction") as store:
            tests = stores.Tests(farm, store)
            counts(stores.quiet(tests.link("part")), sent=lambda sent: sent > 1)
            (memory,) = store.commands(("INFO", "memory"))
            used = int(memory.split(b"used_memory:")[1].split()[0])
            store.commands(("CONFIG", "SET", "maxmemory", used))
            # What is there is found, and the rest is not kept.
            link = one_warning(tests.link("cuda"), "not all results of this link are in the remote cache")
            check("it is full (OOM" in link.messages, link.messages)
            counts(link, hits=lambda hits: hits > 1)

    farm.test("redis: a full store", full)

    def secure():
        folder = farm.work / "redis-tls"
        folder.mkdir(exist_ok=True)
        port = free_port()
        certificate = stores.certificate(folder)
        options = ["--tls-port", port, "--tls-cert-file", certificate[0], "--tls-key-file", certificate[1], "--tls-auth-clients", "no"]
        with Redis(farm, *options) as store:
            store.certificate = certificate
            stores.test_secure(stores.Tests(farm, store), port, f"rediss://127.0.0.1:{port}/{store.database}")

    farm.test("redis: over TLS", secure)
