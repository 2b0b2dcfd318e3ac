# Tests injected faults as programs see them. Arguments: the command, a program that calls every verb (injected.cc).
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import command
import surroundings
from command import RRDMA, run, run_json
from running import Running
from traffic import PingPong

INJECTED = sys.argv[2] if len(sys.argv) > 2 else ""


def injected(faults, *words, status=0):
    options = [word for fault in faults for word in ("--faults", fault)]
    done = subprocess.run([RRDMA, "run", *options, "--", INJECTED, "rrdma0", *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == status, (faults, done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


def talking():
    """Messages sent by each end of ping-pong, by process; None until all four have sent some."""
    sent = {process["pid"]: process["counters"].get("messages_sent", 0) for process in run_json("stat", "--json")["processes"]
            if process["program"] == "ibv_rc_pingpong"}
    return sent if len(sent) == 4 and all(sent.values()) else None


class Verbs(unittest.TestCase):
    def test_without_faults_nothing_fails(self):
        self.assertEqual(injected([]), ["done"])

    def test_each_verb_fails_with_each_errno(self):
        verbs = run_json("fault", "words", "--json")["functions"]
        for error in ("ENOMEM", "EAGAIN", "EIO", "ETIMEDOUT"):
            said = injected([f"verb={verb}:{error}" for verb in verbs])
            self.assertEqual(sorted(said), sorted([f"{verb} {error}" for verb in verbs] + ["done"]))

    def test_the_nth_call_and_no_other(self):
        self.assertEqual(injected(["verb=ibv_query_gid:EIO:2"], status=1)[-1], "FAILED ibv_query_gid EIO")
        self.assertEqual(injected(["verb=ibv_modify_qp:EIO:2"], status=1)[-1], "FAILED to RTR EIO")

    def test_only_on_the_device_that_is_named(self):
        self.assertEqual(injected(["verb=ibv_reg_mr:EIO device=rrdma1"]), ["done"])
        self.assertEqual(injected(["verb=ibv_reg_mr:EIO device=rrdma0"]), ["ibv_reg_mr EIO", "done"])

    def test_a_call_that_takes_long(self):
        begin = time.monotonic()
        self.assertEqual(injected(["slow=ibv_reg_mr:400ms"]), ["done"])
        self.assertGreater(time.monotonic() - begin, 0.4)

    def test_each_completion_status(self):
        statuses = run_json("fault", "words", "--json")["statuses"]
        said = injected([f"status={status}:{number}" for number, status in enumerate(statuses, 1)], str(len(statuses) + 1))
        self.assertEqual(said, [f"status {number} state 6" for number in range(1, len(statuses) + 1)] + ["status 0 state 3", "done"])

    def test_the_same_plan_gives_the_same_faults(self):
        plan = ["verb=ibv_query_gid:EIO every=3 count=2", "status=REM_OP_ERR nth=2 every=3"]
        self.assertEqual(injected(plan, "9"), injected(plan, "9"))

    def test_every_strike_is_explained(self):
        injected(["verb=ibv_reg_mr:ENOMEM"])
        self.assertRegex(" ".join(run("explain")[0].split()), r"on purpose \(verb=ibv_reg_mr:ENOMEM\): call 1 of ibv_reg_mr on rrdma0 failed with ENOMEM")

    def test_every_strike_is_a_note_in_captures(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "injected.pcapng"))
            words = ["--pcap", path, "--faults", "verb=ibv_reg_mr:ENOMEM", "--faults", "status=REM_OP_ERR every=2", "--", INJECTED, "rrdma0", "6"]
            subprocess.run([RRDMA, "run", *words], capture_output=True, check=True, timeout=60)
            notes = re.findall(r"(?m)^ +- .*# (fault \d+): on purpose \((\S+)", run("decode", path)[0])
        self.assertEqual(notes, [("fault 1", "verb=ibv_reg_mr:ENOMEM):")] + [("fault 2", "status=REM_OP_ERR")] * 3)

    def test_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder, "plan.toml")
            plan.write_text('[[fault]]\nwhat = "verb=ibv_reg_mr:ENOMEM"\ndevice = "rrdma0"\n\n[[fault]]\nwhat = "verb=ibv_alloc_pd:EIO"\nnth = 1\n')
            self.assertEqual(injected([str(plan)]), ["ibv_alloc_pd EIO", "ibv_reg_mr ENOMEM", "done"])
            plan.write_text('[[fault]]\nwhat = "verb=ibv_reg_mr:ENOSUCH"\n')
            self.assertIn("plan.toml:1: 'ENOSUCH' is no errno", run("run", "--faults", plan, "--", "true", status=125)[1])
            plan.write_text("[[fault]\n")
            self.assertIn("plan.toml:1", run("run", "--faults", plan, "--", "true", status=125)[1])

    def test_mistakes(self):
        self.assertIn("is not a function that a fault can be injected into", run("run", "--faults", "verb=ibv_nonsense:EIO", "--", "true", status=125)[1])
        time.sleep(1)  # until the daemon has ended: a query would keep it running
        self.assertIn("no program uses RRDMA", run("fault", "list", status=2)[1])


class WhileProgramsRun(unittest.TestCase):
    def tearDown(self):
        run("fault", "clear", "all", status=None)

    def test_port_down_and_up(self):
        """The program is notified within 100 ms, including the command. The other device loses nothing."""
        delays = []
        with Running("ibv_asyncwatch", "-d", "rrdma1", options=("--devices", "2")) as watch, \
                PingPong("--devices", "2", "--link", "shm", gid=0, words=["-e"]), \
                PingPong("--devices", "2", "--link", "udp", gid=0, port=18601, words=["-e"]):
            watch.await_text("async event FD")
            before = surroundings.wait_for(talking)
            for flap in range(1, 6):
                begin = time.monotonic()
                run("fault", "set", "port=down", "--device", "rrdma1")
                watch.await_text(rf"(?s)(PORT_ERR.*){{{flap}}}")
                delays.append(time.monotonic() - begin)
                (rule,) = run_json("fault", "list", "--json")
                surroundings.wait_for(lambda seen=talking(): sum(seen.values()) < sum((talking() or seen).values()), 20)  # continues meanwhile
                run("fault", "clear", rule["number"])
                watch.await_text(rf"(?s)(PORT_ACTIVE.*){{{flap}}}")
            self.assertLess(min(delays), 0.1, delays)  # other load can only make it longer
            self.assertEqual(set(talking()), set(before))
            for process in run_json("stat", "--json")["processes"]:
                counters = process["counters"]
                for name in ("faults_blocked", "packets_lost", "sequence_naks_received", "error_completions"):
                    self.assertEqual(counters.get(name, 0), 0, (process["program"], name))

    def test_device_fatal(self):
        with Running("ibv_asyncwatch", "-d", "rrdma0") as watch:
            watch.await_text("async event FD")
            run("fault", "set", "device=fatal")
            watch.await_text("fatal|DEVICE_FATAL|local catastrophic")

    def test_a_peer_behind_a_port_that_is_down(self):
        """Sends to it fail, the other device continues, and new connections work after `up`."""
        def ring(address, count="20", **rest):
            return subprocess.run([RRDMA, "run", "--devices", "2", "--", "rping", "-c", "-a", address, "-C", count], capture_output=True,
                                  text=True, timeout=60, **rest).returncode
        with Running("rping", "-s", "-P", "-a", "127.0.0.1", options=("--devices", "2")), \
                Running("rping", "-s", "-P", "-a", "127.0.0.2", options=("--devices", "2")):
            for address in ("127.0.0.1", "127.0.0.2"):
                surroundings.wait_for(lambda where=address: ring(where) == 0, 30)
            run("fault", "set", "port=down", "--device", "rrdma1")
            self.assertEqual(ring("127.0.0.1"), 0)
            self.assertNotEqual(ring("127.0.0.2"), 0)
            self.assertEqual(ring("127.0.0.1"), 0)
            run("fault", "clear", "all")
            self.assertEqual(ring("127.0.0.2"), 0)

    def test_the_connection_manager(self):
        with Running("rping", "-s", "-P", "-a", "127.0.0.1"):
            def ring():
                return subprocess.run([RRDMA, "run", "--", "rping", "-c", "-a", "127.0.0.1", "-C", "2"], capture_output=True, text=True,
                                      timeout=60)
            surroundings.wait_for(lambda: ring().returncode == 0, 30)
            run("fault", "set", "cm=reject:28", "--count", "1")
            done = ring()
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("REJECTED", done.stdout + done.stderr)
            self.assertEqual(run_json("fault", "list", "--json")[0]["injected"], 1)
            self.assertEqual(ring().returncode, 0)
            run("fault", "clear", "all")
            run("fault", "set", "cm=drop:REQ", "--count", "1")
            self.assertEqual(ring().returncode, 0)  # retransmitted
            self.assertEqual(run_json("fault", "list", "--json")[0]["injected"], 1)

    def test_the_connection_manager_of_one_process(self):
        with Running("rping", "-s", "-P", "-a", "127.0.0.1") as server, Running("ibv_asyncwatch", "-d", "rrdma0") as other:
            other.await_text("async event FD")
            def ring():
                return subprocess.run([RRDMA, "run", "--", "rping", "-c", "-a", "127.0.0.1", "-C", "2"], capture_output=True, text=True,
                                      timeout=60).returncode
            surroundings.wait_for(lambda: ring() == 0, 30)
            run("fault", "set", "cm=reject:28", "--pid", other.process.pid)
            self.assertEqual(ring(), 0)
            self.assertEqual(run_json("fault", "list", "--json")[0]["injected"], 0)
            run("fault", "clear", "all")
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "out.pcapng")
                capture = subprocess.Popen([RRDMA, "capture", "--pid", str(server.process.pid), file], stderr=subprocess.PIPE, text=True)
                capture.stderr.readline()
                run("fault", "set", "cm=reject:28", "--pid", server.process.pid)
                self.assertNotEqual(ring(), 0)
                said = "a REQ was answered with a REJ of reason 28"
                surroundings.wait_for(lambda: said in " ".join(run("explain", "--pid", server.process.pid)[0].split()))
                self.assertNotIn(said, " ".join(run("explain", "--pid", other.process.pid)[0].split()))
                capture.send_signal(signal.SIGINT)
                capture.communicate(timeout=30)
                self.assertIn(said, run("decode", file)[0])

    def test_before_the_first_program(self):
        """The command waits for a program, which meets the fault from its first call."""
        time.sleep(1)
        self.assertIn("no program uses RRDMA", run("fault", "set", "port=down", "--pid", "1", status=2)[1])
        waiting = subprocess.Popen([RRDMA, "fault", "set", "verb=ibv_reg_mr:ENOMEM", "count=1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.assertIn("fault 1 set", waiting.stdout.readline())
        self.assertIn("waiting for one", waiting.stderr.readline())
        self.assertIn("ibv_reg_mr ENOMEM", "\n".join(injected([], "6")))
        self.assertEqual(waiting.wait(30), 0)

    def test_counts_outlive_the_program(self):
        with Running("ibv_asyncwatch", "-d", "rrdma0") as watch:  # keeps the daemon
            watch.await_text("async event FD")
            run("fault", "set", "verb=ibv_reg_mr:ENOMEM", "nth=1")
            injected([], "6")
            (rule,) = run_json("fault", "list", "--json")
            self.assertEqual(rule["injected"], 1, "the program has ended")
            run("fault", "clear", "all")
            run("fault", "set", "verb=ibv_reg_mr:ENOMEM", "nth=1")
            (rule,) = run_json("fault", "list", "--json")
            self.assertEqual(rule["injected"], 0, "another fault")

    def test_a_mistake_is_told_without_a_program(self):
        self.assertIn("is no fault", run("fault", "set", "explode", status=2)[1])

    def test_mistakes(self):
        with Running("ibv_asyncwatch", "-d", "rrdma0") as watch:
            watch.await_text("async event FD")
            self.assertIn("is no fault", run("fault", "set", "explode", status=2)[1])
            self.assertIn("there is no fault 9999", run("fault", "clear", "9999", status=2)[1])
            self.assertIn("no number of a fault", run("fault", "clear", "x", status=2)[1])
            self.assertIn("no fault is set", run("fault", "list")[0])


if __name__ == "__main__":
    surroundings.enter()
    command.main()
