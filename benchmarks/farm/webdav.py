"""nginx: with WebDAV, and with plain PUT and GET."""

import stores
from common import Server, check, free_port, install, run
from stores import one_warning, small_disk

CONFIGURATION = """
user root;
daemon off;
master_process off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 128; }}
http {{
  access_log off;
  client_body_temp_path {data}/unfinished;
  client_max_body_size {largest};
  server {{
    listen 127.0.0.1:{port};
    listen 127.0.0.1:{secure_port} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    root {data}/files;
    location / {{
      dav_methods PUT DELETE MKCOL;
      create_full_put_path {makes_folders};
      auth_basic store;
      auth_basic_user_file {folder}/users;
    }}
  }}
}}
"""

USER, PASSWORD = "builder", "a pass:phrase"


class Nginx(stores.Store):
    scheme, secure_scheme, makes_folders = "dav", "davs", "off"
    name = "webdav"

    def __init__(self, farm, largest="64m"):
        self.largest, self.secure_port = largest, free_port()
        super().__init__(farm)

    def start(self):
        self.root().mkdir(parents=True, exist_ok=True)
        self.certificate = stores.certificate(self.folder)
        # Of openssl, which every system has.
        hashed = run(["openssl", "passwd", "-apr1", PASSWORD]).strip()
        (self.folder / "users").write_text(f"{USER}:{hashed}\n")
        port = free_port()
        certificate, key = self.certificate
        (self.folder / "nginx.conf").write_text(CONFIGURATION.format(
            folder=self.folder, data=self.folder / "data", port=port, secure_port=self.secure_port, certificate=certificate,
            key=key, largest=self.largest, makes_folders=self.makes_folders))
        return Server(["/usr/sbin/nginx", "-c", self.folder / "nginx.conf", "-p", self.folder], port, self.farm.work / "nginx.log")

    def root(self):
        return self.folder / "data" / "files"

    def variables(self, port):
        return {"FATLINK_CACHE_REMOTE": f"{self.scheme}://127.0.0.1:{port}/team/results", "FATLINK_CACHE_REMOTE_USER": USER,
                "FATLINK_CACHE_REMOTE_PASSWORD": PASSWORD}


class Plain(Nginx):
    scheme, secure_scheme, makes_folders = "http", "https", "on"
    name = "http"


def test(farm):
    install(["nginx-light", "openssl"])
    stores.prepare(farm)
    for kind in (Nginx, Plain):
        with kind(farm) as store:
            tests = stores.Tests(farm, store)
            tests.all()
            url = f"{kind.secure_scheme}://127.0.0.1:{store.secure_port}/team/results"
            farm.test(f"{kind.name}: over TLS", lambda: stores.test_secure(tests, store.secure_port, url))

            def wrong_password():
                link = one_warning(tests.link("cuda", FATLINK_CACHE_REMOTE_PASSWORD="secret"), "access denied (HTTP 401)")
                check("secret" not in link.messages, "the password is in the messages")

            farm.test(f"{kind.name}: a wrong password", wrong_password)

        def full_disk():
            with kind(farm) as store, small_disk(store.folder / "data", 40):
                store.restart()
                one_warning(stores.Tests(farm, store).link("cuda"), "not all results of this link are in the remote cache")

        farm.test(f"{kind.name}: a full disk", full_disk)

    def too_large():
        with Nginx(farm, largest="1k") as store:
            one_warning(stores.Tests(farm, store).link("cuda"), "it is full (HTTP 413")

    farm.test("webdav: entries that are too large for the server", too_large)
