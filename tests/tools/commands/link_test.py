# Tests `rrdma link`: programs find and use devices on other interfaces. Arguments: the command, a program that opens
# two devices.
import os
import pathlib
import re
import subprocess
import sys
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json

FILE = pathlib.Path(os.environ.get("XDG_CONFIG_HOME", "/nonexistent")) / "rrdma/links"


class Links(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lambda: FILE.unlink(missing_ok=True))

    def test_add_show_and_delete(self):
        self.assertEqual(run_json("link", "show", "--json"), [{"device": "rrdma0", "interface": "eth0", "state": "active"}])
        self.assertIn("rrdma1 on second", run("link", "add", "second")[0])
        self.assertIn("rrdma2 on lo", run("link", "add", "lo")[0])
        self.assertEqual([d["device"] for d in run_json("devices", "--json")], ["rrdma0", "rrdma1", "rrdma2"])
        self.assertRegex(run("gids")[0], r"rrdma1 +\d +10\.10\.0\.1 +RoCE v2 +second")
        run("link", "del", "rrdma1")
        self.assertEqual([d["device"] for d in run_json("link", "show", "--json")], ["rrdma0", "rrdma2"])
        self.assertIn("rrdma1 on second", run("link", "add", "second")[0])
        run("link", "del", "lo")
        run("link", "del", "second")
        self.assertEqual(len(run_json("devices", "--json")), 1)

    def test_mistakes(self):
        self.assertIn("no network interface 'nosuch'", run("link", "add", "nosuch", status=2)[1])
        self.assertIn("rrdma0 sits on 'eth0' already", run("link", "add", "eth0", status=2)[1])
        run("link", "add", "second")
        self.assertIn("rrdma1 sits on 'second' already", run("link", "add", "second", status=2)[1])
        self.assertIn("rrdma0 stays", run("link", "del", "rrdma0", status=2)[1])
        run("link", status=2)

    def test_lines_that_make_no_sense(self):
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text("rrdma0 lo\nrrdmax lo\nrrdma99 lo\nnonsense\nrrdma3 gone\nrrdma2 second\nrrdma4 second\n\n")
        self.assertEqual([(d["device"], d["state"]) for d in run_json("link", "show", "--json")],
                         [("rrdma0", "active"), ("rrdma2", "active"), ("rrdma3", "not here")])

    def test_programs_use_both(self):
        run("link", "add", "second")
        seen = subprocess.run([RRDMA, "run", "--", "ibv_devinfo"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"hca_id:\s+(\S+)", seen), ["rrdma0", "rrdma1"])
        index = next(str(g["index"]) for g in run_json("gids", "--json") if g["address"] == "10.10.0.1")
        for link in ("shm", "udp"):
            words = [RRDMA, "run", "--link", link, "--", "ibv_rc_pingpong", "-d", "rrdma1", "-g", index, "-n", "200", "-p", "18640"]
            before = servers.open_ports()
            server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            servers.await_server(server, before, words)
            done = subprocess.run(words + ["localhost"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("10.10.0.1", done.stdout)
            self.assertEqual(server.wait(30), 0)

    def test_one_program_opens_both(self):
        run("link", "add", "second")
        indices = {g["address"]: str(g["index"]) for g in run_json("gids", "--json")}
        for link in ("shm", "udp"):
            done = subprocess.run([RRDMA, "run", "--link", link, "--", sys.argv[2], "rrdma0", indices["10.9.0.1"], "rrdma1", indices["10.10.0.1"]],
                                  capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("every octet right", done.stdout)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    surroundings.ip("link", "add", "second", "type", "veth", "peer", "name", "third")
    surroundings.ip("link", "set", "second", "up")
    surroundings.ip("link", "set", "third", "up")
    surroundings.ip("addr", "add", "10.10.0.1/24", "dev", "second")
    command.main()
