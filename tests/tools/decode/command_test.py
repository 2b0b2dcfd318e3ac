#!/usr/bin/env python3
"""The behavior of `rrdma decode`: exit statuses, error texts, bad, truncated and foreign packets, colors,
Ctrl-C.

    command_test.py RRDMA FOLDER
"""

import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
GOOD = FOLDER / "op_send_inv_v4.pcap"
FILE_HEADER_OCTETS, RECORD_HEADER_OCTETS = 24, 16


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=60, check=False, **options)


def records(path):
    """Returns the packets of a little-endian pcap file."""
    octets = path.read_bytes()
    at = FILE_HEADER_OCTETS
    while at < len(octets):
        length = struct.unpack_from("<I", octets, at + 8)[0]
        yield octets[at + RECORD_HEADER_OCTETS:at + RECORD_HEADER_OCTETS + length]
        at += RECORD_HEADER_OCTETS + length


def pcap(*packets, link=1):
    """Builds a pcap file; a packet is its bytes, or (bytes, original length)."""
    text = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for second, packet in enumerate(packets):
        octets, original = packet if isinstance(packet, tuple) else (packet, len(packet))
        text += struct.pack("<IIII", second, 250000, len(octets), original) + octets
    return text


def foreign_packets():
    macs = bytes.fromhex("020000000002" "020000000001")
    arp = macs + bytes.fromhex("0806") + bytes(28)
    tcp = macs + bytes.fromhex("0800" "4500002800004000" "40060000" "0a000001" "0a000002") + bytes(20)
    dns = macs + bytes.fromhex("0800" "4500001c00004000" "401126cf" "0a000001" "0a000002" "d43100350008" "0000")
    # ICMPv6 behind a hop-by-hop header, as in multicast listener reports.
    mld = macs + bytes.fromhex("86dd" "60000000" "0010" "00" "01") + bytes(32) + bytes.fromhex("3a00050200000000") + bytes(8)
    # TCP whose IP length exceeds the captured length: not a RoCE error.
    long_tcp = macs + bytes.fromhex("0800" "4500ffff00004000" "40060000" "0a000001" "0a000002") + bytes(20)
    return [arp, tcp, dns, mld, long_tcp]


