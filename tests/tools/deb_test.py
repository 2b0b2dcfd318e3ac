# The Debian package: built by `make deb` (lintian without errors), installed into a clean root and removed again
# without a trace. Arguments: the command (not used), the source tree. Label soak: the package is built anew.
#
# The clean root is an empty folder with a package database of its own: dpkg --root writes nowhere else. Where
# mmdebstrap and a mirror are to be had, RRDMA_DEB_BOOTSTRAP=1 makes it a whole Debian 12 with every dependency.
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[2])
SHARE = "usr/share"
EXPECTED = ["usr/bin/rrdma", "usr/bin/rrdmad", "lib/systemd/system/rrdmad.service", f"{SHARE}/bash-completion/completions/rrdma",
            f"{SHARE}/man/man1/rrdma.1.gz", f"{SHARE}/man/man8/rrdmad.8.gz", f"{SHARE}/doc/rrdma/copyright"]


def files_of(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-deb."))
        ready = os.environ.get("RRDMA_DEB")
        if ready:
            cls.package = pathlib.Path(ready)
            return
        done = subprocess.run([SOURCE / "scripts/make-deb"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (cls.package,) = (path for path in (SOURCE / "build-deb").glob("rrdma_*.deb"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_lintian(self):
        done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error", self.package], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_content(self):
        listed = subprocess.run(["dpkg-deb", "--contents", self.package], capture_output=True, text=True, check=True).stdout
        paths = {words[5].removeprefix("./") for words in (line.split() for line in listed.splitlines()) if not words[5].endswith("/")}
        for path in EXPECTED:
            self.assertIn(path, paths)
        self.assertTrue(any(re.fullmatch(r"usr/lib(/[\w-]+)?/librrdma\.so\.1", path) for path in paths), paths)
        # Every user may run it, and every command has its page.
        for line in listed.splitlines():
            if re.match(r"\./usr/bin/.", line.split()[5]):
                self.assertTrue(line.startswith("-rwxr-xr-x root/root"), line)
        pages = {path.name for path in (SOURCE / "docs/man").glob("*.1")}
        self.assertEqual({f"{SHARE}/man/man1/{page}.gz" for page in pages} - paths, set())

    def dpkg(self, root, *words):
        done = subprocess.run(["dpkg", f"--root={root}", "--force-not-root,depends,script-chrootless", f"--log={root}/dpkg.log", *words],
                              capture_output=True, text=True, env={**os.environ, "DPKG_ROOT": str(root)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_install_and_remove(self):
        root = self.folder / "root"
        for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc"):
            (root / path).mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        before = {path for path in files_of(root) if not path.startswith("var/lib/dpkg")}
        self.dpkg(root, "--install", self.package)
        for path in EXPECTED:
            self.assertTrue((root / path).exists(), path)
        # It runs from where it is, with its library beside it.
        shown = subprocess.run([root / "usr/bin/rrdma", "--version"], capture_output=True, text=True)
        self.assertRegex(shown.stdout, r"^rrdma \d+\.\d+\.\d+\n")
        found = subprocess.run([root / "usr/bin/rrdma", "doctor", "--json"], capture_output=True, text=True).stdout
        self.assertRegex(found, re.escape(str(root)) + r"/usr/lib(/[\w-]+)?/librrdma\.so\.1")
        self.dpkg(root, "--purge", "rrdma")
        left = {path for path in files_of(root) if not path.startswith("var/lib/dpkg") and path != "dpkg.log"} - before
        self.assertEqual(left, set())
        self.assertNotIn("Package: rrdma", (root / "var/lib/dpkg/status").read_text())

    def test_in_a_whole_system(self):
        if os.environ.get("RRDMA_DEB_BOOTSTRAP") != "1" or shutil.which("mmdebstrap") is None:
            self.skipTest("RRDMA_DEB_BOOTSTRAP=1 with mmdebstrap and a mirror runs this")
        root = self.folder / "system"
        subprocess.run(["mmdebstrap", "--variant=minbase", "--include=ibverbs-utils,iproute2", "bookworm", root], check=True)
        shutil.copy(self.package, root / "tmp/rrdma.deb")
        inside = ["chroot", root]
        before = files_of(root / "usr") | files_of(root / "etc") | files_of(root / "lib")
        subprocess.run(inside + ["apt-get", "install", "-y", "/tmp/rrdma.deb"], check=True)
        done = subprocess.run(inside + ["su", "nobody", "-s", "/bin/sh", "-c", "rrdma run -- ibv_devinfo"], capture_output=True, text=True)
        self.assertIn("rrdma0", done.stdout, done.stderr)
        subprocess.run(inside + ["apt-get", "purge", "-y", "rrdma"], check=True)
        after = files_of(root / "usr") | files_of(root / "etc") | files_of(root / "lib")
        self.assertEqual([path for path in after - before if "rrdma" in path], [])


if __name__ == "__main__":
    for tool in ("dpkg", "dpkg-buildpackage", "lintian"):
        if shutil.which(tool) is None:
            print(f"{tool} is not installed")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
