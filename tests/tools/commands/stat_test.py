# Tests `rrdma stat`: counters of running programs, and its output without programs.
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json
from traffic import PingPong


def moving(options=()):
    """The processes, once both have sent something."""
    def seen():
        processes = run_json("stat", "--json", *options)["processes"]
        return processes if len(processes) == 2 and all(p["counters"].get("messages_sent", 0) > 0 for p in processes) else None
    return surroundings.wait_for(seen)


class Nobody(unittest.TestCase):
    def test_without_a_daemon(self):
        time.sleep(1)  # the daemon of an earlier test ends after 0.2 s without a query
        self.assertEqual(run_json("stat", "--json"), {"daemon": None, "processes": [], "devices": [], "addresses": [], "other_daemons": []})
        self.assertIn("no program uses RRDMA", run("stat")[0])
        self.assertIn("uses no RRDMA device", run("stat", "--pid", 1, status=1)[0])
        self.assertIn("No queue pair 0x010001", run("stat", "--qp", "0x10001", status=1)[0])
        self.assertIn("No program uses rrdma0", run("stat", "--device", "rrdma0")[0])


class OtherUsers(unittest.TestCase):
    NOBODY = 65534

    def test_whose_daemons_there_are(self):
        rrdmad = os.path.join(os.path.dirname(RRDMA), "rrdmad")
        as_nobody = {"user": self.NOBODY, "group": self.NOBODY, "extra_groups": []}
        try:
            subprocess.run([rrdmad, "--help"], check=True, capture_output=True, **as_nobody)
        except (OSError, subprocess.SubprocessError):
            self.skipTest("there is one user here, or the build is hidden from others")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            daemon = subprocess.Popen([rrdmad, "--stay"], env={**os.environ, "XDG_RUNTIME_DIR": folder}, stderr=subprocess.DEVNULL, **as_nobody)
            try:
                surroundings.wait_for(lambda: run_json("stat", "--json")["other_daemons"] == [{"uid": self.NOBODY}], 20)
                shown, _ = run("stat")
                self.assertIn("No program of this user uses RRDMA", shown)
                self.assertRegex(shown, rf"Daemons of other users: (nobody \()?uid {self.NOBODY}\)?\. .*as that user")
                self.assertEqual(run_json("stat", "--json")["daemon"], None)
            finally:
                daemon.terminate()
                daemon.wait(10)
        surroundings.wait_for(lambda: "Daemons of other users" not in run("stat")[0], 20)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = PingPong().__enter__()
        moving()

    @classmethod
    def tearDownClass(cls):
        cls.pair.__exit__()

    def test_processes(self):
        seen = run_json("stat", "--json")
        self.assertTrue(seen["daemon"]["ipv4"])
        self.assertEqual({p["pid"] for p in seen["processes"]}, self.pair.pids())
        for process in seen["processes"]:
            self.assertEqual(process["program"], "ibv_rc_pingpong")
            self.assertEqual(process["devices"], "rrdma0 on eth0")
            (qp,) = process["queue_pairs"]
            self.assertEqual((qp["type"], qp["state"], qp["link"], qp["peer"]), ("RC", "RTS", "shm", "10.9.0.1"))
            self.assertGreater(qp["sent_messages"], 0)
            self.assertGreater(process["counters"]["octets_sent"], process["counters"]["messages_sent"])
        first, second = (p["queue_pairs"][0] for p in seen["processes"])
        self.assertEqual((first["qpn"], first["peer_qpn"]), (second["peer_qpn"], second["qpn"]))

    def test_counters_go_up(self):
        before = {p["pid"]: p["counters"]["messages_sent"] for p in run_json("stat", "--json")["processes"]}
        time.sleep(0.5)
        for process in run_json("stat", "--json")["processes"]:
            self.assertGreater(process["counters"]["messages_sent"], before[process["pid"]])

    def test_table(self):
        output, _ = run("stat")
        self.assertRegex(output, r"Daemon pid \d+, up \d+s, network IPv4 and IPv6, 2 of 5183 slots held")
        self.assertEqual(len(re.findall(r"^ *\d+ +ibv_rc_pingpong +1 ", output, re.M)), 2, output)
        self.assertNotIn("\x1b", output)

    def test_one_process(self):
        pid = self.pair.server.pid
        output, _ = run("stat", "--pid", pid)
        self.assertRegex(output, rf"ibv_rc_pingpong \(pid {pid}\) on rrdma0 on eth0")
        self.assertRegex(output, r"messages_sent +\d+")
        self.assertNotIn("dropped_pkey", output)
        self.assertRegex(run("stat", "--all", "--pid", pid)[0], r"dropped_pkey +0\n")
        (process,) = run_json("stat", "--json", "--pid", pid)["processes"]
        self.assertEqual(process["pid"], pid)

    def test_one_device(self):
        self.assertIn("rrdma0: 2 programs use it now", run("stat", "--device", "rrdma0")[0])
        self.assertIn("No program uses rrdma", run("stat", "--device", "rrdma")[0])
        seen = run_json("stat", "--json", "--device", "rrdma0")
        self.assertGreater(seen["device"]["counters"]["messages_sent"], 0)
        self.assertEqual({qp["device"] for p in seen["processes"] for qp in p["queue_pairs"]}, {"rrdma0"})
        (own,) = run_json("stat", "--json", "--pid", self.pair.server.pid)["devices"]
        self.assertLess(own["counters"]["messages_sent"], run_json("stat", "--json", "--device", "rrdma0")["device"]["counters"]["messages_sent"])

    def test_one_queue_pair(self):
        qpn = run_json("stat", "--json")["processes"][0]["queue_pairs"][0]["qpn"]
        output, _ = run("stat", "--qp", hex(qpn))
        self.assertRegex(output, r"RC, RTS, over shm, path MTU 1024, peer 10\.9\.0\.1 0x")
        self.assertRegex(output, r"sent_messages +[1-9]")
        self.assertEqual(len(re.findall(r"^ *\d+ +0x", run("stat", "--qps")[0], re.M)), 2)

    def test_watch_in_a_pipe(self):
        output, _ = run("stat", "--watch", 0.3, "--count", 3)
        self.assertEqual(output.count("Daemon pid"), 3)
        self.assertEqual(output.count("TX/s"), 2)
        self.assertNotIn("\x1b", output)
        rate = re.search(r"ibv_rc_pingpong +1 +([\d.]+[kM]?)", output.split("\n\n")[2])
        self.assertGreater(float(rate[1].rstrip("kM")), 0)
        lines, _ = run("stat", "--watch", 0.2, "--count", 2, "--json")
        self.assertEqual(len([json.loads(line)["processes"] for line in lines.splitlines()]), 2)

    def test_watch_ends_by_the_signal(self):
        watcher = subprocess.Popen([RRDMA, "stat", "--watch", "0.2"], stdout=subprocess.PIPE)
        watcher.stdout.readline()
        watcher.send_signal(2)
        watcher.communicate(timeout=10)
        self.assertEqual(watcher.returncode, -2)

    def test_watch_on_a_terminal_repaints(self):
        master, slave = pty.openpty()
        watcher = subprocess.Popen([RRDMA, "stat", "--watch", "0.2", "--count", "3"], stdout=slave,
                                   env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        shown = b""
        while select.select([master], [], [], 10)[0]:
            try:
                shown += os.read(master, 4096)
            except OSError:
                break
        self.assertEqual(watcher.wait(10), 0)
        self.assertEqual(shown.count(b"\x1b[H\x1b[2J"), 3)
        self.assertIn(b"\x1b[1mPID", shown)


class Troubles(unittest.TestCase):
    """Recovery counters of a queue pair on a lossy network, and with a peer that is silent for a while."""

    def test_of_a_queue_pair(self):
        with PingPong("--link", "udp", "--fault", "drop=5%,seed=3") as pair:
            def troubled(*names):
                qps = [qp for p in run_json("stat", "--json")["processes"] if p["pid"] == pair.client.pid for qp in p["queue_pairs"]]
                return next((qp for qp in qps if all(qp[name] > 0 for name in names)), None)
            surroundings.wait_for(lambda: troubled("packets_resent", "packets_lost", "probes_sent"))
            # The timeout of the programs is 14: 67 ms, eight times.
            pair.server.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            pair.server.send_signal(signal.SIGCONT)
            qp = surroundings.wait_for(lambda: troubled("ack_timeouts"))
            shown, _ = run("stat", "--qp", qp["qpn"])
            for name in ("packets_resent", "ack_timeouts", "packets_lost", "probes_sent"):
                self.assertRegex(shown, rf"(?m)^ *{name} +[1-9]")


class Direct(unittest.TestCase):
    def test_octets_that_the_initiator_copies_count(self):
        for program, counter in (("ib_write_bw", "octets_sent"), ("ib_read_bw", "octets_received")):
            words = [RRDMA, "run", "--", program, "-x", "1", "-D", "60", "-F", "-s", "65536", "-p", "18609"]
            before = servers.open_ports()
            server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            servers.await_server(server, before, words)
            client = subprocess.Popen(words + ["localhost"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                def copied():
                    (process,) = [p for p in run_json("stat", "--json")["processes"] if p["pid"] == client.pid] or [None]
                    return process if process and process["counters"].get("direct_octets", 0) > 1_000_000 else None
                process = surroundings.wait_for(copied)
                self.assertGreaterEqual(process["counters"][counter], process["counters"]["direct_octets"], program)
                (qp,) = process["queue_pairs"]
                self.assertGreater(qp["sent_octets" if counter == "octets_sent" else "received_octets"], 1_000_000)
            finally:
                for process in (client, server):
                    process.kill()
                    process.wait()


class Faults(unittest.TestCase):
    def test_retransmissions_are_shown(self):
        with PingPong("--link", "udp", "--fault", "drop=5%,seed=3", port=18601):
            surroundings.wait_for(lambda: sum(p["counters"].get("packets_resent", 0) for p in run_json("stat", "--json")["processes"]) > 0, 20)
            self.assertTrue(all(p["queue_pairs"][0]["link"] == "udp" for p in run_json("stat", "--json")["processes"]))


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