class Command(unittest.TestCase):
    def decode_octets(self, octets, *options):
        return run("decode", *options, "-", input=octets)

    def decode_json(self, octets, *options):
        done = self.decode_octets(octets, "--json", *options)
        return [json.loads(line) for line in done.stdout.splitlines()], done.returncode

    def assert_complaint(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr.decode())
        self.assertLessEqual(len(done.stderr.splitlines()), 2, done.stderr)

    def test_good_file(self):
        done = run("decode", GOOD)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), len(list(records(GOOD))))
        for line in lines:
            self.assertIn("icrc ok", line)
        self.assertIn("RC SEND ONLY WITH INVALIDATE", done.stdout.decode())
        self.assertNotIn("\x1b", done.stdout.decode())

    def test_standard_input(self):
        self.assertEqual(self.decode_octets(GOOD.read_bytes()).stdout, run("decode", GOOD).stdout)
        with GOOD.open("rb") as file:
            self.assertEqual(run("decode", "-", stdin=file).stdout, run("decode", GOOD).stdout)

    def test_wrong_arguments(self):
        self.assert_complaint(run("decode"), "FILE is required", "--help")
        self.assert_complaint(run("decode", "--bogus", GOOD), "--bogus", "--help")
        self.assert_complaint(run("decode", "--color", "blue", GOOD), "blue", "always")
        self.assert_complaint(run("decode", "--json", "--verbose", GOOD), "excludes")
        self.assert_complaint(run("no-such-command"), "no-such-command", "rrdma help")
        self.assertEqual(run().returncode, 2)
        self.assertIn(b"decode", run().stderr)

    def test_help_states_exit_statuses(self):
        done = run("decode", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"Exit status", done.stdout)
        self.assertTrue(run("--version").stdout.startswith(b"rrdma "))
        for words in (("--version", "--json"), ("--json", "--version")):
            found = json.loads(run(*words).stdout)
            self.assertRegex(found["version"], r"^\d+\.\d+\.\d+$")
            self.assertEqual(run("--version").stdout.decode().strip(), "rrdma " + found["version"])
            self.assertGreater(found["daemon_protocol"], 0)

    def test_files_that_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assert_complaint(run("decode", Path(folder) / "missing"), "missing", "No such file")
            self.assert_complaint(run("decode", folder), folder, "directory")
        self.assert_complaint(self.decode_octets(b""), "empty")
        self.assert_complaint(self.decode_octets(b"#!/bin/sh\necho this is no capture\n"), "neither a pcap nor a pcapng")
        self.assert_complaint(self.decode_octets(bytes.fromhex("1f8b0800") + bytes(30)), "compressed", "zcat")
        self.assert_complaint(self.decode_octets(pcap()[:20]), "truncated")

    def test_truncated_file_shows_what_is_whole(self):
        packets = list(records(GOOD))
        done = self.decode_octets(pcap(*packets)[:-1])
        self.assert_complaint(done, "truncated", f"after {len(packets) - 1} packets")
        self.assertEqual(len(done.stdout.splitlines()), len(packets) - 1)

    def test_foreign_packets_are_not_bad(self):
        packets, status = self.decode_json(pcap(*foreign_packets(), next(records(GOOD))))
        self.assertEqual(status, 0)
        self.assertEqual([packet["verdict"] for packet in packets], ["foreign"] * 5 + ["good"])
        self.assertEqual([packet["reason"] for packet in packets[:5]], ["ARP", "TCP", "UDP 54321 > 53", "ICMPv6", "TCP"])
        self.assertIn(b"not RoCE: ARP", self.decode_octets(pcap(*foreign_packets())).stdout)

    def test_every_flipped_octet_is_noticed(self):
        packet = next(records(GOOD))
        # Fields that the ICRC does not cover: Ethernet, TOS, TTL, UDP checksum, byte 4 of the BTH. The IPv4
        # header has its own checksum. A packet with another protocol or port, or a later fragment, is a
        # foreign packet.
        uncovered = [40, 41, 46]
        places = range(14, len(packet))
        changed = [packet[:at] + bytes([packet[at] ^ 1]) + packet[at + 1:] for at in places]
        decoded, status = self.decode_json(pcap(*changed))
        self.assertEqual((len(decoded), status), (len(places), 1))
        for at, one in zip(places, decoded):
            expected = "good" if at in uncovered else "foreign" if at in (20, 21, 23, 36, 37) else "bad"
            self.assertEqual(one["verdict"], expected, at)
            self.assertEqual("reason" in one, expected != "good", at)

    def test_bad_packets_are_shown_with_the_reason(self):
        good = next(records(GOOD))
        changed = bytearray(good)
        changed[-1] ^= 0x80
        done = self.decode_octets(pcap(good, bytes(changed), good))
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.decode().splitlines()
        self.assertIn("BAD: ICRC is wrong", lines[1])
        self.assertIn("icrc ok", lines[2])
        self.assertIn(b"3 packets: 3 RoCE (1 bad", done.stderr)

    def test_cut_packets(self):
        packet = next(records(GOOD))
        transport, headers = 14 + 20 + 8, 12 + 16  # an RDMA WRITE ONLY: BTH and RETH
        places = range(14, len(packet))
        decoded, status = self.decode_json(pcap(*((packet[:kept], len(packet)) for kept in places)))
        self.assertEqual((len(decoded), status), (len(places), 0))
        for kept, one in zip(places, decoded):
            self.assertIn(one["verdict"], ("cut",) if kept >= transport else ("cut", "foreign"), kept)
            self.assertEqual("bth" in one, kept >= transport + headers, kept)
            if "bth" in one:
                self.assertFalse(one["icrc"]["checked"], kept)

    def test_other_links(self):
        packet = next(records(GOOD))
        raw, cooked = pcap(packet[14:], link=101), pcap(bytes(14) + bytes.fromhex("0800") + packet[14:], link=113)
        cooked2 = pcap(bytes.fromhex("0800") + bytes(18) + packet[14:], link=276)
        for octets in (raw, cooked, cooked2):
            (decoded,), status = self.decode_json(octets)
            self.assertEqual((decoded["verdict"], decoded["bth"]["opcode_name"], status), ("good", "RC RDMA WRITE ONLY", 0))
        (decoded,), status = self.decode_json(pcap(packet, link=147))
        self.assertEqual((decoded["verdict"], status), ("foreign", 0))

    def test_verbose_explains_each_field(self):
        text = run("decode", "--verbose", "--payload", FOLDER / "cm_rping_v4.pcap").stdout.decode()
        for word in ["Destination QP", "queue pair that this packet is for", "CM: REQ", "IP-CM header", "Starting PSN", "ICRC: right"]:
            self.assertIn(word, text)

    def test_connection_manager(self):
        packets, _ = self.decode_json((FOLDER / "cm_rping_v4.pcap").read_bytes())
        messages = [packet["cm"]["message"] for packet in packets if "cm" in packet]
        self.assertEqual(messages[:3], ["REQ", "REP", "RTU"])
        request = next(packet["cm"] for packet in packets if "cm" in packet)
        self.assertEqual((request["service_port"], request["ip_cm"]["source"]), (7174, "10.77.0.3"))
        # The REQ announces these values, and the other side's packets then carry them.
        first_send = next(packet for packet in packets if packet["bth"]["opcode_name"] == "RC SEND ONLY")
        self.assertIn(first_send["bth"]["destination_qp"], [packet["cm"]["local_qpn"] for packet in packets[:2]])

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "decode", GOOD], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assert_complaint(done, "cannot write")

    def test_hostile_comment_cannot_reach_the_terminal(self):
        def block(kind, body):
            body += bytes(-len(body) % 4)
            return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

        packet, comment = next(records(GOOD)), b"\x1b]0;owned\x07 \xff"
        options = struct.pack("<HH", 1, len(comment)) + comment + bytes(-len(comment) % 4) + bytes(4)
        body = struct.pack("<IIIII", 0, 0, 0, len(packet), len(packet)) + packet + bytes(-len(packet) % 4) + options
        file = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0)) + block(6, body)
        done = self.decode_octets(file)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"owned", done.stdout)
        self.assertNotIn(b"\x1b", done.stdout)
        (decoded,), status = self.decode_json(file)
        self.assertEqual((len(decoded["comments"]), status), (1, 0))

    def on_terminal(self, environment):
        leader, follower = pty.openpty()
        try:
            subprocess.run([PROGRAM, "decode", GOOD], stdout=follower, stderr=subprocess.DEVNULL, timeout=60, check=True,
                           env={**os.environ, "TERM": "xterm", **environment})
            return os.read(leader, 65536)
        finally:
            os.close(leader)
            os.close(follower)

    def test_colours_only_on_a_terminal(self):
        self.assertIn(b"\x1b[", self.on_terminal({"NO_COLOR": ""}))
        self.assertNotIn(b"\x1b[", self.on_terminal({"NO_COLOR": "1"}))
        self.assertNotIn(b"\x1b[", self.on_terminal({"TERM": "dumb"}))
        self.assertIn(b"\x1b[", run("decode", "--color", "always", GOOD).stdout)
        self.assertNotIn(b"\x1b[", run("decode", "--color", "never", GOOD).stdout)

    def test_interrupt(self):
        # Blocks on standard input, which never ends.
        child = subprocess.Popen([PROGRAM, "decode", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            child.stdin.write(GOOD.read_bytes()[:30])
            child.stdin.flush()
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            child.stdin.close()
            self.assertEqual(child.wait(timeout=30), -signal.SIGINT)
            self.assertEqual(child.stderr.read(), b"")
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            child.stderr.close()


class Connections(unittest.TestCase):
    """Senders, filters and the summary, on captures of another implementation."""

    def packets(self, name, *words):
        done = run("decode", "--json", FOLDER / name, *words)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_the_queue_pair_that_sends(self):
        for name in ("op_mixed_v4.pcap", "op_write_imm_v4.pcap", "cm_rping_v4.pcap", "cm_rping_v6.pcap", "op_atomics_v6.pcap"):
            known = [p for p in self.packets(name) if "bth" in p and "deth" not in p]
            # The two ends are each other's peers: if one is the destination, the other is the sender.
            pairs = {(p["sender_qp"], p["bth"]["destination_qp"]) for p in known}
            self.assertTrue(known, name)
            self.assertEqual(pairs, {(there, here) for here, there in pairs}, name)
        shown = run("decode", FOLDER / "cm_rping_v4.pcap").stdout.decode()
        self.assertRegex(shown, r"RC RDMA READ REQUEST +qp 0x[0-9a-f]{6}.*from qp 0x[0-9a-f]{6}")

    def test_an_end_that_nobody_names_is_left_out(self):
        # UC: there are no acknowledgements.
        packets = [record for record in records(FOLDER / "op_uc_send_imm_v4.pcap")]
        done = run("decode", "--json", "-", input=pcap(*packets))
        for packet in map(json.loads, done.stdout.splitlines()):
            self.assertNotIn("sender_qp", packet) if "deth" not in packet else None

    def test_filters(self):
        everything = self.packets("cm_rping_v4.pcap")
        qp = next(p["sender_qp"] for p in everything if "deth" not in p)
        mine = self.packets("cm_rping_v4.pcap", f"qp={qp:#x}")
        self.assertEqual(mine, [p for p in everything if qp in (p.get("sender_qp"), p["bth"]["destination_qp"])])
        reads = self.packets("cm_rping_v4.pcap", f"qp={qp}", "op=read")
        self.assertTrue(reads)
        self.assertTrue(all("READ" in p["bth"]["opcode_name"] for p in reads))
        self.assertEqual([p["cm"]["message"] for p in self.packets("cm_rping_v4.pcap", "op=REQ") if "cm" in p][:1], ["REQ"])
        address = everything[0]["ipv4"]["source"]
        self.assertEqual(self.packets("cm_rping_v4.pcap", f"peer={address}"), everything)
        self.assertEqual(self.packets("cm_rping_v4.pcap", "peer=192.0.2.99"), [])

    def test_errors(self):
        naks = self.packets("op_bad_rkey_read_v4.pcap", "errors")
        self.assertTrue(naks)
        self.assertTrue(all(p["aeth"]["syndrome"] & 0x60 for p in naks))
        self.assertTrue(self.packets("op_rnr_exhaust_v4.pcap", "errors"))
        self.assertEqual([p["cm"]["message"] for p in self.packets("cm_rejected_v4.pcap", "errors")], ["REJ"])
        self.assertEqual(self.packets("op_zero_v4.pcap", "errors"), [])

    def test_a_filter_that_is_none(self):
        for word, hint in (("qp=many", "queue pair number"), ("error", "did you mean 'errors'"), ("port=3", "filters are"), ("op=", "is no filter")):
            done = run("decode", GOOD, word)
            self.assertEqual(done.returncode, 2)
            self.assertIn(hint, done.stderr.decode())
            self.assertEqual(done.stdout, b"")

    def test_summary(self):
        packets = self.packets("cm_rping_v4.pcap")
        summary = json.loads(run("decode", "--summary", "--json", FOLDER / "cm_rping_v4.pcap").stdout)
        self.assertEqual(sum(flow["packets"] for flow in summary["flows"]), len(packets))
        self.assertEqual(summary["left_out"], 0)
        text = run("decode", "--summary", FOLDER / "op_rnr_exhaust_v4.pcap")
        self.assertRegex(text.stdout.decode(), r"^FROM +QP +TO +QP +PACKETS +BYTES")
        self.assertRegex(text.stderr.decode(), r"\d+ packets: \d+ RoCE \(0 bad")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
