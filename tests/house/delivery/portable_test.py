#!/usr/bin/env python3
"""scripts/check-portable finds what would keep the release from running elsewhere, and scripts/make-sbom describes every file."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "scripts"


class Portable(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-portable."))
        self.addCleanup(shutil.rmtree, self.folder)

    def build(self, name, text, *options):
        (self.folder / "source.c").write_text(text)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.folder / name, self.folder / "source.c", *options], check=True)
        (self.folder / "source.c").unlink()

    def check(self):
        done = subprocess.run([SCRIPTS / "check-portable", self.folder], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_a_library_of_the_c_library_alone(self):
        self.build("good.so", "#include <string.h>\nunsigned long f(const char* x) { return strlen(x); }")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_symbol_of_a_newer_c_library(self):
        self.build("new.so", 'extern int pthread_create(); int g() { return pthread_create(); }')
        status, output = self.check()
        if "pthread_create" not in output:
            self.skipTest("this C library is older than 2.34")
        self.assertEqual(status, 1)
        self.assertIn("needs pthread_create of glibc 2.34", output)

    def test_another_library_and_a_folder_of_the_build(self):
        self.build("librrdma-other.so.9", "int h() { return 1; }")
        self.build("user.so", "int h(); int g() { return h(); }", f"-L{self.folder}", "-l:librrdma-other.so.9", "-Wl,-rpath,/opt/someone/lib")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("user.so needs librrdma-other.so.9", output)
        self.assertIn("user.so searches /opt/someone/lib", output)

    def test_a_versioned_symbol_of_rdma_core(self):
        """Releases of rdma-core differ in the versions of their symbols."""
        self.build("verbs.so", "extern int ibv_fork_init(); int g() { return ibv_fork_init(); }", "-libverbs")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("needs ibv_fork_init of a version of rdma-core", output)

    def test_package(self):
        """The Debian package has every file, links in the path, and the same bytes whenever it is made."""
        tree = self.folder / "tree"
        for name in ("bin/rrdma", "lib/librrdma.so.1", "share/man/man1/rrdma.1", "share/bash-completion/completions/rrdma", "share/fish/rrdma.fish", "share/zsh/_rrdma", "share/rrdma/install.sh", "LICENSE", "CHANGELOG.md"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name)
        packed = []
        for age in (0, 5000):
            for path in tree.rglob("*"):
                os.utime(path, (1_690_000_000 + age,) * 2)
            file = self.folder / f"{age}.deb"
            subprocess.run([SCRIPTS / "make-release-deb", tree, "1.2.3", "amd64", file], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
            packed.append(file.read_bytes())
        self.assertEqual(*packed, "equal inputs give equal bytes")
        subprocess.run(["dpkg-deb", "-x", file, self.folder / "root"], check=True)
        for name, link in (("bin/rrdma", "usr/bin/rrdma"), ("share/man/man1/rrdma.1", "usr/share/man/man1/rrdma.1"), ("lib/librrdma.so.1", "usr/lib/rrdma/lib/librrdma.so.1")):
            self.assertEqual((self.folder / "root" / link).read_text(), name)
        self.assertFalse((self.folder / "root/usr/lib/rrdma/share/rrdma/install.sh").exists())
        fields = subprocess.run(["dpkg-deb", "-f", file, "Version", "Depends"], capture_output=True, text=True, check=True).stdout
        self.assertIn("1.2.3~portable", fields)
        self.assertIn("libc6 (>= 2.31), libibverbs1", fields)

    def test_nothing_to_check_is_a_failure(self):
        self.assertEqual(self.check()[0], 1)

    def test_bill_of_materials(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/rrdma").write_text("program")
        words = [SCRIPTS / "make-sbom", self.folder, "rrdma-1.2.3-linux-amd64", "1.2.3", "amd64", self.folder]
        shown = [subprocess.run(words, cwd=SCRIPTS.parent, capture_output=True, text=True, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}).stdout
                 for _ in range(2)]
        self.assertEqual(shown[0], shown[1], "equal inputs give equal bytes")
        found = json.loads(shown[0])
        self.assertEqual(found["spdxVersion"], "SPDX-2.3")
        self.assertEqual(found["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        (file,) = found["files"]
        self.assertEqual(file["fileName"], "./bin/rrdma")
        self.assertEqual(file["checksums"][1]["checksumValue"], hashlib.sha256(b"program").hexdigest())
        known = {"SPDXRef-DOCUMENT", *(part["SPDXID"] for part in found["packages"]), file["SPDXID"]}
        for relation in found["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
        self.assertIn("isa-l", {part["name"] for part in found["packages"]})


if __name__ == "__main__":
    sys.exit(unittest.main())
