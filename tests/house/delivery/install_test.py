#!/usr/bin/env python3
"""packaging/install.sh from a local web server: a small release of one script and one page is installed, upgraded and
removed by a user without root. Wrong checksums, strangers' files and missing releases change nothing."""

import functools
import gzip
import hashlib
import http.server
import io
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "packaging/install.sh"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def archive_of(version):
    """The tar archive of a release whose command prints its version."""
    top, packed = f"rrdma-{version}-linux-{ARCH}", io.BytesIO()
    files = {"bin/rrdma": f"#!/bin/sh\necho rrdma {version}\n", "share/man/man1/rrdma.1": ".TH rrdma\n", "share/rrdma/install.sh": SCRIPT.read_text(),
             "share/bash-completion/completions/rrdma": "complete rrdma\n", "lib/librrdma.so.1": "\x7fELF"}
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def tree_of(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-install."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.release, self.home = self.folder / "release", self.folder / "home"
        self.release.mkdir()
        self.home.mkdir()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.release))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.publish("0.2.0")

    def publish(self, version):
        for old in self.release.iterdir():
            old.unlink()
        tar = archive_of(version)
        packed = {"gz": gzip.compress(tar, mtime=0)}
        if shutil.which("xz"):
            packed["xz"] = subprocess.run(["xz", "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout
        sums = ""
        for ending, data in packed.items():
            name = f"rrdma-{version}-linux-{ARCH}.tar.{ending}"
            (self.release / name).write_bytes(data)
            sums += f"{hashlib.sha256(data).hexdigest()}  {name}\n"
        (self.release / "SHA256SUMS").write_text(sums)

    def install(self, *words, path=None, user=65534):
        """Runs the script from standard input, as `curl | sh` does, as a user without root."""
        os.chmod(self.folder, 0o777)
        os.chmod(self.home, 0o777)
        environment = {"HOME": str(self.home), "PATH": path or os.environ["PATH"], "RRDMA_RELEASE": self.url, "TMPDIR": "/tmp"}
        as_user = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.run(["sh", "-s", "--", *words], input=SCRIPT.read_text(), capture_output=True, text=True, timeout=60, env=environment, cwd="/",
                              **as_user)

    def ok(self, *words, **more):
        done = self.install(*words, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def version(self):
        return subprocess.run([self.home / ".local/bin/rrdma", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def test_install_upgrade_uninstall(self):
        self.assertIn("version 0.2.0 is in", self.ok())
        self.assertEqual(self.version(), "rrdma 0.2.0")
        self.assertTrue((self.home / ".local/share/man/man1/rrdma.1").exists())
        self.publish("0.3.0")
        self.ok()
        self.assertEqual(self.version(), "rrdma 0.3.0")
        self.assertTrue((self.home / ".local/lib/rrdma/0.2.0/bin/rrdma").exists(), "running programs may use the older version")
        self.ok()  # the same once more
        self.ok("--uninstall")
        self.assertEqual(tree_of(self.home), [".local"])

    def test_uninstall_leaves_other_files(self):
        own = self.home / ".local/bin/other"
        own.parent.mkdir(parents=True)
        own.write_text("mine")
        subprocess.run(["chmod", "-R", "a+rwX", self.home], check=True)
        self.ok()
        self.ok("--uninstall")
        self.assertEqual(tree_of(self.home), [".local", ".local/bin", ".local/bin/other"])

    def test_a_stranger_of_the_same_name_is_kept(self):
        other = self.home / ".local/bin/rrdma"
        other.parent.mkdir(parents=True)
        other.write_text("mine")
        subprocess.run(["chmod", "-R", "a+rwX", self.home], check=True)
        done = self.install()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not from this installer", done.stderr)
        self.assertEqual(other.read_text(), "mine")

    def test_a_wrong_checksum_installs_nothing(self):
        for archive in self.release.glob("*.tar.*"):
            archive.write_bytes(archive.read_bytes()[:-1] + b"x")
        done = self.install()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("checksum", done.stderr)
        self.assertEqual(tree_of(self.home), [])

    def test_an_archive_without_checksum_installs_nothing(self):
        (self.release / "SHA256SUMS").write_text("0  other\n")
        done = self.install("--version", "0.2.0", "--from", self.url)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(tree_of(self.home), [])

    def test_a_script_that_breaks_off_runs_nothing(self):
        text = SCRIPT.read_bytes()
        for size in range(0, len(text) - 12, 997):
            subprocess.run(["sh", "-s"], input=text[:size], capture_output=True, env={"HOME": str(self.home), "PATH": os.environ["PATH"], "RRDMA_RELEASE": self.url})
            self.assertEqual(tree_of(self.home), [], size)

    def test_without_xz_and_without_curl(self):
        folder = self.folder / "bin"
        folder.mkdir()
        for name in ("sh", "tar", "gzip", "wget", "sha256sum", "sed", "awk", "uname", "getconf", "id", "mktemp", "mkdir", "rm", "mv", "ln", "readlink", "dirname", "rmdir", "grep"):
            if not shutil.which(name):
                self.skipTest(f"no {name}")
            (folder / name).symlink_to(os.path.realpath(shutil.which(name)) if name != "awk" else shutil.which("awk"))
        self.ok(path=str(folder))
        self.assertEqual(self.version(), "rrdma 0.2.0")

    def test_mistakes_are_named(self):
        for words, text in ((["--colour"], "no option"), (["--version"], "needs a value"), (["--version", "1;id"], "a version is like"),
                            (["--version", "9.9.9"], "cannot download"), (["--uninstall"], "there is no RRDMA"), (["--prefix", "/tmp/a b"], "prefix")):
            done = self.install(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(text, done.stderr)

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck")
    def test_shellcheck(self):
        done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
