"""Tests of the Python module, by python3 -m unittest; tests/module.rs and `cargo xtask test --packages` run them."""

import pathlib
import random
import tempfile
import unittest
from collections.abc import Callable

import fatlink

PTX = ".version 8.0\n.target sm_{0}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"


def fatbin(*options: str) -> bytes:
    """PTX for two GPUs."""
    builder = fatlink.FatbinBuilder(*options)
    builder.add_ptx("sm_80", PTX.format(80), "kernel.cu")
    builder.add_ptx("sm_90", PTX.format(90).encode())
    return builder.build()


class Containers(unittest.TestCase):
    def test_images_of_a_fatbin(self) -> None:
        images = fatlink.images(fatbin())
        self.assertEqual([image.target for image in images], ["sm_80", "sm_90"])
        self.assertEqual([image.index for image in images], [0, 1])
        self.assertEqual((images[0].image, images[0].name, images[0].version), ("ptx", "kernel.cu", "8.0"))
        self.assertIn("sm_80", repr(images[0]))

    def test_an_image_comes_out_as_it_went_in(self) -> None:
        data = fatbin("-compress-mode=size")
        first, second = fatlink.images(data)
        self.assertEqual(fatlink.extract(data, first).decode(), PTX.format(80))
        self.assertEqual(fatlink.extract(data, second.index).decode(), PTX.format(90))
        self.assertEqual(len(fatlink.extract(data, first, raw=True)), first.size)
        with self.assertRaisesRegex(fatlink.Error, "no image 2: the file has 2"):
            fatlink.extract(data, 2)

    def test_a_path_is_as_good_as_bytes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.fatbin")
            path.write_bytes(fatbin())
            self.assertEqual(fatlink.images(path), fatlink.images(str(path)))
            self.assertEqual(fatlink.images(path), fatlink.images(bytearray(fatbin())))
            path.write_bytes(fatbin()[:-9])
            with self.assertRaisesRegex(fatlink.Error, "a.fatbin: .* at offset 0x"):
                fatlink.images(path)
            with self.assertRaises(FileNotFoundError):
                fatlink.images(path.with_suffix(".gone"))

    def test_explain_names_what_runs(self) -> None:
        (container,) = fatlink.explain(fatbin(), "sm_86")
        (outcome,) = container.outcomes
        self.assertEqual((outcome.outcome, outcome.runs, outcome.entry), ("ptx 80", True, 1))
        self.assertEqual(outcome.passed_over[0][0], 2)
        self.assertEqual(container.entries, ["ptx 80", "ptx 90"])
        (container,) = fatlink.explain(fatbin(), "sm_75")
        self.assertFalse(container.outcomes[0].runs)
        (container,) = fatlink.explain(fatbin(), "sm_90", ptx_jit="disabled")
        self.assertFalse(container.outcomes[0].runs)
        self.assertGreater(len(fatlink.explain(fatbin())[0].outcomes), 10)
        self.assertEqual(fatlink.explain(fatbin(), "gfx90a"), [])

    def test_check_finds_ptx_that_is_too_new(self) -> None:
        of_file, (container,) = fatlink.check(fatbin(), driver="470")
        self.assertEqual(of_file, [])
        self.assertIn("FB003", [finding.code for finding in container.findings])
        self.assertEqual(container.findings[0].severity, "error")
        _, (container,) = fatlink.check(fatbin(), driver="580")
        self.assertNotIn("error", [finding.severity for finding in container.findings])

    def test_a_builder_goes_on(self) -> None:
        builder = fatlink.FatbinBuilder()
        builder.add_ptx("sm_80", PTX.format(80))
        one = builder.build()
        builder.add_ptx("sm_90", PTX.format(90))
        self.assertEqual(len(fatlink.images(one)), 1)
        self.assertEqual(len(fatlink.images(builder.build())), 2)


class Errors(unittest.TestCase):
    def test_values_without_a_meaning(self) -> None:
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: fatlink.explain(b"", "sm_x"), "sm_x"),
            (lambda: fatlink.explain(b"", "gfx"), "gfx"),
            (lambda: fatlink.explain(b"", driver="new"), "not a driver version"),
            (lambda: fatlink.explain(b"", ptx_jit="maybe"), "ptx_jit"),  # type: ignore[arg-type]
            (lambda: fatlink.check(b"", toolkit="x"), "x"),
            (lambda: fatlink.FatbinBuilder().add_ptx("90x", PTX), "90x"),
        ]
        for call, text in calls:
            with self.subTest(text), self.assertRaisesRegex(fatlink.Error, text):
                call()

    def test_images_that_no_fatbin_holds(self) -> None:
        builder = fatlink.FatbinBuilder()
        with self.assertRaises(fatlink.FatbinError) as raised:
            builder.add_ptx("sm_90", "no version")
        self.assertEqual(raised.exception.code, 4)
        with self.assertRaisesRegex(fatlink.FatbinError, "-frob"):
            fatlink.FatbinBuilder("-frob")
        with self.assertRaises(fatlink.FatbinError):
            builder.add_cubin("sm_90", b"\x7fELF")

    def test_arguments_of_another_type(self) -> None:
        with self.assertRaises(TypeError):
            fatlink.images(7)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            fatlink.extract(fatbin(), -1)
        with self.assertRaises(TypeError):
            fatlink.Image()

    def test_damaged_bytes_raise_and_never_abort(self) -> None:
        source = random.Random(16)
        # A fatbin, and the same inside of an archive and behind the magic of other kinds.
        whole = fatbin()
        member = b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (b"a.fatbin/", 0, 0, 0, 0o644, len(whole))
        seeds = [whole, b"!<arch>\n" + member + whole, b"\x7fELF\x02\x01\x01" + whole, b"\x10\xff\x10\xad" + whole]
        failures = 0
        for _ in range(3000):
            data = bytearray(source.choice(seeds))
            for _ in range(source.randrange(1, 8)):
                place = source.randrange(min(len(data), 400))
                data[place] = source.choice([0, 1, 0x7F, 0xFF, source.randrange(256)])
            del data[source.randrange(len(data) // 2, len(data) + 1) :]
            for read in (fatlink.images, fatlink.explain, fatlink.check, lambda data: fatlink.extract(data, 0)):
                try:
                    read(bytes(data))
                except fatlink.Error:
                    failures += 1
        self.assertGreater(failures, 100)


if __name__ == "__main__":
    unittest.main()
