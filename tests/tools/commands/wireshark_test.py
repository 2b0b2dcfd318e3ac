# Tests packaging/wireshark: RRDMA in Wireshark's list of interfaces (extcap), and a profile. Arguments: the command,
# the source folder.
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import command
import surroundings
from command import RRDMA
from traffic import PingPong

BROUGHT = os.path.join(sys.argv[2], "packaging", "wireshark")


def tshark(*words, **environment):
    done = subprocess.run(["tshark", *words], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"tshark {words}: {done.stderr}")
    return done.stdout


@unittest.skipUnless(shutil.which("tshark"), "no tshark")
class Wireshark(unittest.TestCase):
    def test_live_capture(self):
        folders = glob.glob("/usr/lib/*/wireshark/extcap")
        if not folders:
            self.skipTest("this tshark knows no extcap")
        # In this test's own mount namespace.
        subprocess.run(["mount", "--bind", os.path.join(BROUGHT, "extcap"), folders[0]], check=True)
        self.addCleanup(subprocess.run, ["umount", folders[0]], check=True)
        self.assertIn("rrdma (RRDMA: programs on rrdma0)", tshark("-D"))
        with PingPong(port=18730):
            rows = tshark("-i", "rrdma", "-c", "40", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.packet_flags_direction", RRDMA_COMMAND=RRDMA).splitlines()
        self.assertEqual(len(rows), 40)
        self.assertEqual({row.split("\t")[0] == "" for row in rows}, {False})

    def test_capture_into_wireshark(self):
        # A replacement for Wireshark that reads its input and ends after some of it, like a closed window.
        with tempfile.TemporaryDirectory() as folder:
            seen, fake = os.path.join(folder, "seen"), os.path.join(folder, "wireshark")
            with open(fake, "w") as file:
                file.write(f"#!/bin/sh\necho \"$@\" >{seen}.words\nexec tshark -i - -c 30 -T fields -e infiniband.bth.opcode >{seen}\n")
            os.chmod(fake, 0o755)
            with PingPong(port=18731):
                done = subprocess.run([RRDMA, "capture", "--wireshark", "--seconds", "30"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(seen) as file:
                self.assertEqual(len(file.readlines()), 30)
            with open(seen + ".words") as file:
                self.assertEqual(file.read().split()[:3], ["-k", "-i", "-"])
            missing = subprocess.run([RRDMA, "capture", "--wireshark", "x.pcapng"], capture_output=True, text=True)
            self.assertEqual(missing.returncode, 2)
            self.assertIn("there is no file beside it", missing.stderr)

    def test_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(BROUGHT, "profiles"), os.path.join(folder, "wireshark", "profiles"))
            capture = os.path.join(sys.argv[2], "tests", "captures", "op_mixed_v4.pcap")
            shown = tshark("-C", "RRDMA", "-r", capture, "-c", "20", XDG_CONFIG_HOME=folder, HOME=folder)
            self.assertRegex(shown, r"Reliable Connection \(RC\) - [A-Z]\S+.* 0x[0-9a-f]{6} ")
        with open(os.path.join(BROUGHT, "profiles", "RRDMA", "colorfilters")) as file:
            filters = [line.split("@")[2] for line in file if line.startswith("@")]
        with open(os.path.join(BROUGHT, "profiles", "RRDMA", "io_graphs")) as file:
            filters += [line.split('","')[2] for line in file if line.startswith('"')]
        self.assertGreater(len(filters), 8)
        for words in filters:
            with self.subTest(words):
                tshark("-r", capture, "-Y", words)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
