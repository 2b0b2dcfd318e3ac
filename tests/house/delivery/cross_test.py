#!/usr/bin/env python3
"""The release that `make dist ARCH=...` cross-built for the other architecture, under qemu-user: the version, the doctor, and a
daemon with an `ibv_devinfo` of that architecture. Exits with 77 without that archive in dist/ (or the folder RRDMA_DIST), without
the libraries in build-cross/sysroot, without qemu-user-static, or without namespaces."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests/harness"))
import namespaces  # noqa: E402

ARCH, MACHINE = {"x86_64": ("arm64", "aarch64"), "aarch64": ("amd64", "x86_64")}[platform.machine()]
DIST = pathlib.Path(os.environ.get("RRDMA_DIST", SOURCE / "dist"))
SYSROOT = SOURCE / "build-cross/sysroot"
QEMU = shutil.which(f"qemu-{MACHINE}-static")
ARCHIVES = sorted(DIST.glob(f"rrdma-*-linux-{ARCH}.tar.xz"))
SECONDS = 60


class Cross(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-cross."))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run(["tar", "-x", "-J", "-f", ARCHIVES[-1], "-C", cls.folder, "--strip-components=1"], check=True)

    def command(self, program, *words, preload=False):
        options = ["-E", f"LD_PRELOAD={self.folder}/lib/librrdma.so.1"] if preload else []
        return [QEMU, "-L", str(SYSROOT), *options, str(program), *words]

    def output(self, program, *words, **more):
        done = subprocess.run(self.command(program, *words, **more), capture_output=True, text=True, timeout=SECONDS)
        return done.stdout + done.stderr

    def test_version(self):
        version = ARCHIVES[-1].name.split("-")[1]
        self.assertIn(f"rrdma {version}", self.output(self.folder / "bin/rrdma", "--version"))
        self.assertIn('"daemon_protocol"', self.output(self.folder / "bin/rrdma", "--version", "--json"))

    def test_doctor(self):
        self.assertRegex(self.output(self.folder / "bin/rrdma", "doctor"), r"(?m)^(ok|warn|fail) +\S")

    def test_devinfo(self):
        """qemu-user starts no program of its architecture for another: the test starts the daemon."""
        devinfo = SYSROOT / "usr/bin/ibv_devinfo"
        with subprocess.Popen(self.command(self.folder / "bin/rrdmad", "--stay"), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as daemon:
            try:
                time.sleep(2)
                output = self.output(devinfo, preload=True)
            finally:
                daemon.terminate()
        self.assertIn("rrdma0", output)
        self.assertIn("PORT_ACTIVE", output)


if __name__ == "__main__":
    if not ARCHIVES or QEMU is None or not (SYSROOT / "usr/bin/ibv_devinfo").exists():
        print(f"cross: needs `make dist ARCH={ARCH}` and qemu-user-static")
        sys.exit(namespaces.SKIPPED)
    if not namespaces.enter("net", "pid"):
        print("cross: needs namespaces of its own")
        sys.exit(namespaces.SKIPPED)
    sys.exit(unittest.main(argv=sys.argv[:1]))
