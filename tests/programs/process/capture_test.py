"""Captures of a run (RRDMA_PCAP): tshark dissects every packet as InfiniBand, and every ICRC is correct."""

import itertools
import pathlib
import subprocess
import sys

from foreign import run_pair
from surroundings import LINKS, Host, Pair, ProcessTest, Stage, amount, main, report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/decode"))
import tshark  # noqa: E402 (lies with the tests of `rrdma decode`)

SEND_ONLY, ACKNOWLEDGE = 0x04, 0x11
PERFTEST = ["-n", "20", "-s", "5000"]
RUNS = [
    ("udp", ["ibv_rc_pingpong", "-n", "50"]), ("udp", ["ibv_ud_pingpong", "-n", "50", "-s", "1000"]), ("udp", ["ib_atomic_bw", "-n", "20"]),
    ("ring", ["ibv_rc_pingpong", "-n", "50", "-s", "20000"]), ("ring", ["ib_read_bw", *PERFTEST]), ("direct", ["ib_write_bw", *PERFTEST]),
    ("udp", ["ib_send_bw", *PERFTEST, "-c", "UC"]),
]


class Capture(ProcessTest):
    def check(self, what, path):
        done = subprocess.run([Stage.prefix.program("rrdma"), "decode", str(path)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"{what}: rrdma decode: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        seen = tshark.dissect(path)
        complaints = [f"frame {i}: {packet.complaint()}" for i, packet in enumerate(seen, 1) if packet.complaint()]
        self.assertEqual(complaints, [], what)
        self.assertGreater(len(seen), 10, what)
        opcodes = sorted({packet.fields["opcode"] for packet in seen})
        report(f"{what}: {len(seen)} packets, opcodes " + " ".join(f"{opcode:02x}" for opcode in opcodes))

    def test_programs(self):
        host = Host()
        for number, (link, words) in enumerate(RUNS):
            path = Stage.prefix.scratch / f"run-{number}.pcapng"
            gid = ["-g", "0"] if words[0].startswith("ibv_") else ["-x", "0"]
            run_pair([words[0], *gid, *words[1:]], host, environment={**LINKS[link], "RRDMA_PCAP": str(path)})
            self.check(f"{link}: {' '.join(words)}", path)

    def test_every_operation(self):
        host = Host()
        for link, family in (("udp", 4), ("udp", 6), ("ring", 4), ("direct", 6)):
            path = Stage.prefix.scratch / f"operations-{link}-{family}.pcapng"
            Pair(host, host, "exchange", f"--messages={amount(200, 2000)}", "--octets=9000", f"--family={family}",
                 environment=LINKS[link], client_environment={"RRDMA_PCAP": str(path)}).succeed()
            self.check(f"{link}, IPv{family}: one side of exchange", path)

    def test_the_end_is_in_it(self):
        """However a program exits, its capture holds its last packet: the answer to the message after which it
        exited."""
        host = Host()
        for link, way in itertools.product(("udp", "ring"), ("exit", "quick_exit", "_exit", "_Exit")):
            path = Stage.prefix.scratch / f"farewell-{link}-{way}.pcapng"
            Pair(host, host, "farewell", f"--leave={way}", environment=LINKS[link], server_environment={"RRDMA_PCAP": str(path)}).succeed()
            seen = [(packet.fields["opcode"], packet.fields["psn"]) for packet in tshark.dissect(path)]
            last = max((i for i, (opcode, _) in enumerate(seen) if opcode == SEND_ONLY), default=None)
            self.assertIsNotNone(last, f"{link}, {way}: no message in {seen}")
            self.assertIn((ACKNOWLEDGE, seen[last][1]), seen[last:], f"{link}, {way}: the last answer is missing; the end: {seen[-4:]}")


if __name__ == "__main__":
    main()
