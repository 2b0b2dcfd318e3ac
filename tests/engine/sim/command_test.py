#!/usr/bin/env python3
"""Tests the `rrdma sim` command: summaries, repeatability, wrong arguments, and violations.

usage: command_test.py RRDMA RRDMA_WITH_PLANTED_BUG
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RRDMA = PLANTED = ""


def run(*arguments, program=None, env=None, cwd=None):
    return subprocess.run([program or RRDMA, "sim", *arguments], capture_output=True, text=True, timeout=240,
                          env=dict(os.environ, **(env or {})), cwd=cwd)


class OneWorld(unittest.TestCase):
    def test_table(self):
        result = run("--workload", "write", "--seconds", "0.01", "--rtt", "20us", "--fault", "drop=1%,seed=7")
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("messages", "goodput", "retransmitted", "NAKs", "latency, 99 %", "network: dropped", "event log"):
            self.assertIn(word, result.stdout)
        self.assertEqual(result.stderr, "")  # no progress bar without a terminal

    def test_json_and_repeatability(self):
        arguments = ("--workload", "mix", "--hosts", "3", "--qps", "6", "--size", "9000", "--mtu", "1024", "--seconds", "0.003",
                     "--fault", "drop=1%,dup=1%,reorder=2%,corrupt=0.5%,delay=5us±2us", "--seed", "11", "--json")
        first, second = run(*arguments), run(*arguments)
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertEqual(first.stdout, second.stdout)
        summary = json.loads(first.stdout)
        self.assertGreater(summary["messages"], 100)
        self.assertGreater(summary["counters"]["packets_resent"], 0)
        self.assertGreater(summary["network"]["corrupted"], 0)
        self.assertRegex(summary["event_log"], r"^[0-9a-f]{16}$")
        other = json.loads(run(*arguments[:-3], "--seed", "12", "--json").stdout)
        self.assertNotEqual(other["event_log"], summary["event_log"])

    def test_a_plan_of_faults_gives_the_same_run_again(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.toml")
            with open(plan, "w", encoding="utf-8") as file:
                file.write('[[fault]]\nwhat = "net=drop=4%,reorder=2%"\nafter = "1ms"\nfor = "1ms"\ndevice = "h0"\n'
                           '[[fault]]\nwhat = "port=down"\ndevice = "h1"\nafter = "3ms"\nfor = "200us"\n'
                           '[[fault]]\nwhat = "freeze"\ndevice = "h0"\nafter = "4ms"\nfor = "100us"\n')
            arguments = ("--workload", "write", "--size", "9000", "--seconds", "0.006", "--json")
            first, second, calm = run(*arguments, "--faults", plan), run(*arguments, "--faults", plan), run(*arguments)
            self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
            self.assertEqual(first.stdout, second.stdout)  # includes the hash over every packet and its time
            summary = json.loads(first.stdout)
            self.assertGreater(summary["network"]["dropped"], 0)
            self.assertGreater(summary["network"]["partitioned"], 0)
            self.assertEqual(json.loads(calm.stdout)["network"]["dropped"], 0)
            other = json.loads(run(*arguments, "--faults", plan, "--seed", "2").stdout)
            self.assertNotEqual(other["event_log"], summary["event_log"])
            # Before the first fault, until 1 ms, both runs are the same.
            early = ("--workload", "write", "--size", "9000", "--seconds", "0.001", "--json")
            self.assertEqual(json.loads(run(*early, "--faults", plan).stdout)["event_log"], json.loads(run(*early).stdout)["event_log"])

    def test_a_slow_cable_and_a_black_hole(self):
        arguments = ("--workload", "write", "--size", "9000", "--seconds", "0.02", "--json")
        free = json.loads(run(*arguments).stdout)
        for direction in ("out", "in"):
            slow = run(*arguments, "--faults", f"net=rate=1G device=h0 direction={direction}")
            self.assertEqual(slow.returncode, 0, slow.stdout + slow.stderr)
            slow = json.loads(slow.stdout)
            self.assertGreater(slow["network"]["delayed"], 100)
            self.assertLess(slow["network"]["delivered"], free["network"]["delivered"])
            self.assertEqual(slow["network"]["dropped"], 0)
        hole = json.loads(run(*arguments, "--faults", "net=mtu=512 device=h0 after=5ms for=5ms").stdout)
        self.assertGreater(hole["network"]["dropped"], 0)

    def test_faults_that_cannot_be_simulated(self):
        for fault, word in (("verb=ibv_reg_mr:EIO", "cannot be simulated"),
                            ("net=drop=1% device=h9", "is no host of this world"), ("net=drop=1% peer=10.9.9.9", "is no address of this world"),
                            ("net=drop=1% pid=3", "cannot be simulated"), ("nonsense=1", "is no fault"), ("/nowhere.toml", "nowhere")):
            result = run("--workload", "write", "--faults", fault)
            self.assertEqual(result.returncode, 2, fault)
            self.assertIn(word, result.stderr)

    def test_every_workload_and_type(self):
        for kind, workload, size in (("rc", "send", "5000"), ("rc", "read", "5000"), ("rc", "atomic", "8"), ("uc", "write", "5000"),
                                     ("uc", "send", "5000"), ("ud", "send", "1000")):
            result = run("--type", kind, "--workload", workload, "--size", size, "--seconds", "0.001", "--json")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertGreater(json.loads(result.stdout)["messages"], 10, (kind, workload))

    def test_goodput_under_a_little_loss(self):
        """Go-back-N on a long fat pipe: one packet in ten thousand must not cost a third of the goodput."""
        def goodput(fault):
            result = run("--workload", "write", "--bandwidth", "25G", "--rtt", "100us", "--seconds", "0.1", "--json",
                         *(("--fault", fault) if fault else ()))
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)["goodput_gbps"]
        self.assertGreaterEqual(goodput("drop=0.01%"), 0.7 * goodput(""))


class RandomWorlds(unittest.TestCase):
    def test_seeds(self):
        result = run("--seeds", "20", "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        summary = json.loads(result.stdout)
        self.assertEqual(summary["runs"], 20)
        self.assertGreaterEqual(summary["messages"] + summary["messages_failed"], 20 * 900)

    def test_a_seed_alone_is_the_world_of_that_seed(self):
        first = run("--seed", "5", "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, run("--workload", "random", "--seed", "5", "--json").stdout)


class Alone(unittest.TestCase):
    def test_ends_within_seconds(self):
        start = time.monotonic()
        result = run("--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout)
        self.assertTrue(summary["complete"])
        self.assertGreaterEqual(summary["virtual_ns"], 50_000_000)
        self.assertGreater(summary["messages"], 1000)
        self.assertLess(time.monotonic() - start, 60, "a few seconds where nothing else runs")

    def interrupted(self, *arguments):
        """Standard output of a run that would take minutes, interrupted after its first progress report."""
        with subprocess.Popen([RRDMA, "sim", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while True:
                line = process.stderr.readline()  # without a terminal: every five seconds
                found = re.match(r"rrdma sim: *[0-9.]+ %  (\d+) .* s left", line)
                self.assertIsNotNone(found, line)
                if int(found.group(1)) > 0:
                    break
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        return output

    def test_what_was_found_so_far(self):
        one = self.interrupted("--seconds", "1000")
        self.assertRegex(one, r"^interrupted after [0-9.]+ [mu]?s of 1000.00 s of virtual time; so far no promise was broken\n")
        for what in ("messages", "packets sent", "virtual time"):
            self.assertGreater(float(re.search(rf"{what} +([\d.]+)", one).group(1)), 0, what)
        many = self.interrupted("--seeds", "1000000")
        seeds = int(re.match(r"interrupted after (\d+) of 1000000 seeds", many).group(1))
        self.assertGreater(seeds, 0)
        self.assertIn(f"in {seeds} runs" if seeds > 1 else "event log", many)


class WrongArguments(unittest.TestCase):
    def test_each_is_one_sentence(self):
        for arguments in (("--hosts", "1"), ("--workload", "dance"), ("--type", "xx", "--seconds", "1"), ("--fault", "drop=2"),
                          ("--bandwidth", "fast"), ("--rtt", "100"), ("--mtu", "1000"), ("--seconds", "-1"), ("--size", "99999999"),
                          ("--workload", "random", "--hosts", "3"), ("--workload", "read", "--type", "ud"), ("--seeds", "0"),
                          ("--seed", "x"), ("--nonsense",)):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr.startswith("rrdma"), result.stderr)
            self.assertLessEqual(len(result.stderr.strip().splitlines()), 2, result.stderr)


class BrokenPromises(unittest.TestCase):
    def check(self, bug, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            result = run(*arguments, "--pcap", "broken.pcapng", program=PLANTED, env={"PLANTED_BUG": bug}, cwd=folder)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            seed = re.search(r"^seed (\d+): (.+)$", result.stdout, re.M)
            self.assertTrue(seed, result.stdout)
            self.assertIn("the last packets:", result.stdout)
            self.assertRegex(result.stdout, r"RC \w+.*psn \d+")
            self.assertIn("the queue pairs:", result.stdout)
            capture = re.search(r"^capture: (\S+)", result.stdout, re.M).group(1)
            decoded = subprocess.run([RRDMA, "decode", os.path.join(folder, capture)], capture_output=True, text=True, timeout=60)
            self.assertIn("psn", decoded.stdout)
            self.assertNotEqual(decoded.returncode, 2, decoded.stderr)
            # The same seed gives the same output again.
            again = run("--seed", seed.group(1), program=PLANTED, env={"PLANTED_BUG": bug}, cwd=folder)
            self.assertEqual(again.returncode, 1)
            self.assertIn(seed.group(0), again.stdout)
            # Only a run that was asked to leaves a file.
            self.assertIn(f"--seed {seed.group(1)} --pcap FILE", again.stdout)
            self.assertEqual(os.listdir(folder), ["broken.pcapng"])

    def test_a_lost_completion(self):
        self.check("lose_completion", "--seeds", "20")

    def test_a_forgotten_fence(self):
        self.check("forget_fence", "--seed", "1", "--seeds", "50")

    def test_no_bug_no_story(self):
        self.assertEqual(run("--seeds", "5", program=PLANTED).returncode, 0)


if __name__ == "__main__":
    RRDMA, PLANTED = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
