#!/usr/bin/env python3
"""Decodes every packet of every capture of another RoCE implementation. The ICRC must be correct, and all
header fields must equal those of tshark.

    captures_test.py RRDMA FOLDER
"""

import sys
import tempfile
import unittest
from collections import defaultdict
from pathlib import Path

import ours
import tshark

FILE_HEADER_OCTETS = 24
PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
# The comparison proves something only if each of these fields occurs.
MUST_OCCUR = ["opcode", "destination_qp", "psn", "syndrome", "msn", "address", "rkey", "length", "swap_or_add", "compare",
              "original", "qkey", "source_qp", "immediate", "invalidate_rkey", "icrc"]


def dissect_together(paths, packet_counts):
    """Dissects the captures and yields (path, [Seen]). Joins captures of the same format, because tshark
    starts slowly."""
    joined = defaultdict(list)
    for path in paths:
        joined[path.read_bytes()[:FILE_HEADER_OCTETS]].append(path)
    for header, members in joined.items():
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(header + b"".join(path.read_bytes()[FILE_HEADER_OCTETS:] for path in members))
            file.flush()
            frames = tshark.dissect(file.name)
        for path in members:
            yield path, frames[:packet_counts[path]]
            frames = frames[packet_counts[path]:]
        assert not frames, "tshark sees more packets than rrdma decode"


class Captures(unittest.TestCase):
    maxDiff = None

    def test_fields_equal_those_of_tshark(self):
        paths = sorted(FOLDER.glob("*.pcap"))
        self.assertTrue(paths, f"no captures in {FOLDER}")
        decoded = {}
        for path in paths:
            decoded[path], status = ours.decode(PROGRAM, path)
            self.assertEqual(status, 0, path)
        occurred = defaultdict(int)
        for path, frames in dissect_together(paths, {path: len(packets) for path, packets in decoded.items()}):
            self.assertEqual(len(frames), len(decoded[path]), path)
            for packet, seen in zip(decoded[path], frames):
                where = f"{path.name} packet {packet['number']}"
                self.assertEqual(packet["verdict"], "good", where)
                self.assertTrue(packet["icrc"]["right"], where)
                self.assertIsNone(seen.complaint(), where)
                fields = ours.flat(packet)
                self.assertEqual(fields, seen.fields, where)
                for name in fields:
                    occurred[name] += 1
        for name in MUST_OCCUR:
            self.assertGreater(occurred[name], 0, f"no capture has {name}")
        print(f"{occurred['opcode']} packets of {len(paths)} captures equal", file=sys.stderr)


if __name__ == "__main__":
    tshark.require()
    unittest.main(argv=sys.argv[:1])
