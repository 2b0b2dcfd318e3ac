# Tests `rrdma top` and `rrdma stat --watch` in a terminal, with keys.
import os
import re
import shutil
import sys
import tempfile
import unittest

import command
import surroundings
from command import RRDMA, run
from screen import Screen
from traffic import PingPong

BUSY = re.compile(r"^ *\d+ +ibv_rc_pingpong +1 +[\d.]+[kM]? +[\d.]+[kM]? +[\d.]+[kMG]? +[\d.]+[kMG]? +0 +0 +0$", re.M)


def pids(text):
    """The pids in the table of processes."""
    return [int(pid) for pid in re.findall(r"^ *(\d+) +ibv_rc_pingpong", text, re.M)]


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = PingPong().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.pair.__exit__()

    def moving(self, screen):
        return screen.wait_for(lambda text: len(BUSY.findall(text)) == 2 and "B/s sent" in text and "0 messages/s" not in text)

    def test_screen(self):
        with Screen(RRDMA, "top", "--interval", "0.3") as screen:
            text = self.moving(screen)
            self.assertRegex(text, r"^RRDMA top: 2 processes, 2 QPs, [\d.]+[kM]? messages/s, [\d.]+[kMG]?B/s sent, [\d.]+[kMG]?B/s")
            self.assertEqual(set(pids(text)), self.pair.pids())
            rows = re.findall(r"^ *(\d+) +0x[0-9a-f]{6} +RTS +shm +10\.9\.0\.1 0x[0-9a-f]{6}(?: +[\d.]+[kM]?)? +[\d.]+[kMG]? +[\d.]+[kMG]? +0 +0$", text, re.M)
            self.assertEqual(set(map(int, rows)), self.pair.pids(), text)
            self.assertIn("q quit  ? help  s sort: bytes  r reverse  space pause  / filter", text)
            self.assertRegex(text, r"TX B/s\* +RX B/s\*")
            screen.press("q")
            # The previous screen is back, and the terminal echoes again.
            text = screen.wait_for(lambda text: "ended with 0" in text)
            self.assertNotIn("RRDMA top", text)

    def test_keys(self):
        with Screen(RRDMA, "top", "-i", "0.2", "--sort", "pid") as screen:
            text = self.moving(screen)
            self.assertEqual(pids(text), sorted(self.pair.pids()))
            screen.press("r")
            screen.wait_for(lambda text: "r reversed" in text and pids(text) == sorted(self.pair.pids(), reverse=True))
            for order in ("bytes", "messages", "resent", "rnr", "pid"):
                screen.press("s")
                screen.wait_for(lambda text: f"sort: {order}" in text)
            screen.press("Space")
            still = screen.wait_for(lambda text: "space paused" in text)
            screen.press("Right")  # no key of ours
            surroundings.time.sleep(0.7)
            self.assertEqual(screen.text(), still)
            screen.press("Space")
            screen.wait_for(lambda text: text != still and "space pause" in text and "paused" not in text)
            screen.press("C-c")
            screen.wait_for(lambda text: "ended with 130" in text)

    def test_sizes(self):
        for columns, lines in ((80, 24), (60, 10), (40, 12), (200, 50)):
            with Screen(RRDMA, "top", "-i", "0.2", columns=columns, lines=lines) as screen:
                text = screen.wait_for(lambda text: "q quit" in text and "PROGRAM" in text and "STATE" in text)
                self.assertTrue(text.startswith("RRDMA top"), text)
                # Text that does not fit is left out, and no number is cut.
                headings = re.search(r"^ *PID +PROGRAM.*$", text, re.M)[0].split()
                self.assertEqual("TYPE" in text, columns == 200, text)
                self.assertEqual(headings[-1], "ERR")
                self.assertEqual("RX/s" in headings, columns >= 80, headings)

    def test_help_and_filter(self):
        with Screen(RRDMA, "top", "-i", "0.2") as screen:
            self.moving(screen)
            screen.press("?")
            text = screen.wait_for(lambda text: "show only rows with a text" in text)
            self.assertNotIn("PROGRAM ", text)
            screen.press("x")
            self.moving(screen)
            pid = self.pair.server.pid
            screen.press("/", *str(pid), "Enter")
            screen.wait_for(lambda text: pids(text) == [pid] and f"only: {pid}" in text)
            screen.press("/", "n", "o", "n", "e")
            screen.wait_for(lambda text: "show only: none_" in text and pids(text) == [])
            screen.press("Escape")
            screen.wait_for(lambda text: set(pids(text)) == self.pair.pids() and "/ filter" in text)
        with Screen(RRDMA, "top", "--filter", pid) as screen:
            screen.wait_for(lambda text: pids(text) == [pid])

    def test_stat_watch(self):
        with Screen(RRDMA, "stat", "--watch", "0.3") as screen:
            text = screen.wait_for(lambda text: len(re.findall(r"^ *\d+ +ibv_rc_pingpong +1 +[\d.]+[kM]? ", text, re.M)) == 2 and "TX B/s" in text)
            self.assertEqual(text.count("Daemon pid"), 1)
            screen.press("C-c")
            screen.wait_for(lambda text: "ended with 130" in text)
        with Screen(RRDMA, "stat", "--qps", "--watch", "0.3") as screen:
            screen.wait_for(lambda text: len(re.findall(r"^ *\d+ +0x[0-9a-f]{6} +RTS +shm +10\.9\.0\.1", text, re.M)) == 2 and "TX B/s" in text)

    def test_without_a_terminal(self):
        _, error = run("top", status=2)
        self.assertIn("needs a terminal", error)
        self.assertIn("rrdma stat --watch", error)
        run("top", "--sort", "nosuch", status=2)


