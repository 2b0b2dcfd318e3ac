# Tests each kind of fault in a program; most are injected while it runs. Arguments: the command, a program that
# reports the state of its queue pair (watched.cc), one that ends a connection (timewait.cc).
import pathlib
import re
import subprocess
import sys
import unittest

import command
import surroundings
from command import RRDMA, run, run_json
from running import Running

RETRIES_EXCEEDED = 12
ERROR_STATE = "state 6"
CQ_ERR, QP_FATAL, PORT_ACTIVE, PORT_ERR, SRQ_LIMIT, GID_CHANGE = 0, 1, 9, 10, 15, 18


class Watched:
    """The program; say() returns its answer to a command."""

    def __init__(self, *options):
        self.process = subprocess.Popen([RRDMA, "run", *options, "--", sys.argv[2], "rrdma0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.events = []
        self.qpn = int(self.line("ready").split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        run("fault", "clear", "all", status=None)

    def line(self, begin):
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"the program ended before it said '{begin}'")
            if line.startswith("event "):
                self.events.append(int(line.split()[1]))
            if line.startswith(begin):
                return line.strip()

    def say(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.line("connected" if words == "connect" else words.split()[0])

    def exchange(self, words):
        """The status and the milliseconds of a write or a send."""
        _, status, time = self.say(words).split()
        return int(status), int(time)

    def await_event(self, number):
        while number not in self.events:
            self.line("event")

    def counter(self, name):
        return sum(process["counters"].get(name, 0) for process in run_json("stat", "--json")["processes"]
                   if process["pid"] == self.process.pid)


def set_fault(*words):
    """Returns when the fault was injected into the program."""
    run("fault", "set", *words)
    surroundings.wait_for(lambda: all(rule["injected"] for rule in run_json("fault", "list", "--json")), 20)


class Packets(unittest.TestCase):
    def dead_until_cleared(self, *fault):
        """No packet gets through. After the fault, everything works again."""
        with Watched() as program:
            self.assertEqual(program.exchange("write")[0], 0)
            set_fault(*fault)
            self.assertEqual(program.exchange("write")[0], RETRIES_EXCEEDED)
            self.assertGreater(program.counter("faults_blocked"), 0)
            run("fault", "clear", "all")
            program.say("connect")
            self.assertEqual(program.exchange("write 5000")[0], 0)

    def test_a_frozen_nic(self):
        self.dead_until_cleared("freeze")

    def test_a_partition_from_one_peer(self):
        self.dead_until_cleared("net=drop=100%", "--peer", "127.0.0.1")

    def test_a_partition_in_one_direction(self):
        self.dead_until_cleared("net=drop=100%", "--direction", "in")
        self.dead_until_cleared("net=drop=100%", "--direction", "out")

    def test_other_peers_devices_and_queue_pairs_are_spared(self):
        with Watched() as program:
            run("fault", "set", "net=drop=100%", "--peer", "10.1.2.3")
            run("fault", "set", "port=down", "--device", "rrdma7")
            run("fault", "set", "qp=error", "--qp", program.qpn + 1)
            run("fault", "set", "verb=ibv_post_send:EIO", "--pid", program.process.pid + 1)
            self.assertEqual(program.exchange("write 5000")[0], 0)
            self.assertEqual(program.events, [])

    def test_loss_while_it_runs(self):
        with Watched() as program:
            for direction in ("out", "in"):
                before = program.counter("faults_dropped")
                set_fault("net=drop=20%,seed=3", "--direction", direction)
                self.assertEqual(program.exchange("write 100000")[0], 0)  # retransmitted
                surroundings.wait_for(lambda known=before: program.counter("faults_dropped") > known, 20)
                run("fault", "clear", "all")

    def test_a_black_hole_for_large_packets(self):
        for direction in ("out", "in"):
            with Watched() as program:
                set_fault("net=mtu=512", "--direction", direction)
                self.assertEqual(program.exchange("write 512")[0], 0)
                self.assertEqual(program.exchange("write 513")[0], RETRIES_EXCEEDED)
                self.assertGreater(program.counter("faults_too_long"), 0)

    def test_a_slow_cable(self):
        """100 Mb/s: a million bytes take at least 80 ms, slightly more with headers."""
        for direction in ("out", "in"):
            with Watched() as program:
                set_fault("net=rate=100M", "--direction", direction)
                status, time = program.exchange("write 1000000")
                self.assertEqual(status, 0)
                self.assertGreaterEqual(time, 80)
                self.assertGreater(program.counter("faults_delayed"), 900)

    def test_the_manual_page_describes_every_fault(self):
        page = (pathlib.Path(__file__).resolve().parents[3] / "docs/man/rrdma-fault.1").read_text()
        plain = re.sub(r"\\f\w|\\-|[\\\" ,]", lambda found: "-" if found.group(0) == "\\-" else "", page)
        for form in run_json("fault", "words", "--json")["faults"]:
            self.assertIn(form, plain, form)

    def test_a_long_way(self):
        """Delays packets that are sent, received, or both; measured as a round trip."""
        for direction, least in (("out", 6), ("in", 6), ("both", 12)):
            with Watched() as program:
                set_fault("net=delay=3ms", "--direction", direction)
                status, time = program.exchange("write")
                self.assertEqual(status, 0)
                self.assertGreaterEqual(time, least)

    def test_mistakes(self):
        for fault, word in (("net=rate=fast", "is no rate"), ("net=mtu=0", "is no number"), ("gid=add:x", "is no IP address"),
                            ("port=speed:0", "is no speed of a port"), ("cq=delay:soon", "is no time"), ("gid=x", "write gid=lost, gid=add:ADDRESS"),
                            ("cq=x", "write cq=overrun, cq=delay:TIME."), ("cm=x", "write cm=drop:MESSAGE")):
            self.assertIn(word, run("fault", "set", fault, status=2)[1])
        self.assertIn("is no direction", run("fault", "set", "net=drop=1%", "--direction", "up", status=2)[1])
        self.assertIn("'direction' means nothing to port=down", run("fault", "set", "port=down", "--direction", "in", status=2)[1])


class Port(unittest.TestCase):
    def test_addresses(self):
        with Watched() as program:
            own = program.say("gids")
            for fault, shown in (("gid=lost", "gids"), ("gid=add:192.0.2.7", own + " ::ffff:192.0.2.7"), ("gid=change:192.0.2.8", None)):
                program.events.clear()
                run("fault", "set", fault)
                program.await_event(GID_CHANGE)
                said = program.say("gids")
                self.assertEqual(said, shown or re.sub(r"\S+$", "::ffff:192.0.2.8", own))
                program.events.clear()
                run("fault", "clear", "all")
                program.await_event(GID_CHANGE)
                self.assertEqual(program.say("gids"), own)

    def test_another_speed(self):
        with Watched("--device", "rrdma0:speed=100G") as program:
            before = program.say("speed")
            run("fault", "set", "port=speed:25G")
            program.await_event(PORT_ACTIVE)
            self.assertEqual(program.events, [PORT_ERR, PORT_ACTIVE])
            self.assertNotEqual(program.say("speed"), before)
            run("fault", "clear", "all")
            while program.events != [PORT_ERR, PORT_ACTIVE] * 2:
                program.line("event")
            self.assertEqual(program.say("speed"), before)


class Queues(unittest.TestCase):
    def test_a_queue_pair_fails(self):
        with Watched() as program:
            run("fault", "set", "qp=error", "--qp", program.qpn)
            program.await_event(QP_FATAL)
            self.assertEqual(program.say("state"), ERROR_STATE)
            program.say("connect")
            self.assertEqual(program.exchange("write")[0], 0)

    def test_a_completion_queue_is_overrun(self):
        with Watched() as program:
            run("fault", "set", "cq=overrun")
            program.await_event(CQ_ERR)
            self.assertEqual(program.say("state"), ERROR_STATE)

    def test_a_shared_receive_queue_is_at_its_limit(self):
        with Watched() as program:
            run("fault", "set", "srq=limit")
            program.await_event(SRQ_LIMIT)
            self.assertEqual(program.exchange("write")[0], 0)

    def test_receiver_not_ready_for_a_while(self):
        with Watched() as program:
            self.assertEqual(program.exchange("send")[0], 0)
            set_fault("qp=rnr", "--for", "700ms")
            status, time = program.exchange("send 3000")
            self.assertEqual(status, 0)
            self.assertGreater(time, 100)
            self.assertGreater(program.counter("rnr_naks_sent"), 1)
            surroundings.wait_for(lambda: program.exchange("send")[1] < 600)

    def test_receiver_not_ready_from_the_beginning(self):
        with Watched("--faults", "qp=rnr for=1s") as program:
            self.assertEqual(program.exchange("send")[0], 0)
            self.assertGreater(program.counter("rnr_naks_sent"), 0)

    def test_completions_come_late(self):
        with Watched() as program:
            set_fault("cq=delay:300ms")
            for words in ("write", "write 5000"):
                status, time = program.exchange(words)
                self.assertEqual(status, 0)
                self.assertGreaterEqual(time, 300)
            run("fault", "clear", "all")
            surroundings.wait_for(lambda: program.exchange("write")[1] < 300)


class ConnectionManager(unittest.TestCase):
    def ring(self, *options):
        done = subprocess.run([RRDMA, "run", *options, "--", "rping", "-c", "-a", "127.0.0.1", "-C", "2"], capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_from_a_plan(self):
        with Running("rping", "-s", "-P", "-a", "127.0.0.1"):
            surroundings.wait_for(lambda: self.ring()[0] == 0, 30)
            status, text = self.ring("--faults", "cm=reject:28 count=1")
            self.assertNotEqual(status, 0)
            self.assertIn("REJECTED", text)
            self.assertEqual(self.ring()[0], 0)  # the fault lasted only for that program's lifetime
            self.assertEqual(run_json("fault", "list", "--json"), [])

    def test_stale_because_of_timewait(self):
        with Running("rping", "-s", "-P", "-a", "127.0.0.1"):
            surroundings.wait_for(lambda: self.ring()[0] == 0, 30)
            status, text = self.ring("--faults", "cm=timewait count=1")
            self.assertNotEqual(status, 0)
            self.assertRegex(text, r"REJECTED, error 10\b")

    def stay(self, *options):
        """The result of a second connect from the same queue pair, and the milliseconds in TIMEWAIT."""
        done = subprocess.run([RRDMA, "run", *options, "--", sys.argv[3], "127.0.0.1"], capture_output=True, text=True, timeout=60)
        again, time = re.fullmatch(r"called again: (.*)\ntimewait (\d+)\n", done.stdout).groups()
        return again, int(time)

    def test_timewait_takes_long(self):
        again, usual = self.stay()
        self.assertEqual(again, "RDMA_CM_EVENT_CONNECT_REQUEST 0")
        again, long = self.stay("--faults", f"cm=timewait:{usual + 1000}ms")
        self.assertEqual(again, "RDMA_CM_EVENT_REJECTED 10")
        self.assertGreaterEqual(long, usual + 1000)

    def test_another_hardware_address(self):
        with Running("rping", "-s", "-P", "-a", "127.0.0.1") as server:
            surroundings.wait_for(lambda: self.ring()[0] == 0, 30)
            run("fault", "set", "cm=address")
            server.await_text("ADDR_CHANGE")
            run("fault", "clear", "all")


if __name__ == "__main__":
    surroundings.enter()
    command.main()
