#!/usr/bin/env python3
"""An upgrade while programs run: the library of one release with the daemon of another, in both directions. If both speak
the same protocol (`rrdma --version --json`), their programs work together. Otherwise the second is refused, with a sentence
that says what to do; the first goes on, and when its programs have ended, the second works. upgrade_test.py BUILD OUTPUT builds
earlier commits in OUTPUT, once; RRDMA_EARLIER, folders separated by colons, names installed releases to use instead. Exits with
77 without the history of this repository or namespaces."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests/harness"))
import namespaces  # noqa: E402

NEW, OUTPUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
COMMITS = ("625e2f30", "625e2f30^")  # the first commit of protocol 5, and the last one of protocol 4
REFUSED = re.compile(r"of different releases.*end the programs that use the older one", re.S)
LINGER = "0.2"
ADDRESS = ("-a", "127.0.0.1")


def built(commit):
    """The build folder of an earlier commit, as `make demo` builds it."""
    folder = OUTPUT / commit.replace("^", "-before")
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        tree = subprocess.run(["git", "-C", SOURCE, "archive", commit], capture_output=True)
        if tree.returncode != 0:
            print("upgrade: no history: " + tree.stderr.decode().strip())
            sys.exit(namespaces.SKIPPED)
        subprocess.run(["tar", "-x", "-C", folder], input=tree.stdout, check=True)
        subprocess.run(["cmake", "--preset", "demo", "-Wno-dev"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder / "build-demo", "--target", "rrdma_preload", "rrdmad", "rrdma"], check=True, stdout=subprocess.DEVNULL)
        (folder / "ready").touch()
    return folder / "build-demo"


def earlier():
    """Folders with bin/rrdma of earlier releases."""
    given = os.environ.get("RRDMA_EARLIER")
    return [pathlib.Path(folder) for folder in given.split(":")] if given else [built(commit) for commit in COMMITS]


def run(prefix, *words):
    done = subprocess.run([prefix / "bin/rrdma", "run", "--", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def protocol(prefix):
    return json.loads(subprocess.run([prefix / "bin/rrdma", "--version", "--json"], capture_output=True, text=True, check=True).stdout)["daemon_protocol"]


class Upgrade(unittest.TestCase):
    def together(self, first, second, is_equal):
        """A server of `first`, whose daemon runs, and a client of `second`."""
        with subprocess.Popen([first / "bin/rrdma", "run", "--", "rping", "-s", "-P", *ADDRESS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                time.sleep(1)
                status, output = run(second, "rping", "-c", *ADDRESS, "-C", "5", "-v")
                told = subprocess.run([second / "bin/rrdma", "explain"], capture_output=True, text=True).stdout + output
                self.assertIsNone(server.poll(), "the server goes on")
                own, text = run(first, "rping", "-c", *ADDRESS, "-C", "5", "-v")
                self.assertEqual(own, 0, "the server's own release still reaches it: " + text)
            finally:
                server.kill()
        if is_equal:
            self.assertEqual(status, 0, told)
            self.assertIn("ping data", output)
        else:
            self.assertNotEqual(status, 0)
            self.assertRegex(" ".join(told.split()), REFUSED)

    def test_both_directions(self):
        for old in earlier():
            is_equal = protocol(old) == protocol(NEW)
            for what, first, second in (("older daemon, newer library", old, NEW), ("newer daemon, older library", NEW, old)):
                with self.subTest(f"{what}: protocols {protocol(first)} and {protocol(second)}"):
                    self.together(first, second, is_equal)
                    print(f"{what}, protocols {protocol(first)} and {protocol(second)}: {'works' if is_equal else 'refused, and told why'}", flush=True)
                    time.sleep(1)  # the daemon ends
                    status, output = run(second, "ibv_devinfo")
                    self.assertEqual(status, 0, output)
                    self.assertIn("rrdma0", output)
                    time.sleep(1)


if __name__ == "__main__":
    if not namespaces.is_inside():
        earlier()
        os.environ["RRDMA_DAEMON_LINGER"] = LINGER
    if not namespaces.enter("net", "pid"):
        print("upgrade: needs namespaces of its own")
        sys.exit(namespaces.SKIPPED)
    sys.exit(unittest.main(argv=sys.argv[:1]))
