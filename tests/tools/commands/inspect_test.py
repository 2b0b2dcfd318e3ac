# Tests `rrdma inspect` without a browser: its analysis, access control, and the files that it writes. tests/tools/inspector
# tests it with a browser. Arguments: the command, the source folder.
import itertools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import command
import servers
import surroundings
from command import run, run_json
from traffic import PingPong
from perfetto import Trace, unknown_fields
from inspecting import Inspector, hostile_capture, lossy_pingpong, tshark_counts, tshark_marks

ROOT = sys.argv[2]
CAPTURES = os.path.join(ROOT, "tests", "captures")


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

    def test_a_page_that_closes_does_not_end_it(self):
        """Pages close their stream in the middle, in order and with a reset; the others go on."""
        with Inspector() as inspector, PingPong(port=18715):
            def watch():
                page = socket.create_connection(("127.0.0.1", inspector.port))
                page.sendall(f"GET /{inspector.token}/live HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n".encode())
                lines = page.makefile(encoding="utf-8")
                next(line for line in lines if line.startswith("data: "))
                return page, lines
            stays, told = watch()
            for abruptly in (False, True, False, True):
                page, lines = watch()
                if abruptly:
                    page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                lines.close()
                page.close()
                for _ in range(3):
                    next(line for line in told if line.startswith("data: "))
            self.assertIsNone(inspector.process.poll())
            told.close()
            stays.close()

    def test_it_is_interrupted_while_pages_watch(self):
        """Ctrl-C while pages have the stream open: it ends, and does not crash."""
        with Inspector() as inspector:
            watching = []
            for _ in range(3):
                watching.append(socket.create_connection(("127.0.0.1", inspector.port)))
                watching[-1].sendall(f"GET /{inspector.token}/live HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n".encode())
                next(line for line in watching[-1].makefile(encoding="utf-8") if line.startswith("data: "))
            inspector.process.send_signal(signal.SIGINT)
            self.assertIn(inspector.process.wait(30), (0, 128 + signal.SIGINT, -signal.SIGINT))
            for page in watching:
                page.close()

    def test_faults_from_the_page(self):
        with Inspector("--allow-faults") as inspector, PingPong(port=18713):
            surroundings.wait_for(lambda: len([p for p in run_json("stat", "--json")["processes"] if p["queue_pairs"]]) == 2)
            place, own = f"/{inspector.token}/fault", f"http://127.0.0.1:{inspector.port}"

            def order(words, origin=own, path=place):
                status, body, _ = inspector.ask(path, "POST", origin=origin, body=words.encode())
                return status, json.loads(body) if status == 200 else None

            self.assertEqual(order("set net=drop=5%", origin=None)[0], 403, "no page of ours")
            self.assertEqual(order("set net=drop=5%", origin="http://evil.example")[0], 403)
            self.assertEqual(order("set net=drop=5%", path="/" + "0" * 32 + "/fault")[0], 403)
            self.assertEqual(order("set net=drop=5%", path=f"/{inspector.token}/live")[0], 405)
            self.assertFalse(order("set --plan /etc/passwd")[1]["done"])
            self.assertFalse(order("set nonsense=1")[1]["done"])
            self.assertTrue(order("set net=drop=5%")[1]["done"])
            self.assertEqual([fault["fault"] for fault in run_json("fault", "list", "--json")], ["net=drop=5%"])
            with socket.create_connection(("127.0.0.1", inspector.port)) as stream:
                stream.sendall(f"GET /{inspector.token}/live HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n".encode())
                event = next(line for line in stream.makefile(encoding="utf-8") if line.startswith("data: "))
            self.assertEqual([fault["fault"] for fault in json.loads(event.removeprefix("data: "))["faults"]], ["net=drop=5%"])
            self.assertTrue(order("clear all")[1]["done"])
            self.assertEqual(run_json("fault", "list", "--json"), [])
        _, said = run("inspect", "--allow-faults", self.lossy, status=2)
        self.assertIn("not in captures", said)

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
        trace = Trace(path)
        self.assertEqual(trace.faults, [])
        ends = [header["connections"][0][side] for side in "ab"]
        self.assertEqual(len(trace.slices), sum(end["messages"] for end in ends), "a work request is a slice")
        self.assertEqual(len(trace.slices), 400)
        self.assertEqual(len(trace.flows), sum(end["packets"] - end["lost"] for end in ends))
        self.assertEqual(sum(1 for packet in trace.sent if "repeat" in packet.arguments), sum(end["repeats"] for end in ends))

    def test_a_trace_fits_the_schema(self):
        path = os.path.join(self.folder, "schema.pftrace")
        run("inspect", "--perfetto", path, os.path.join(CAPTURES, "op_mixed_v4.pcap"))
        self.assertEqual(unknown_fields(path), [])
        with open(path, "ab") as file:
            file.write(b"\x0a\x02\x38\x01")  # a packet with an invalid field 7
        self.assertEqual(unknown_fields(path), ["7: 1"])

    def test_a_trace_counts_as_stat_does(self):
        path = os.path.join(self.folder, "live.pftrace")
        words = [command.RRDMA, "run", "--fault", "drop=3%,seed=5", "--", "ibv_rc_pingpong", "-g", "1", "-p", "18712", "-n"]
        before = servers.open_ports()
        # The server waits for one more message than it gets, so that it can be queried at the end.
        server = subprocess.Popen(words + ["301"], stdout=subprocess.DEVNULL)
        try:
            servers.await_server(server, before, words)
            tracing = subprocess.Popen([command.RRDMA, "trace", "-p", str(server.pid), path], stderr=subprocess.PIPE, text=True)
            self.assertIn("Capturing 1 program", tracing.stderr.readline())
            subprocess.run(words + ["300", "localhost"], stdout=subprocess.DEVNULL, check=True, timeout=120)
            counted = surroundings.wait_for(lambda: settled(server.pid))
            tracing.send_signal(signal.SIGINT)
            said = tracing.stderr.read()
            self.assertEqual(tracing.wait(30), -signal.SIGINT, said)
            tracing.stderr.close()
        finally:
            server.kill()
            server.wait()
        trace = Trace(path)
        self.assertEqual(trace.faults, [])
        queue_pair = f"RC QP 0x{counted['qpn']:06x}"
        sent = [packet for packet in trace.sent if packet.track == queue_pair]
        self.assertEqual(counted["sent_messages"], 300)
        self.assertEqual(sum(1 for one in trace.slices if one.track == queue_pair), counted["sent_messages"])
        self.assertEqual(sum(1 for packet in sent if "repeat" in packet.arguments), counted["packets_resent"])
        self.assertGreater(counted["packets_resent"], 0)
        naks = [packet for packet in trace.sent if packet.track != queue_pair and "(NAK)" in packet.name]
        self.assertEqual(len(naks), counted["sequence_naks"])


    def test_every_fault_on_a_packet_is_a_mark(self):
        path, trace = os.path.join(self.folder, "injected.pcapng"), os.path.join(self.folder, "injected.pftrace")
        words = [command.RRDMA, "run", "--link", "udp", "--fault", "drop=5%,dup=3%,ecn=4%,reorder=2%,corrupt=2%,seed=11"]
        program = ["--", "ibv_rc_pingpong", "-g", "1", "-s", "20000", "-p", "18715", "-n"]
        before = servers.open_ports()
        server = subprocess.Popen(words + ["--pcap", path] + program + ["201"], stdout=subprocess.DEVNULL)
        try:
            servers.await_server(server, before, words)
            subprocess.run(words + program + ["200", "localhost"], stdout=subprocess.DEVNULL, check=True, timeout=120)
            surroundings.wait_for(lambda: settled(server.pid))
            counters = next(p for p in run_json("stat", "--json")["processes"] if p["pid"] == server.pid)["counters"]
        finally:
            server.kill()
            server.wait()
        marks, notes = tshark_marks(path)
        names = {"drop": "dropped", "duplicate": "duplicated", "ecn": "marked", "reorder": "reordered", "corrupt": "corrupted"}
        counted = {mark: counters[f"faults_{name}"] for mark, name in names.items()}
        self.assertEqual({mark: marks[mark] for mark in names}, counted)
        self.assertTrue(all(counted.values()), counted)
        self.assertEqual(notes, [])
        shown = run("decode", path, "errors", status=None)[0]
        self.assertEqual(len(re.findall("# fault: ", shown)), marks["frames"])
        with Inspector(path) as inspector:
            header = inspector.header()
        self.assertEqual(len(header["remarks"]), marks["frames"])
        run("inspect", "--perfetto", trace, path)
        self.assertEqual(unknown_fields(trace), [])
        connected = [packet for packet in Trace(trace).sent if "fault" in packet.arguments]
        self.assertGreater(len(connected), marks["frames"] * 0.9)  # a corrupted packet may belong to no connection

    def test_faults_while_programs_run_are_marks(self):
        path, trace = os.path.join(self.folder, "rules.pcapng"), os.path.join(self.folder, "rules.pftrace")
        with PingPong("--link", "udp", port=18716) as pair:
            surroundings.wait_for(lambda: len([p for p in run_json("stat", "--json")["processes"] if p["queue_pairs"]]) == 2)
            capture = subprocess.Popen([command.RRDMA, "capture", "-p", str(pair.server.pid), path], stderr=subprocess.PIPE, text=True)
            self.assertIn("Capturing 1 program", capture.stderr.readline())
            run("fault", "set", "net=drop=2%")
            surroundings.wait_for(lambda: next(p for p in run_json("stat", "--json")["processes"] if p["pid"] == pair.server.pid)["counters"].get("faults_dropped", 0) > 3)
            number = run_json("fault", "list", "--json")[0]["number"]
            run("fault", "clear", "all")
            run("fault", "set", "qp=error")
            capture.send_signal(signal.SIGINT)
            capture.stderr.read()
            capture.stderr.close()
            capture.wait(30)
        marks, notes = tshark_marks(path)
        self.assertGreater(marks["drop"], 3)
        self.assertEqual(marks["frames"], marks["drop"])
        self.assertIn(f"fault {number}: on purpose (net=drop=2%): packets are disturbed from now on.", notes)
        self.assertTrue(any("is in the error state" in note for note in notes), notes)
        shown = run("decode", path)[0]
        self.assertEqual(len(re.findall(rf"# fault: drop \(rule {number}\)", shown)), marks["drop"])
        self.assertEqual(len(re.findall(r"(?m)^ +- .*# fault \d+: on purpose", shown)), len(notes))
        with Inspector(path) as inspector:
            header = inspector.header()
        self.assertEqual([event["text"] for event in header["events"]], notes)
        run("inspect", "--perfetto", trace, path)
        self.assertEqual(unknown_fields(trace), [])
        seen = Trace(trace)
        self.assertEqual(seen.faults, [])
        self.assertEqual([packet.name for packet in seen.sent if packet.name.startswith("fault ")], notes)


def settled(pid):
    """The queue pair of a program, once its counters stop changing."""
    def look():
        return next(process["queue_pairs"][0] for process in run_json("stat", "--json")["processes"] if process["pid"] == pid)
    before = look()
    time.sleep(0.4)
    return before if look() == before else None


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
