# Tests the counters of a device in `rrdma stat` and in /sys. They count exactly the traffic of that device's
# programs, and survive the end of a program. Argument: the command.
import os
import subprocess
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json

DEVICES = ("--devices", "3")
SIZE = 4096
MTU = 1024
ROUNDS = 25


def counters(device):
    """The counters of one device; empty if it was never used."""
    found = [d["counters"] for d in run_json("stat", "--json")["devices"] if d["device"] == device]
    return found[0] if found else {}


def carried(device):
    return {name: counters(device).get(name, 0) for name in ("octets_sent", "octets_received", "messages_sent", "messages_received")}


def file_of(device, name, folder="counters"):
    path = f"/sys/class/infiniband/{device}/ports/1/{folder}/{name}"
    done = subprocess.run([RRDMA, "run", *DEVICES, "--", "cat", path], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def exchange(device, *options):
    """ibv_rc_pingpong against itself: each of the two sends and receives ROUNDS messages of SIZE bytes."""
    words = [RRDMA, "run", *DEVICES, *options, "--", "ibv_rc_pingpong", "-d", device, "-g", "0", "-s", str(SIZE), "-n", str(ROUNDS)]
    before = servers.open_ports()
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        servers.await_server(server, before, words)
        client = subprocess.run(words + ["localhost"], capture_output=True, text=True, timeout=100)
        assert client.returncode == 0, client.stderr
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()


class Counters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The counters exist as long as the daemon.
        cls.daemon = subprocess.Popen([os.path.join(os.path.dirname(RRDMA), "rrdmad"), "--stay"], stderr=subprocess.DEVNULL)
        surroundings.wait_for(lambda: run_json("stat", "--json")["daemon"], 30)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.terminate()
        cls.daemon.wait(30)

    def await_end(self):
        """Waits until the daemon knows that no program uses a device."""
        surroundings.wait_for(lambda: not run_json("stat", "--json")["processes"], 30)

    def test_count_what_programs_of_the_device_carried(self):
        for options in ((), ("--link", "udp")):
            before, other, resent = carried("rrdma1"), carried("rrdma2"), counters("rrdma1").get("packets_resent", 0)
            exchange("rrdma1", *options)
            self.await_end()
            after = carried("rrdma1")
            grown = {name: after[name] - before[name] for name in after}
            each = {"octets_sent": 2 * SIZE * ROUNDS, "octets_received": 2 * SIZE * ROUNDS,
                    "messages_sent": 2 * ROUNDS, "messages_received": 2 * ROUNDS}
            # Over UDP, a busy machine may answer so late that packets are retransmitted, and those count as sent.
            again = grown["octets_sent"] - each["octets_sent"]
            self.assertIn(again, range(MTU * (counters("rrdma1")["packets_resent"] - resent) + 1), options)
            self.assertTrue(again == 0 or options, "nothing is lost in shared memory")
            each["octets_sent"] += again
            self.assertEqual(grown, each, options)
            self.assertEqual(carried("rrdma2"), other, "the other device has carried nothing")

    def test_files(self):
        exchange("rrdma1")
        self.await_end()
        words, packets, other = file_of("rrdma1", "port_xmit_data"), file_of("rrdma1", "sent_pkts", "hw_counters"), file_of("rrdma2", "port_xmit_data")
        self.assertEqual(words, counters("rrdma1")["octets_sent"] // 4)
        self.assertEqual(packets, counters("rrdma1")["packets_sent"])
        self.assertEqual(file_of("rrdma1", "port_xmit_data"), words, "nothing was sent meanwhile")
        exchange("rrdma1")
        self.await_end()
        self.assertEqual(file_of("rrdma1", "port_xmit_data"), words + 2 * SIZE * ROUNDS // 4)
        self.assertGreater(file_of("rrdma1", "sent_pkts", "hw_counters"), packets)
        self.assertEqual(file_of("rrdma2", "port_xmit_data"), other)

    def test_files_as_programs_read_them(self):
        exchange("rrdma1")
        self.await_end()
        folder = "/sys/class/infiniband/rrdma1/ports/1"
        script = f"cd / && grep -H . {folder}/counters/* && ls {folder}/hw_counters && cat {folder}/hw_counters/lifespan"
        done = subprocess.run([RRDMA, "run", *DEVICES, "--", "sh", "-c", script], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{folder}/counters/port_rcv_data:{counters('rrdma1')['octets_received'] // 4}\n", done.stdout)
        self.assertIn("counters/symbol_error:0\n", done.stdout)
        self.assertIn("\nsent_pkts\n", done.stdout)
        self.assertTrue(done.stdout.endswith("\n100\n"))

    def test_text(self):
        exchange("rrdma1")
        self.await_end()
        octets = counters("rrdma1")["octets_sent"]
        self.assertRegex(run("stat")[0], rf"(?m)^rrdma1 +0 .* {octets} +\d+$")
        shown, _ = run("stat", "--device", "rrdma1")
        self.assertIn("rrdma1: 0 programs use it now; since the daemon began", shown)
        self.assertRegex(shown, rf"(?m)^octets_sent +{octets}$")
        seen = run_json("stat", "--json", "--device", "rrdma1")
        self.assertEqual(seen["device"]["counters"]["octets_sent"], octets)
        self.assertEqual([d["device"] for d in seen["devices"]], ["rrdma1"])
        self.assertIn("No program uses rrdma9 now", run("stat", "--device", "rrdma9")[0])


class WithoutADaemon(unittest.TestCase):
    def test_files_say_zero(self):
        surroundings.wait_for(lambda: run_json("stat", "--json")["daemon"] is None, 30)
        self.assertEqual(file_of("rrdma0", "port_xmit_data"), 0)
        self.assertIsNone(run_json("stat", "--json")["daemon"], "to read a file starts none")


if __name__ == "__main__":
    surroundings.enter()
    command.main()
