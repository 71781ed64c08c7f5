"""Tests of links, by python3 -m unittest; tests/module.rs names the program, and `cargo xtask env` the toolkit."""

import array
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import fatlink

CLANG = "/usr/lib/llvm-22/bin/clang++"
SOURCES = {
    "kernel": "extern __attribute__((device)) int helper(int);\n"
    "__attribute__((device)) int *place;\n"
    "__attribute__((device)) void use() { *place = helper(1); }\n",
    "helper": "__attribute__((device)) int helper(int value) { return value * 3; }\n",
}


class Links(unittest.TestCase):
    folder: pathlib.Path
    linker: fatlink.Linker

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        flags = "-x cuda --offload-arch=sm_90 -nogpuinc -nogpulib -fgpu-rdc -foffload-lto -Wno-unknown-cuda-version -c".split()
        for name, text in SOURCES.items():
            source = cls.folder / f"{name}.cu"
            source.write_text(text)
            subprocess.run([CLANG, *flags, source, "-o", source.with_suffix(".o")], check=True)
        (cls.folder / "work").mkdir()
        cls.linker = fatlink.Linker(
            os.environ["FATLINK"], cuda=os.environ["CUDA_PATH"], temporary_folder=cls.folder / "work", ahead=1
        )

    @classmethod
    def tearDownClass(cls) -> None:
        # It ends the process that waits for a link.
        del cls.linker
        left = list((cls.folder / "work").iterdir())
        assert not left, left

    def bytes_of(self, name: str) -> bytes:
        return (self.folder / f"{name}.o").read_bytes()

    def test_units_of_every_form_make_the_same(self) -> None:
        kernel, helper = self.folder / "kernel.o", self.bytes_of("helper")
        expected = self.linker.link([kernel, ("helper.o", helper)])
        self.assertTrue(expected.image.startswith(b"\x50\xed\x55\xba"))
        self.assertTrue(expected.registration and expected.registration.startswith(b"\x7fELF"))
        self.assertEqual((expected.report, expected.diagnostics), (None, []))
        # An array is what numpy's are: an object with a buffer, of items that are not bytes.
        forms = [helper, bytearray(helper), memoryview(helper), array.array("B", helper), memoryview(helper * 2)[: len(helper)]]
        for form in forms:
            linked = self.linker.link([str(kernel), form])
            self.assertEqual(linked.image, expected.image)
        with self.assertRaisesRegex(TypeError, "a unit is a path, bytes, or a name and bytes, not"):
            self.linker.link([kernel, 7])

    def test_what_a_link_can_be_given(self) -> None:
        seen: list[tuple[int, int]] = []
        linked = self.linker.link(
            [self.folder / "kernel.o", self.folder / "helper.o"],
            targets=["sm_90"],
            ptx="newest",
            library_paths=[self.folder],
            options=["--device-compiler=-ffoo"],
            image_only=True,
            report=True,
            cache=self.folder / "cache",
            observer=lambda done, known: seen.append((done, known)),
        )
        self.assertEqual([image.image for image in fatlink.images(linked.image)], ["cubin", "ptx"])
        self.assertIsNone(linked.registration)
        self.assertIn("sm_90", linked.report or "")
        self.assertEqual([diagnostic.severity for diagnostic in linked.diagnostics], ["warning"])
        self.assertIn((1, 1), seen)

    def test_failures_have_diagnostics(self) -> None:
        with self.assertRaises(fatlink.LinkError) as raised:
            self.linker.link([("my kernel.o", self.bytes_of("kernel"))])
        (diagnostic,) = raised.exception.diagnostics
        self.assertEqual((diagnostic.severity, diagnostic.file, diagnostic.member), ("error", "my kernel.o", None))
        self.assertIn("helper(int)", diagnostic.message)
        self.assertEqual(str(diagnostic), str(raised.exception))
        with self.assertRaisesRegex(fatlink.LinkError, "no/such/file"):
            self.linker.link(["/no/such/file.o"])
        with self.assertRaisesRegex(fatlink.LinkError, "/no/such/program: cannot start"):
            fatlink.link([], program="/no/such/program")
        with self.assertRaisesRegex(fatlink.Error, "there is no program fatlink in .*; name it with program="):
            fatlink.link([])

    def test_a_link_is_cancelled(self) -> None:
        units = [self.folder / "kernel.o", self.folder / "helper.o"]
        cancellation = fatlink.Cancellation()
        cancellation.cancel()
        self.assertTrue(cancellation.cancelled)
        with self.assertRaises(fatlink.Cancelled):
            self.linker.link(units, cancellation=cancellation)
        with self.assertRaises(ZeroDivisionError):
            self.linker.link(units, observer=lambda done, known: 1 // 0)

    def test_threads_link_side_by_side(self) -> None:
        units = [self.folder / "kernel.o", self.folder / "helper.o"]
        expected = self.linker.link(units).image
        images: list[bytes] = []
        threads = [threading.Thread(target=lambda: images.append(self.linker.link(units).image)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(images, [expected] * 8)


if __name__ == "__main__":
    unittest.main()
