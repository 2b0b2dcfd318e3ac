#!/usr/bin/env python3
"""One packet of ours of every opcode, over IPv4, IPv6 and RoCE v1. tshark must dissect each as InfiniBand
with the intended fields and no malformed or expert-error mark. `rrdma decode` must do the same.

    every_opcode_test.py RRDMA WRITER

tshark 4.0 does not know XRC, FLUSH, ATOMIC WRITE and CNP: these are compared up to the BTH.
hand_vectors_test.cc covers the rest of them.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ours
import tshark

PROGRAM, WRITER = sys.argv[1:3]
XRC = range(0xA0, 0xC0)
FLUSH, ATOMIC_WRITE, CNP, ARRIVALS = 0x1C, 0x1D, 0x81, 0xD1
BTH = ["opcode", "solicited", "migration", "pad", "version", "pkey", "psn", "destination_qp", "ack_request"]
# 25 of RC, 12 of UC, 2 of UD, as many of XRC as of RC, CNP, and RRDMA's own arrival map; over three networks.
PACKETS = (25 + 12 + 2 + 25 + 1 + 1) * 3


def known_to_tshark(opcode):
    return opcode not in XRC and opcode not in (FLUSH, ATOMIC_WRITE, CNP, ARRIVALS)


class EveryOpcode(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            capture = Path(folder) / "every_opcode.pcapng"
            written = subprocess.run([WRITER, capture], capture_output=True, text=True, timeout=60, check=True)
            cls.meant = [json.loads(line) for line in written.stdout.splitlines()]
            cls.decoded, cls.status = ours.decode(PROGRAM, capture, "--payload")
            cls.seen = tshark.dissect(capture)

    def test_all_opcodes_are_there(self):
        self.assertEqual(len(self.meant), PACKETS)
        self.assertEqual(len({(m["network"], m["fields"]["opcode"]) for m in self.meant}), PACKETS)
        self.assertEqual((len(self.decoded), len(self.seen)), (PACKETS, PACKETS))

    def test_rrdma_decode_reads_what_was_meant(self):
        self.assertEqual(self.status, 0)
        for meant, packet in zip(self.meant, self.decoded):
            where = f"{meant['name']} over {meant['network']}"
            fields = ours.flat(packet)
            icrc = fields.pop("icrc")
            self.assertEqual(fields, meant["fields"], where)
            self.assertEqual(packet["verdict"], "good", where)
            self.assertEqual(packet["payload"], meant["payload"], where)
            self.assertEqual(packet["time_ns"], meant["time_ns"], where)
            self.assertEqual((packet["interface"], packet["comments"]), ("test0", [meant["name"]]), where)
            self.assertEqual(icrc, packet["icrc"]["expected"], where)

    def test_tshark_reads_what_was_meant(self):
        compared = 0
        for meant, packet, seen in zip(self.meant, self.decoded, self.seen):
            where = f"{meant['name']} over {meant['network']}"
            self.assertIsNone(seen.complaint(), where)
            opcode = meant["fields"]["opcode"]
            if known_to_tshark(opcode):
                self.assertEqual(seen.fields, {**meant["fields"], "icrc": packet["icrc"]["value"]}, where)
                # tshark shows the pad as part of the payload.
                self.assertEqual(seen.payload.hex(), meant["payload"] + "00" * meant["fields"]["pad"], where)
                compared += 1
            else:
                self.assertEqual({name: seen.fields[name] for name in BTH},
                                 {name: meant["fields"][name] for name in BTH}, where)
        self.assertEqual(compared, (23 + 12 + 2) * 3)


if __name__ == "__main__":
    tshark.require()
    unittest.main(argv=sys.argv[:1])
