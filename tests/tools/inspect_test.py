# `rrdma inspect` without a browser: what it finds out, who may read it, and the files that it writes. With one:
# tests/inspector. Arguments: the command, the source folder.
import collections
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import command
import surroundings
from command import run, run_json
from traffic import PingPong
from inspecting import Inspector, hostile_capture, lossy_pingpong, tshark_counts

ROOT = sys.argv[2]
CAPTURES = os.path.join(ROOT, "tests", "captures")


def messages(octets):
    """The fields of a protobuf message: (number, value) in their order; numbers, and octets of what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            octet = octets[at]
            at += 1
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return value

    while at < len(octets):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, int.from_bytes(octets[at:at + 8], "little")
            at += 8
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, octets[at:at + length]
            at += length
        else:
            raise AssertionError(f"wire type {key & 7}")


class Inspect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.lossy = os.path.join(cls.folder, "lossy.pcapng")
        lossy_pingpong(cls.lossy, iterations=200)

    def test_counts_are_those_of_tshark(self):
        expected = tshark_counts(self.lossy)
        self.assertGreater(expected["naks"], 0)
        self.assertGreater(expected["repeats"], 0)
        with Inspector(self.lossy) as inspector:
            header = inspector.header()
        self.assertEqual(len(header["connections"]), 1)
        ends = [header["connections"][0][side] for side in "ab"]
        self.assertEqual({name: sum(end[name] for end in ends) for name in expected}, expected)
        self.assertEqual(sum(end["messages"] for end in ends), 400)
        self.assertIn("sequence", [finding["kind"] for finding in header["findings"]])

    def test_strangers_are_refused(self):
        with Inspector(self.lossy) as inspector:
            token = inspector.token
            status, body, headers = inspector.ask()
            self.assertEqual(status, 200)
            self.assertIn(b"RRDMA inspector", body)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("Access-Control-Allow-Origin", headers)
            for path in ("/", "/capture", "/" + "0" * len(token) + "/capture", f"/{token}", f"/{token[:-1]}/", "//"):
                self.assertEqual(inspector.ask(path)[0], 403, path)
            self.assertEqual(inspector.ask(host="evil.example")[0], 403)
            self.assertEqual(inspector.ask(origin="http://evil.example")[0], 403)
            self.assertEqual(inspector.ask(origin="null")[0], 403)
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                self.assertEqual(inspector.ask(method=method)[0], 405, method)
            for path in ("packet/999999999", "packet/-1", "packet/", "packet/99999999999999999999", "../../etc/passwd"):
                self.assertEqual(inspector.ask(f"/{token}/{path}")[0], 404, path)
            listening = subprocess.run(["ss", "-Hltn", f"sport = :{inspector.port}"], capture_output=True, text=True).stdout.split()
            self.assertEqual(listening[3], f"127.0.0.1:{inspector.port}", "nothing but loopback")

    def test_tokens_differ(self):
        with Inspector(self.lossy) as one, Inspector(self.lossy) as other:
            self.assertNotEqual(one.token, other.token)
            self.assertEqual(len(one.token), 32)

    def test_details_name_every_header(self):
        with Inspector(os.path.join(CAPTURES, "op_atomics_v4.pcap")) as inspector:
            first = json.loads(inspector.inside("packet/0"))
        labels = [first["strings"][field[0]] for field in first["fields"]]
        self.assertEqual(labels[:4], ["Ethernet", "IPv4", "UDP", "BTH"])

    def test_handshakes_are_grouped(self):
        with Inspector(os.path.join(CAPTURES, "cm_rping_v4.pcap"), os.path.join(CAPTURES, "cm_rejected_v4.pcap")) as inspector:
            header = inspector.header()
        self.assertEqual(len(header["files"]), 2)
        self.assertGreaterEqual(len(header["handshakes"]), 2)
        self.assertTrue(any(one["connection"] is not None for one in header["handshakes"]), "none leads to its connection")
        rejected = [one for one in header["findings"] if one["kind"] == "rejected"]
        self.assertEqual(len(rejected), 1)
        self.assertTrue(rejected[0]["checks"], "no remedy")

    def test_programs_that_run(self):
        with Inspector() as inspector, PingPong(port=18711) as pair:
            surroundings.wait_for(lambda: len([p for p in run_json("stat", "--json")["processes"] if p["queue_pairs"]]) == 2)
            self.assertEqual(inspector.ask(f"/{inspector.token}/capture")[0], 204)
            with socket.create_connection(("127.0.0.1", inspector.port)) as stream:
                stream.sendall(f"GET /{inspector.token}/live HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n".encode())
                events = [line for line in itertools.islice(stream.makefile(encoding="utf-8"), 60) if line.startswith("data: ")]
        self.assertGreaterEqual(len(events), 5)
        seen = json.loads(events[-1].removeprefix("data: "))
        self.assertEqual({process["pid"] for process in seen["stat"]["processes"]}, pair.pids())
        self.assertEqual({qp["state"] for process in seen["stat"]["processes"] for qp in process["queue_pairs"]}, {"RTS"})

    def test_a_report_is_one_file(self):
        report = os.path.join(self.folder, "report.html")
        _, said = run("inspect", "--export", report, self.lossy)
        self.assertRegex(said, r"report.html: \d+ packets of 1 connections")
        with open(report, encoding="utf-8") as file:
            page = file.read()
        self.assertIn('id="capture"', page)
        self.assertNotRegex(page, r'(src|href)="https?:')

    def test_hostile_text_stays_out_of_the_report(self):
        path, report = os.path.join(self.folder, "</script><script>hacked()</script>".replace("/", "_")), os.path.join(self.folder, "hostile.html")
        hostile_capture(path)
        run("inspect", "--export", report, path)
        with open(report, encoding="utf-8") as file:
            self.assertNotIn("hacked", file.read())

    def test_bad_files(self):
        for name, octets, sentence in (("empty", b"", "the file is empty"), ("text", b"hello, world, this is no capture", "neither a pcap nor a pcapng file")):
            path = os.path.join(self.folder, name)
            with open(path, "wb") as file:
                file.write(octets)
            _, said = run("inspect", path, status=2)
            self.assertIn(sentence, said)
        _, said = run("inspect", os.path.join(self.folder, "missing"), status=2)
        self.assertIn("o such file", said)
        _, said = run("inspect", "--export", os.path.join(self.folder, "x.html"), status=2)
        self.assertIn("nothing to export", said)
        _, said = run("inspect", "--export", "/proc/nowhere/x.html", self.lossy, status=2)
        self.assertIn("cannot write it", said)

    def test_a_trace_for_perfetto(self):
        path = os.path.join(self.folder, "trace.pftrace")
        run("inspect", "--perfetto", path, self.lossy)
        with Inspector(self.lossy) as inspector:
            header = inspector.header()
        with open(path, "rb") as file:
            packets = [dict_of(message) for number, message in messages(file.read()) if number == 1]
        tracks = {dict_of(packet[60][0])[1][0] for packet in packets if 60 in packet}
        parents = {dict_of(packet[60][0])[5][0] for packet in packets if 60 in packet and 5 in dict_of(packet[60][0])}
        self.assertLessEqual(parents, tracks)
        open_slices, begun, flows, ended, names, last = collections.Counter(), 0, collections.Counter(), collections.Counter(), collections.Counter(), 0
        for packet in packets:
            if 11 not in packet:
                continue
            event, time = dict_of(packet[11][0]), packet[8][0]
            self.assertGreaterEqual(time, last, "not by time")
            last = time
            kind, track = event[9][0], event[11][0]
            self.assertIn(track, tracks)
            if kind == 1:
                self.assertEqual(open_slices[track], 0, "slices of one track overlap")
                open_slices[track] += 1
                begun += 1
            elif kind == 2:
                open_slices[track] -= 1
                self.assertEqual(open_slices[track], 0, "an end without a begin")
            else:
                names[event[22][0]] += 1
                flows.update(event.get(47, []))
                ended.update(event.get(48, []))
        self.assertFalse(+open_slices)
        ends = [header["connections"][0][side] for side in "ab"]
        self.assertEqual(begun, sum(end["messages"] for end in ends), "a work request is a slice")
        self.assertEqual(begun, 400)
        self.assertEqual(flows, ended)
        self.assertEqual(set(flows.values()), {1})
        self.assertEqual(len(flows), sum(end["packets"] - end["lost"] for end in ends))


def dict_of(octets):
    found = collections.defaultdict(list)
    for number, value in messages(octets):
        found[number].append(value)
    return found


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
