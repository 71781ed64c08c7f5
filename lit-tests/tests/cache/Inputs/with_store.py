"""Runs a command with a store of results beside it: HTTP's GET and PUT, one file for each name in a folder.

with_store.py FOLDER [--full] [--token=TOKEN] [--requests=N] [--proxy] -- COMMAND...

FATLINK_CACHE_REMOTE has the store's URL. --full: the store has no room. --token: who does not send it is not let in.
--requests: after so many, nothing is answered any more. --proxy: the store is a host that only the proxy in HTTP_PROXY knows.
"""

import http.server
import os
import pathlib
import subprocess
import sys
import threading

split = sys.argv.index("--")
folder = pathlib.Path(sys.argv[1])
options = dict((option + "=").split("=")[:2] for option in sys.argv[2:split])
left = int(options.get("--requests", "1000000"))
lock = threading.Lock()
folder.mkdir(exist_ok=True)


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_served(self):
        global left
        if "--proxy" in options:
            origin, host, self.path = self.path[:7], *self.path[7:].partition("/")[::2]
            self.path = "/" + self.path
            if (origin, host, self.headers["Host"]) != ("http://", "store.invalid", "store.invalid"):
                self.answer(400)
                return False
        with lock:
            left -= 1
        if left < 0:
            self.close_connection = True
            return False
        if "--token" in options and self.headers["Authorization"] != f"Bearer {options['--token']}":
            self.answer(401)
            return False
        return True

    def do_GET(self):
        if not self.is_served():
            return
        file = folder / self.path[1:]
        if file.exists():
            self.answer(200, file.read_bytes())
        else:
            self.answer(404)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_served():
            return
        if "--full" in options:
            self.answer(507)
            return
        unfinished = folder / f"{self.path[1:]}.{threading.get_ident()}"
        unfinished.write_bytes(body)
        unfinished.rename(folder / self.path[1:])
        self.answer(201)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
store = {"FATLINK_CACHE_REMOTE": address}
if "--proxy" in options:
    store = {"FATLINK_CACHE_REMOTE": "http://store.invalid", "HTTP_PROXY": address}
done = subprocess.run(sys.argv[split + 1:], env={**os.environ, **store}, check=False)
sys.exit(done.returncode)
