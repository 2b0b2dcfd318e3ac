# Tests `rrdma capture`: records packets of running programs for a while. Arguments: the command, the folder of the
# built examples.
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json
from traffic import PingPong

HELLO = os.path.join(sys.argv[2], "rpc", "hello")
SLOWLY = ("--fault", "delay=1ms")  # for captures that need only a packet now and then


def sent(pid):
    """Messages that a process has sent so far."""
    return next(p for p in run_json("stat", "--json")["processes"] if p["pid"] == pid)["counters"]["messages_sent"]


def sends(path):
    """The messages in a capture: a packet that was sent again, or captured at both ends, is one."""
    packets = map(json.loads, run("decode", "--json", path)[0].splitlines())
    return {(packet["bth"]["destination_qp"], packet["bth"]["psn"]) for packet in packets
            if packet.get("bth", {}).get("opcode_name") == "RC SEND ONLY"}


class Capture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "out.pcapng")

    def both_run(self):
        surroundings.wait_for(lambda: len(run_json("stat", "--json")["processes"]) == 2)

    def test_from_one_moment_to_another(self):
        with PingPong() as pair:
            self.both_run()
            seconds, packets = 0.2, 0
            while packets < 100:  # more than once on a busy machine
                if os.path.exists(self.file):
                    os.unlink(self.file)
                _, said = run("capture", "--seconds", seconds, self.file)
                self.assertIn("Capturing 2 programs", said)
                packets = int(re.search(r"(\d+) packets, ", said)[1])
                seconds *= 2
            size = os.path.getsize(self.file)
            self.assertRegex(said, rf"\d+ packets, {size} bytes written")
            before = sent(pair.server.pid)
            time.sleep(0.5)
            self.assertEqual(os.path.getsize(self.file), size, "the capture went on after its end")
            surroundings.wait_for(lambda: sent(pair.server.pid) > before)
        shown, _ = run("decode", self.file)
        self.assertIn("10.9.0.1", shown)
        self.assertGreater(len(re.findall(r"(?m)SEND", shown)), 20)

    def local_rping(self, *server_options):
        """A capture of two programs on this host, and their processes."""
        words = [RRDMA, "run", "--pcap", self.file, "--", "rping", "-a", "10.9.0.1", "-p", "18613", "-C", "3"]
        server = subprocess.Popen([*words, "-s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(50):
                client = subprocess.Popen([*words, "-c"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if client.wait(30) == 0:
                    break
                time.sleep(0.1)
            server.wait(30)
        finally:
            server.kill()
            server.wait()
        return server.pid, client.pid

    def test_the_handshake_of_a_local_connection(self):
        """The daemon sends these messages, and both programs record them."""
        server, client = self.local_rping()
        shown, _ = run("decode", self.file)
        for message in ("REQ to port 18613", "REP", "RTU", "DREQ"):
            self.assertRegex(shown, f"CM {message}")
        self.assertEqual(len(re.findall("CM RTU", shown)), 2, "once where it leaves, once where it arrives")
        for pid in (server, client):
            self.assertRegex(shown, rf"# QP 0x[0-9a-f]{{6}} belongs to rping, process {pid}\n")
        self.assertNotIn("belongs", run("decode", self.file, "errors")[0], "the name of a program is no error")

    def test_the_handshake_during_rrdma_capture(self):
        recorder = subprocess.Popen([RRDMA, "capture", self.file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with PingPong(port=18614):
                surroundings.wait_for(lambda: os.path.exists(self.file) and os.path.getsize(self.file) > 1000)
                other = self.file
                self.file += ".own"
                self.local_rping()
                self.file = other
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(20)
        self.assertRegex(run("decode", self.file, "op=RTU")[0], "CM RTU")

    def test_explanations_travel_in_the_capture(self):
        """The client's receive buffer is too small: both ends know, and the capture of one tells."""
        words = [RRDMA, "run", "--link", "udp", "--", "ibv_rc_pingpong", "-g", "1", "-n", "20", "-p", "18615"]
        before = servers.open_ports()
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            servers.await_server(server, before, words)
            subprocess.run([RRDMA, "run", "--link", "udp", "--pcap", self.file, "--", *words[5:], "-s", "64", "localhost"], capture_output=True, timeout=60)
        finally:
            server.kill()
            server.wait()
        shown, _ = run("decode", self.file)
        self.assertRegex(shown, r"# explain: QP 0x[0-9a-f]{6}: ibv_post_\w+: .* failed with status \d+")
        self.assertIn("# explain:", run("decode", self.file, "errors")[0])

    def hello(self, address, capture=()):
        """One call of the example, without its server."""
        done = subprocess.run([RRDMA, "run", *capture, "--", HELLO, "call", address, "world"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.stdout, "hello, world\n", done.stderr)

    def test_rpc_methods_have_their_names(self):
        """Packets contain only their hashes. The client names what it calls, the server what it serves, also to captures that begin later."""
        if not os.path.exists(HELLO):
            self.skipTest("the examples are not built")
        server = subprocess.Popen([RRDMA, "run", "--", HELLO, "serve", "10.9.0.1:18626"], stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn("listening", server.stdout.readline())
            self.hello("10.9.0.1:18626", ("--pcap", self.file))
            shown, _ = run("decode", self.file)
            self.assertRegex(shown, r"rpc CALL 0x[0-9a-f]{8} Greeter/greet, 5 bytes")
            self.assertNotIn("rpc method", shown, "the names are no lines of their own")
            os.unlink(self.file)
            recorder = subprocess.Popen([RRDMA, "capture", "--pid", str(server.pid), self.file], stderr=subprocess.PIPE, text=True)
            self.assertIn("Capturing", recorder.stderr.readline())
            self.hello("10.9.0.1:18626")
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=20)
            self.assertRegex(run("decode", "--rpc", self.file)[0], r"rpc CALL 0x[0-9a-f]{8} Greeter/greet, 5 bytes")
        finally:
            server.kill()
            server.communicate()

    def test_tshark_reads_it(self):
        with PingPong(port=18611):
            self.both_run()
            seconds = 0.1
            run("capture", "--seconds", seconds, self.file)
            while os.path.getsize(self.file) < 500_000:  # the machine may be busy
                seconds *= 2
                run("capture", "--seconds", seconds, self.file)
        done = subprocess.run(["tshark", "-r", self.file, "-c", "50", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed"],
                              capture_output=True, text=True)
        if done.returncode == 127:
            self.skipTest("no tshark")
        rows = done.stdout.splitlines()
        self.assertEqual(len(rows), 50, done.stderr)
        for row in rows:
            opcode, malformed = (row.split("\t") + [""])[:2]
            self.assertRegex(opcode, r"^\d+$")
            self.assertEqual(malformed, "")

    def test_one_sided_operations_become_packets(self):
        words = [RRDMA, "run", "--", "ib_write_bw", "-x", "1", "-D", "60", "-F", "-s", "65536", "-p", "18612"]
        before = servers.open_ports()
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        servers.await_server(server, before, words)
        client = subprocess.Popen(words + ["localhost"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def direct():
                return sum(p["counters"].get("direct_operations", 0) for p in run_json("stat", "--json")["processes"])
            surroundings.wait_for(lambda: direct() > 0)
            # Record only the target. The initiator must still send packets.
            _, said = run("capture", "-c", 100, "--pid", server.pid, self.file)
            self.assertIn("Capturing 1 program ", said)
            after = direct()
            surroundings.wait_for(lambda: direct() > after)  # and directly again afterwards
        finally:
            for process in (client, server):
                process.kill()
                process.wait()
        self.assertIn("WRITE", run("decode", self.file)[0])

    def test_nothing_is_lost_or_changed_by_captures(self):
        """Long messages and one-sided operations with checked contents, while captures start and stop."""
        folder = sys.argv[2]
        captures = 0
        while captures < 3:
            before = servers.open_ports()
            words = [RRDMA, "run", "--", f"{folder}/rdma_server", "10.9.0.1", "rrdma0", "18617", "--clients", "3"]
            server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            servers.await_server(server, before, words)
            clients = [subprocess.Popen([RRDMA, "run", "--", f"{folder}/rdma_client", "10.9.0.1", "rrdma0", "18617", "--mode", mode, "--size", "150001",
                                         "--rounds", "400"], stdout=subprocess.PIPE, text=True) for mode in ("send", "write", "read")]
            while any(client.poll() is None for client in clients):
                captures += subprocess.run([RRDMA, "capture", "--seconds", "0.1", "/dev/null"], capture_output=True).returncode == 0
            for client in clients:
                self.assertIn("verified every byte", client.communicate(timeout=60)[0])
                self.assertEqual(client.returncode, 0)
            self.assertEqual(server.wait(30), 0)

    def test_a_program_that_starts_meanwhile(self):
        with PingPong(*SLOWLY, port=18613):
            self.both_run()
            capture = subprocess.Popen([RRDMA, "capture", self.file], stderr=subprocess.PIPE, text=True)
            self.assertIn("Ctrl-C ends it", capture.stderr.readline())
            with PingPong(port=18614, iterations=50) as late:
                late.client.wait(20)
                numbers = {late.client.pid, late.server.pid}
                self.assertEqual(len(numbers), 2)
            capture.send_signal(signal.SIGINT)
            self.assertIn("bytes written", capture.communicate(timeout=10)[1])
            self.assertEqual(capture.returncode, -signal.SIGINT)
        flows = {packet["bth"]["destination_qp"] for packet in map(json.loads, run("decode", "--json", self.file)[0].splitlines())}
        self.assertEqual(len(flows), 4)

    def test_a_tool_that_dies_ends_its_capture(self):
        with PingPong(*SLOWLY, port=18615):
            self.both_run()
            capture = subprocess.Popen([RRDMA, "capture", self.file], stderr=subprocess.PIPE, text=True)
            capture.stderr.readline()
            _, error = run("capture", self.file + "2", status=2)
            self.assertIn(f"another capture is running (process {capture.pid})", error)
            capture.kill()
            capture.communicate()
            time.sleep(0.5)
            size = os.path.getsize(self.file)
            time.sleep(0.5)
            self.assertEqual(os.path.getsize(self.file), size)
            run("capture", "--seconds", 0.2, self.file + "2")

    def packets(self, name=""):
        """The packets in a file, which must be complete."""
        return [json.loads(line) for line in run("decode", "--json", self.file + name)[0].splitlines()]

    def test_limits(self):
        with PingPong(port=18619):
            self.both_run()
            _, said = run("capture", "-c", 50, self.file)
            self.assertIn("until 50 packets", said)
            self.assertIn("50 packets, ", said)
            self.assertEqual(len(self.packets()), 50)
            os.unlink(self.file)
            _, said = run("capture", "-s", 80, "-c", 40, self.file)
            cut = [p for p in self.packets() if p["original_octets"] > 80]
            self.assertTrue(cut)
            self.assertTrue(all(p["captured_octets"] == 80 and p["verdict"] == "cut" and "psn" in p["bth"] for p in cut))
            os.unlink(self.file)
            _, said = run("capture", "-C", "64k", "-W", 3, "-c", 2000, self.file)
            self.assertRegex(said, r"2000 packets, \d+ bytes written to \d+ files in turn")
            sizes = [os.path.getsize(self.file + name) for name in ("", ".1", ".2")]
            self.assertTrue(all(0 < size <= 65536 for size in sizes), sizes)
            self.assertFalse(os.path.exists(self.file + ".3"))
            for name in ("", ".1", ".2"):
                self.assertGreater(len(self.packets(name)), 0)

    def test_standard_output(self):
        with PingPong(*SLOWLY, port=18620):
            self.both_run()
            done = subprocess.run([RRDMA, "capture", "-c", "20", "-"], capture_output=True, timeout=30)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = subprocess.run([RRDMA, "decode", "--json", "-"], input=done.stdout, capture_output=True, timeout=30)
            self.assertEqual(len(shown.stdout.splitlines()), 20)

    def test_what_is_left_out_is_counted(self):
        """A stopped tool reads nothing: programs continue, and unsent packets are reported."""
        with PingPong(port=18621) as pair:
            self.both_run()
            capture = subprocess.Popen([RRDMA, "capture", self.file], stderr=subprocess.PIPE, text=True)
            capture.stderr.readline()
            capture.send_signal(signal.SIGSTOP)
            before = sent(pair.server.pid)
            surroundings.wait_for(lambda: sent(pair.server.pid) > before + 20_000)
            capture.send_signal(signal.SIGCONT)
            capture.send_signal(signal.SIGINT)
            said = capture.communicate(timeout=20)[1]
        left_out = int(re.search(r"(\d+) packets were left out", said)[1])
        self.assertGreater(left_out, 1000)
        self.assertEqual(json.loads(run("decode", "--summary", "--json", self.file)[0])["left_out"], left_out)
        self.assertIn(f"had to leave out {left_out} more", run("decode", "--summary", self.file)[1])

    def test_limits_of_a_program_from_its_beginning(self):
        with PingPong("--pcap", self.file, "-s", "100", "-c", "30", port=18622, iterations=200) as pair:
            pair.client.wait(30)
            pair.server.wait(30)
        packets = self.packets()
        self.assertEqual(len(packets), 60)  # of each of the two
        self.assertTrue(all(p["captured_octets"] <= 100 for p in packets))
        _, error = run("run", "-c", 3, "true", status=125)
        self.assertIn("--pcap FILE, which is missing", error)

    def test_limits_that_are_none(self):
        for words in (("-C", "nosuch"), ("-C", "3k"), ("-W", "3"), ("-c", "0"), ("-s", "x")):
            self.assertTrue(run("capture", *words, self.file, status=2)[1], words)
            self.assertFalse(os.path.exists(self.file))

    def test_mistakes(self):
        with PingPong(*SLOWLY, port=18616):
            self.both_run()
            self.assertIn("uses no RRDMA device", run("capture", "--pid", 1, self.file, status=2)[1])
            self.assertIn("cannot write", run("capture", "/nonexistent/file", status=2)[1])

    def test_nobody_yet(self):
        """Waits for the first program, as tcpdump waits for the first packet, and has its first packet."""
        time.sleep(1)
        self.assertIn("no program uses RRDMA", run("capture", "--pid", os.getpid(), self.file, status=2)[1])
        self.assertFalse(os.path.exists(self.file))
        waiting = subprocess.Popen([RRDMA, "capture", self.file], stderr=subprocess.PIPE, text=True)
        self.assertIn("Waiting for the first program", waiting.stderr.readline())
        with PingPong(port=18623, iterations=20, words=("-s", "64")) as pair:
            pair.client.wait(60)
            pair.server.wait(60)
        waiting.send_signal(signal.SIGINT)
        self.assertRegex(waiting.communicate(timeout=30)[1], r"\d+ packets, ")
        self.assertEqual(len(sends(self.file)), 40)  # 20 each way
        self.assertRegex(run("capture", "--seconds", "0.2", self.file)[1], "0 packets, ")

    def test_a_second_run_replaces_the_first(self):
        def packets():
            return len(sends(self.file))
        for options, count in (((), 20), ((), 20), (("--append",), 40)):
            with PingPong("--pcap", self.file, *options, port=18624, iterations=10, both=False, words=("-s", "64")) as pair:
                pair.client.wait(60)
                pair.server.wait(60)
            self.assertEqual(packets(), count, options)

    def test_programs_of_one_run_share_a_file(self):
        """The second program must not empty what the first one is writing."""
        with PingPong("--pcap", self.file, port=18625, iterations=10, words=("-s", "64")) as pair:
            pair.client.wait(60)
            pair.server.wait(60)
        self.assertEqual(len(sends(self.file)), 20)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
