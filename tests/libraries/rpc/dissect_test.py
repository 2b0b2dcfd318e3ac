# `rrdma decode` and Wireshark's Lua plugin must see the same frames in captures of calls, and the expected ones.
# Arguments: the command, the folder of the examples, the plugin.
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/commands"))
import surroundings  # noqa: E402  (it knows where the harness is)
import namespaces  # noqa: E402
from peers import HOST, Server  # noqa: E402

RRDMA, EXAMPLES, PLUGIN = sys.argv[1:4]
LINK = {"RRDMA_LINK": "udp"}
METHODS = ["key_value.Store/Put", "key_value.Store/Get", "key_value.Store/Scan"]
FIELDS = ["kind", "call", "method.name", "status", "message", "window", "body", "metadata"]


def capture(address, *words):
    """The packets of one client."""
    path = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH)) / "client.pcapng"
    subprocess.run([RRDMA, "run", "--pcap", path, "--", f"{EXAMPLES}/key_value", words[0], address, *words[1:]],
                   env={**os.environ, **LINK}, capture_output=True, timeout=60, check=False)
    return path


def packed(rpc):
    """The captured frames of a pack."""
    return [rpc[key] for key in rpc if key.startswith("frame_") and "kind" in rpc[key]]


def ours(path):
    """Frames according to `rrdma decode`, a list for each packet. A pack precedes its frames."""
    methods = [word for method in METHODS for word in ("--method", method)]
    done = subprocess.run([RRDMA, "decode", "--rpc", "--json", *methods, path], capture_output=True, text=True, timeout=60, check=True)
    packets = [packet for packet in map(json.loads, done.stdout.splitlines()) if "rpc" in packet]
    return [[{**frame, "packet": tuple(packet["bth"][name] for name in ("destination_qp", "psn"))} for frame in (packet["rpc"], *packed(packet["rpc"]))]
            for packet in packets]


def tshark_version():
    told = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", told).groups()))


def wiresharks(path):
    """The same with tshark and the plugin: for each packet, the fields of all its frames in order. Not as root, for whom tshark
    4.4 loads no plugin."""
    who = {}
    if os.geteuid() == 0 and tshark_version() >= (4, 4):
        plugin = pathlib.Path(shutil.copy(PLUGIN, path.parent))
        for each, mode in ((path.parent.parent, 0o755), (path.parent, 0o755), (path, 0o644), (plugin, 0o644)):
            each.chmod(mode)
        who = {"user": namespaces.NOBODY, "group": namespaces.NOBODY, "extra_groups": [], "env": {**os.environ, "HOME": str(path.parent)}}
    else:
        plugin = PLUGIN
    fields = [word for field in FIELDS for word in ("-e", f"rrdma_rpc.{field}")]
    done = subprocess.run(["tshark", "-X", f"lua_script:{plugin}", "-o", "rrdma_rpc.methods:" + " ".join(METHODS), "-r", path, "-Y", "rrdma_rpc",
                           "-T", "fields", "-E", "aggregator=|", *fields], capture_output=True, text=True, timeout=60, check=True, **who)
    return [{field: value.split("|") if value else [] for field, value in zip(FIELDS, line.split("\t"))} for line in done.stdout.splitlines()]


class Dissectors(unittest.TestCase):
    def frames(self, address, *words):
        path = capture(address, *words)
        here, there = ours(path), wiresharks(path)
        self.assertEqual(len(here), len(there), words)
        kinds = ["CALL", "REPLY", "ITEM", "WINDOW", "CANCEL", "GO AWAY", "PART", "PROOF", "PACK", "TAKEN", "KEY", "SEALED", "HEADERS"]
        for ones, other in zip(here, there):
            self.assertEqual([one["kind"] for one in ones], [kinds[int(kind) - 1] for kind in other["kind"]])
            self.assertEqual([one["call"] for one in ones], [int(call, 16) for call in other["call"]])
            for key, field in (("method", "method.name"), ("status", "status"), ("message", "message")):
                self.assertEqual([str(one[key]) for one in ones if key in one], other[field])
        # A busy machine retransmits some packets; count each of them once.
        once = {ones[0]["packet"]: ones for ones in here}.values()
        return [one for ones in once for one in ones if one["kind"] != "PACK"]

    def test_what_was_said(self):
        address = f"{HOST}:7240"
        with Server(LINK, f"{EXAMPLES}/key_value", "serve", address):
            small = self.frames(address, "put", "a", "one")
            self.assertEqual([frame["kind"] for frame in small], ["CALL", "REPLY"])
            self.assertEqual((small[0]["method"], small[0]["body"]), ("key_value.Store/Put", 8))
            self.assertEqual(small[1]["status"], 0)
            full = self.frames(address, "put", "b", "x" * 5000)  # of several packets
            self.assertEqual((full[0]["kind"], full[0].get("flags", "")), ("CALL", ""))
            large = self.frames(address, "put", "b", "x" * 60000)
            self.assertIn("60007 bytes at 0x", large[0]["offered"])
            self.assertEqual(large[0]["flags"], "offered")
            missing = self.frames(address, "get", "c")
            self.assertEqual((missing[1]["status"], missing[1]["message"]), (5, "there is no c"))
            scanned = self.frames(address, "scan", "a")
            kinds = [frame["kind"] for frame in scanned]
            self.assertEqual((kinds[0], kinds.count("CALL")), ("CALL", 1))
            # It may follow the last item in a message of several packets, of which only the first is decoded.
            self.assertLessEqual(kinds.count("REPLY"), 1)
            items = [frame for frame in scanned if frame["kind"] == "ITEM"]
            # The client reads the large item.
            self.assertEqual([(frame.get("flags", ""), frame["body"]) for frame in items], [("", 8), ("offered", 0)])
            self.assertIn("60007 bytes at 0x", items[1]["offered"])
            self.assertEqual(kinds.count("TAKEN"), 1)


if __name__ == "__main__":
    version = subprocess.run(["tshark", "-v"], capture_output=True, text=True, check=False).stdout if shutil.which("tshark") else ""
    if "with Lua" not in version:
        print("tshark with Lua is not installed")
        sys.exit(77)
    surroundings.enter()
    surroundings.make_pair()
    with tempfile.TemporaryDirectory() as SCRATCH:
        unittest.main(argv=sys.argv[:1], verbosity=2)
