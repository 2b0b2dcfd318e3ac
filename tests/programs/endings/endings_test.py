"""The end of a program: every way to end, every link, by events and by polling, after 0 and 20 ping-pongs. Each message that the
program saw is acknowledged, each acknowledged message was delivered, and a capture has every packet."""

import contextlib
import itertools
import pathlib
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))
from surroundings import LINKS, Host, ProcessTest, Settings, Stage, amount, main, report  # noqa: E402

SEND_ONLY, ACKNOWLEDGE = 0x04, 0x11
MODES = {"events": ["--events"], "polling": []}
PAIRS = 8  # at a time: a pair mostly waits
# A network and shared memory.
BOTH = ("udp", "direct")
# As in ways.cc.
WAYS = ("exit", "_exit", "quick_exit", "raw_exit", "kill", "term", "term_polling", "fork", "orphan", "exec", "pthread_exit", "dlclose",
        "segv", "abort")
# In these ways the lanes end before the program: its own last ACK is in the capture, too.
ORDERLY = ("exit", "_exit", "quick_exit", "term", "pthread_exit")


@contextlib.contextmanager
def busy_processes(count):
    """Processes that compute, beside the test."""
    started = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


class Matrix:
    """The cells of one test: way × link × mode × rounds. Several programs run at a time, each in a host of its own."""

    CELL = re.compile(r"^(\S+) (\d+): failed (\d+) of (\d+), slowest acknowledgement (\d+) us(.*)$", re.M)

    def __init__(self):
        self.hosts = [Host() for _ in range(PAIRS)]
        self.cells, self.broken = {}, []  # {(way, link, mode, rounds): (failed, runs, slowest in us)}

    def run(self, words, ways=WAYS, seconds=14400):
        waiting = [(link, mode, way) for mode in MODES for way in ways for link in BOTH]
        until, running = time.monotonic() + seconds, {}
        while waiting or running:
            for host in self.hosts:
                if waiting and host not in running:
                    link, mode, way = job = waiting.pop(0)
                    running[host] = job, host.start("endings", *MODES[mode], f"--ways={way}", *words(link, mode), environment=LINKS[link])
            for host, (job, program) in list(running.items()):
                if program.process.poll() is not None:
                    self.take(job, program)
                    del running[host]
                elif time.monotonic() > until:
                    program.complain(f"did not end within {seconds} s")
            time.sleep(0.01)
        return self

    def take(self, job, program):
        link, mode, way = job
        found = self.CELL.findall(program.output())
        for _, rounds, failed, runs, slowest, why in found:
            self.cells[way, link, mode, int(rounds)] = int(failed), int(runs), int(slowest)
            if Settings.soak:  # hours: show that it goes on
                report(f"{link}, {mode}, {way} {rounds}: failed {failed} of {runs}, slowest {slowest} us")
            if failed != "0":
                self.broken.append(f"{link}, {mode}, {way} {rounds}: failed {failed} of {runs}{why}")
        if program.process.returncode != 0 and not any(failed != "0" for _, _, failed, *_ in found):
            self.broken.append(f"{link}, {mode}, {way}: status {program.process.returncode}: {program.output()[-1000:]}")

    def table(self):
        """Failures / runs for each way, and the slowest acknowledgement of its cells."""
        columns = sorted({key[1:] for key in self.cells})
        yield "way          | " + " | ".join(f"{link} {mode} {rounds}" for link, mode, rounds in columns) + " | slowest ms"
        for way in dict.fromkeys(key[0] for key in self.cells):
            row = {key[1:]: cell for key, cell in self.cells.items() if key[0] == way}
            figures = [f"{row[key][0]}/{row[key][1]}".center(len(" ".join(map(str, key)))) if key in row else "" for key in columns]
            yield f"{way:12} | " + " | ".join(figures) + f" | {max(cell[2] for cell in row.values()) / 1000:.1f}"


class Endings(ProcessTest):
    def run_cells(self, words, **options):
        matrix = Matrix().run(words if callable(words) else lambda *_: words, **options)
        for line in matrix.table():
            report(line)
        self.assertEqual(matrix.broken, [])

    def test_every_way(self):
        self.run_cells(["--rounds=0,20", f"--runs={amount(1, 1000)}"])

    def test_under_load(self):
        with busy_processes(8):
            self.run_cells(["--rounds=0,20", f"--runs={amount(1, 1000)}"], ways=amount(("exit", "_exit", "kill"), WAYS))

    def test_several_lanes(self):
        """Three connections, each with a completion queue of its own."""
        self.run_cells(["--rounds=20", "--connections=3", f"--runs={amount(1, 1000)}"],
                       ways=amount(("exit", "kill", "term_polling"), WAYS))

    def test_killed_at_any_moment(self):
        self.run_cells(["--rounds=50", "--random", f"--runs={amount(10, 1000)}"], ways=("kill",))

    def test_the_capture_has_every_packet(self):
        rounds, runs = 20, amount(1, 200)

        def folder(link, mode):
            return Stage.prefix.scratch / f"captures-{link}-{mode}"

        for link, mode in itertools.product(BOTH, MODES):
            folder(link, mode).mkdir()
            folder(link, mode).chmod(0o777)
        self.run_cells(lambda link, mode: [f"--rounds={rounds}", f"--runs={runs}", f"--capture={folder(link, mode)}"])
        for link, mode in itertools.product(BOTH, MODES):
            paths = list(folder(link, mode).iterdir())
            self.assertEqual(len(paths), len(WAYS) * runs, f"{link}, {mode}: captures")
            for path in paths:
                self.check_capture(f"{link}, {mode}, {path.name}", path, rounds)

    def check_capture(self, what, path, rounds):
        packets = packets_of(path.read_bytes())
        # Each message that the server received, and each of its replies; some of them more than once.
        messages = {packet for packet in packets if packet[0] == SEND_ONLY}
        self.assertEqual(len(messages), 2 * rounds + 1, f"{what}: messages")
        if path.name.split("-")[0] in ORDERLY:
            last = max(i for i, packet in enumerate(packets) if packet[0] == SEND_ONLY)
            answers = [psn for opcode, _, psn in packets[last:] if opcode == ACKNOWLEDGE]
            self.assertIn(packets[last][2], answers, f"{what}: the answer to the last message")


def packets_of(octets):
    """Opcode, destination QP and PSN of the packets of a pcapng file: Ethernet, IPv4, UDP, BTH."""
    found, at = [], 0
    while at < len(octets):
        kind, length = struct.unpack_from("<II", octets, at)
        if kind == 6:
            bth = at + 28 + 14 + 20 + 8
            destination, psn = struct.unpack_from(">II", octets, bth + 4)
            found.append((octets[bth], destination & 0xffffff, psn & 0xffffff))
        at += length
    return found


if __name__ == "__main__":
    main()
