"""Tests the judge of captures: probes, repairs, and retransmissions with and without a request."""

import pathlib
import struct
import tempfile
import unittest
import zlib

import traffic

US, PEER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
WRITE_ONLY, ACKNOWLEDGE, OWN_DIALECT = 0x0a, 0x11, 0xd1
ACK, SEQUENCE_NAK = 0x1f, 0x60


def frame(source, destination, opcode, psn, ack_request=False, syndrome=None):
    body = bytes([opcode, 0, 0xff, 0xff, 0, 0, 0, 9, 0x80 if ack_request else 0]) + psn.to_bytes(3, "big")
    if syndrome is not None:
        body += bytes([syndrome, 0, 0, 0])
    length = 20 + 8 + len(body) + 4
    packet = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + source + destination + struct.pack(">HHHH", 50000, 4791, length - 20, 0) + body)
    masked = bytearray(packet)
    masked[1] = masked[8] = masked[32] = 0xff
    masked[10:12] = masked[26:28] = b"\xff\xff"
    return bytes(12) + b"\x08\x00" + bytes(packet) + struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def request(milliseconds, psn, ack_request=False):
    return milliseconds, frame(US, PEER, WRITE_ONLY, psn, ack_request)


def answer(milliseconds, psn, syndrome=ACK):
    return milliseconds, frame(PEER, US, ACKNOWLEDGE, psn, syndrome=syndrome)


def judge(*events):
    data = struct.pack("<IHHIIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1)
    for milliseconds, octets in events:
        data += struct.pack("<IIII", 0, round(milliseconds * 1e6), len(octets), len(octets)) + octets
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "capture.pcap"
        path.write_bytes(data)
        return traffic.judge(path, {US}, 1024)


class Judge(unittest.TestCase):
    def test_a_probe_asks_after_silence(self):
        verdict = judge(request(0, 0), request(0, 1, True), request(1, 0, True), answer(1.1, 1))
        self.assertEqual((verdict.bad_icrc, verdict.resent, verdict.probes, verdict.repaired, verdict.examples), (0, 1, 1, 0, []))

    def test_its_answer_shows_what_is_missing(self):
        verdict = judge(request(0, 0), request(0, 1), request(0, 2, True), request(1, 0, True), answer(1.1, 0), request(1.2, 1), request(1.2, 2, True))
        self.assertEqual((verdict.probes, verdict.repaired, verdict.examples), (1, 2, []))

    def test_too_soon_is_unasked(self):
        verdict = judge(request(0, 0), request(0, 1, True), request(0.1, 0, True))
        self.assertEqual((verdict.probes, verdict.repaired, len(verdict.examples)), (0, 0, 1))

    def test_a_probe_wants_an_answer(self):
        verdict = judge(request(0, 0), request(0, 1, True), request(1, 0))
        self.assertEqual((verdict.probes, len(verdict.examples)), (0, 1))

    def test_go_back_n_was_asked_for(self):
        verdict = judge(request(0, 0), request(0, 1, True), answer(0.1, 0, SEQUENCE_NAK), request(0.2, 0), request(0.2, 1, True))
        self.assertEqual((verdict.asked, verdict.probes, verdict.repaired), (2, 0, 0))

    def test_a_stranger_hears_nothing_of_our_own(self):
        self.assertEqual(judge((0, frame(US, PEER, OWN_DIALECT, 5))).own_dialect, 1)
        self.assertEqual(judge((0, frame(PEER, US, OWN_DIALECT, 5))).own_dialect, 0)


if __name__ == "__main__":
    unittest.main()
