"""The end of a program: every way to end, every link, by events and by polling, after 0 and 20 ping-pongs. Each message that the
program saw is acknowledged, each acknowledged message was delivered, and a capture has every packet."""

import contextlib
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))
from surroundings import LINKS, Host, ProcessTest, Stage, amount, main, report  # noqa: E402

SEND_ONLY, ACKNOWLEDGE = 0x04, 0x11
MODES = {"events": ["--events"], "polling": []}
# A network and shared memory.
BOTH = ("udp", "direct")
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


class Endings(ProcessTest):
    def run_cells(self, host, link, mode, *words, seconds=3600):
        """All cells of one program, which prints a line for each."""
        program = host.start("endings", *MODES[mode], *words, environment=LINKS[link])
        good = program.ends_well(seconds)
        cells = [line for line in program.output().splitlines() if ": failed " in line]
        slowest = max((int(line.split(" us")[0].split()[-1]) for line in cells), default=0)
        report(f"{link}, {mode}: {len(cells)} cells, slowest acknowledgement {slowest} us")
        self.assertTrue(good, f"{link}, {mode}:\n" + "\n".join(line for line in cells if ": failed 0 of " not in line) + program.output()[-1000:])

    def test_every_way(self):
        host = Host()
        for link in BOTH:
            for mode in MODES:
                self.run_cells(host, link, mode, "--rounds=0,20", f"--runs={amount(1, 1000)}")

    def test_under_load(self):
        host = Host()
        with busy_processes(8):
            for link in BOTH:
                for mode in MODES:
                    self.run_cells(host, link, mode, "--rounds=0,20", f"--runs={amount(1, 1000)}",
                                   *amount(["--ways=exit,_exit,kill"], []))

    def test_several_lanes(self):
        """Three connections, each with a completion queue of its own."""
        host = Host()
        for link in BOTH:
            for mode in MODES:
                self.run_cells(host, link, mode, "--rounds=20", "--connections=3", f"--runs={amount(1, 1000)}",
                               *amount(["--ways=exit,kill,term_polling"], []))

    def test_killed_at_any_moment(self):
        host = Host()
        for link in BOTH:
            for mode in MODES:
                self.run_cells(host, link, mode, "--ways=kill", "--rounds=50", "--random", f"--runs={amount(10, 1000)}")

    def test_the_capture_has_every_packet(self):
        host = Host()
        rounds, runs = 20, amount(1, 200)
        for link in BOTH:
            for mode in MODES:
                folder = Stage.prefix.scratch / f"captures-{link}-{mode}"
                folder.mkdir()
                folder.chmod(0o777)
                self.run_cells(host, link, mode, f"--rounds={rounds}", f"--runs={runs}", f"--capture={folder}")
                for path in folder.iterdir():
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
