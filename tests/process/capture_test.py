"""What a run captures (RRDMA_PCAP): tshark dissects every packet as InfiniBand, and every ICRC is right."""

import pathlib
import subprocess
import sys

from foreign import run_pair
from surroundings import LINKS, Host, Pair, ProcessTest, Stage, amount, main, report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "decode"))
import tshark  # noqa: E402 (beside the tests of `rrdma decode`)

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


if __name__ == "__main__":
    main()