class Faults(unittest.TestCase):
    def test_retransmissions(self):
        with PingPong("--link", "udp", "--fault", "drop=5%,seed=3", port=18602), Screen(RRDMA, "top", "-i", "0.3", "-s", "resent") as screen:
            screen.wait_for(lambda text: re.search(r"^ *\d+ +ibv_rc_pingpong .* [1-9][\d.]*k? +0 +0$", text, re.M), 20)

    def test_cursor_and_pages(self):
        with tempfile.TemporaryDirectory() as folder, PingPong(port=18603) as pair, Screen("env", "-C", folder, os.path.abspath(RRDMA), "top", "-i", "0.3", "-s", "pid", columns=170) as screen:
            screen.wait_for(lambda text: len(BUSY.findall(text)) == 2)
            first, second = sorted(pair.pids())
            text = screen.wait_for(lambda text: f"▸ 1 of 2: QP 0x" in text and f"ibv_rc_pingpong {first}" in text)
            screen.wait_for(lambda text: re.search("[▁▂▃▄▅▆▇█]{3}", text))
            screen.press("Down")
            screen.wait_for(lambda text: f"▸ 2 of 2: QP 0x" in text and f"ibv_rc_pingpong {second}" in text)
            screen.press("Enter")
            text = screen.wait_for(lambda text: f"of ibv_rc_pingpong {second}: RC RTS" in text and "sent_messages" in text)
            self.assertRegex(text, r"sent +[\d.]+[kM]?B/s +[▁▂▃▄▅▆▇█]+")
            self.assertIn("send queue", text)
            screen.press("e")
            screen.wait_for(lambda text: f"Process {second}: no call was refused" in text or "error" in text or "info" in text)
            screen.press("Escape")
            screen.wait_for(lambda text: "▸ 2 of 2" in text)
            screen.press("f")
            screen.wait_for(lambda text: f"inject: net=drop=5% pid={second} peer=10.9.0.1_" in text)
            screen.press("Enter")
            screen.wait_for(lambda text: "inject:" not in text)
            self.assertIn(f"pid={second}", run("fault", "list")[0])
            run("fault", "clear", "all")
            screen.press("c")
            screen.wait_for(lambda text: f"capturing process {second}" in text)
            screen.wait_for(lambda text: f"captured: rrdma inspect rrdma-{second}.pcapng" in text, 20)
            self.assertGreater(os.path.getsize(os.path.join(folder, f"rrdma-{second}.pcapng")), 1000)
            screen.press("q")
            screen.wait_for(lambda text: "ended with 0" in text)


class Nobody(unittest.TestCase):
    def test_nobody(self):
        with Screen(RRDMA, "top", "-i", "0.2") as screen:
            screen.wait_for(lambda text: "no program uses RRDMA" in text)
            screen.press("q")
            screen.wait_for(lambda text: "ended with 0" in text)


if __name__ == "__main__":
    if shutil.which("tmux") is None:
        print("tmux is not installed")
        sys.exit(surroundings.SKIPPED)
    surroundings.enter()
    surroundings.make_pair()
    command.main()
