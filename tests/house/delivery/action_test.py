#!/usr/bin/env python3
"""The steps of action.yml as a runner runs them: a release from a local web server, its cache, the way to the build from
source, and inputs that are values and nothing else. If `make dist` has left a release in dist/ (or in the folder
RRDMA_DIST), the steps run with it too, up to an answer of ibv_devinfo within 20 s."""

import functools
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import install_test
from install_test import ARCH, Quiet

SOURCE = pathlib.Path(__file__).resolve().parents[3]
DIST = pathlib.Path(os.environ.get("RRDMA_DIST", SOURCE / "dist"))
TEXT = (SOURCE / "action.yml").read_text()


def step(name):
    """The script of a step, or the command line that it runs."""
    found = re.search(rf"    - name: {name}\n(.*?)(?=\n    - name: |\Z)", TEXT, re.S)[1]
    block = re.search(r"      run: \|\n(.*)", found, re.S)
    return textwrap.dedent(block[1]) if block else re.search(r"      run: '(.*)'", found)[1]


class Action(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-action."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.asked = []
        self.prefix = self.folder / "prefix"

    def serve(self, folder):
        asked = self.asked

        class Recorder(Quiet):
            def do_GET(self):
                asked.append(self.path)
                super().do_GET()

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Recorder, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def fake_release(self):
        release = self.folder / "release"
        release.mkdir()
        tar = install_test.archive_of("0.2.0")
        for ending, packer in (("gz", "gzip"), ("xz", "xz")):
            (release / f"rrdma-0.2.0-linux-{ARCH}.tar.{ending}").write_bytes(subprocess.run([packer, "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout)
        (release / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in release.glob("*.tar.*")))
        return self.serve(release)

    def run_step(self, name, **environment):
        """The status, the output, and what the step wrote for the runner."""
        files = {key: self.folder / key for key in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_ENV")}
        for path in files.values():
            path.touch()
        values = {"PREFIX": str(self.prefix), "VERSION": "", "REF": "v0.2.0", "REPOSITORY": "someone/rrdma", "GITHUB_ACTION_PATH": str(SOURCE),
                  "RUNNER_TEMP": str(self.folder), **{key: str(path) for key, path in files.items()}, **environment}
        done = subprocess.run(["bash", "-e", "-c", step(name)], capture_output=True, text=True, timeout=60, cwd=self.folder, env={**os.environ, **values})
        return done.returncode, done.stdout + done.stderr, {key: path.read_text() for key, path in files.items()}

    @unittest.skipIf(os.geteuid() != 0 and shutil.which("sudo") is None, "neither root nor sudo")
    def test_release_and_cache(self):
        url = self.fake_release()
        status, output, wrote = self.run_step("Install the release", RRDMA_RELEASE=url)
        self.assertEqual(status, 0, output)
        self.assertIn("installed=true", wrote["GITHUB_OUTPUT"])
        self.assertEqual(wrote["GITHUB_PATH"].strip(), f"{self.prefix}/bin")
        self.assertTrue((self.prefix / "bin/rrdma").exists())
        self.asked.clear()
        self.assertEqual(self.run_step("Install the release", RRDMA_RELEASE=url)[0], 0)
        self.assertEqual(self.asked, [], "the second run takes the cache")

    def test_without_a_release_the_next_step_builds(self):
        empty = self.folder / "empty"
        empty.mkdir()
        url = self.serve(empty)
        for ref in ("main", "v0.2.0", "v1", ""):
            status, output, wrote = self.run_step("Install the release", RRDMA_RELEASE=url, REF=ref)
            self.assertEqual(status, 0, output)
            self.assertNotIn("installed=true", wrote["GITHUB_OUTPUT"], ref)
        self.assertFalse(self.prefix.exists())
        self.assertIn("if: steps.release.outputs.installed != 'true'", TEXT)

    def test_a_damaged_cache_is_an_error_once(self):
        url = self.fake_release()
        kept = self.folder / "rrdma-release"
        kept.mkdir()
        for ending in ("gz", "xz"):
            (kept / f"rrdma-0.2.0-linux-{ARCH}.tar.{ending}").write_text("damaged")
        status, output, _ = self.run_step("Install the release", RRDMA_RELEASE=url)
        self.assertNotEqual(status, 0)
        self.assertIn("checksum", output)
        self.assertFalse(kept.exists())

    def test_hostile_inputs_are_refused(self):
        for name, value in (("PREFIX", "/tmp;id"), ("PREFIX", "$(id)"), ("PREFIX", "/tmp\n/x"), ("VERSION", "1;id"), ("VERSION", "../../x"), ("REPOSITORY", "a/b/../../c"),
                            ("REPOSITORY", "a b/c")):
            status, output, wrote = self.run_step("Install the release", **{name: value})
            self.assertNotEqual(status, 0, f"{name}={value} {output}")
            self.assertEqual(wrote["GITHUB_OUTPUT"] + wrote["GITHUB_PATH"] + wrote["GITHUB_ENV"], "")

    def test_the_real_release_within_20_seconds(self):
        release = sorted(DIST.glob(f"rrdma-*-linux-{ARCH}.tar.xz"))
        if not release or shutil.which("ibv_devinfo") is None or os.geteuid() != 0:
            self.skipTest("no release in dist/, no ibv_devinfo or not root")
        version = release[-1].name.split("-")[1]
        url = self.serve(DIST)
        began = time.monotonic()
        status, output, wrote = self.run_step("Install the release", RRDMA_RELEASE=url, REF=f"v{version}")
        self.assertEqual(status, 0, output)
        path = f"{wrote['GITHUB_PATH'].strip()}:{os.environ['PATH']}"
        status, output, wrote = self.run_step("Devices and faults of later steps", PATH=path, DEVICES="2", FAULTS="", LINK="udp", CAPTURE="")
        self.assertEqual(status, 0, output)
        self.assertIn("RRDMA_LINK", wrote["GITHUB_ENV"])
        status, output, wrote = self.run_step("Look at it", PATH=path)
        self.assertIn(f"version={version}", wrote["GITHUB_OUTPUT"], output)
        done = subprocess.run(["rrdma", "run", "--", "ibv_devinfo"], capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=60)
        seconds = time.monotonic() - began
        self.assertIn("rrdma0", done.stdout, done.stderr)
        print(f"from the archive to ibv_devinfo: {seconds:.1f} s")
        self.assertLess(seconds, 20)


if __name__ == "__main__":
    sys.exit(unittest.main())
