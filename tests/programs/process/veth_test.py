"""Two hosts joined by a cable (veth): existing programs and ours, IPv4 and IPv6, MTU 1500 and 9000. The test runs a
pairwise selection, the soak the full product. With --unprivileged all of it happens in a user namespace, as
`unshare -Urnm` creates one."""

import itertools
import re

from foreign import last_figures, run_pair
from surroundings import Pair, ProcessTest, Settings, amount, join_hosts, main, report

# On the cable, 0 is the link-local GID, then comes IPv4, then IPv6. These programs exchange addresses over IPv4 in
# any case.
GID = {4: "1", 6: "2"}

PINGPONG = [["ibv_rc_pingpong", "-c"], ["ibv_rc_pingpong", "-e", "-c"], ["ibv_srq_pingpong"], ["ibv_uc_pingpong"], ["ibv_ud_pingpong"]]
PERFTEST = [["ib_send_bw"], ["ib_send_lat"], ["ib_write_bw"], ["ib_write_lat"], ["ib_read_bw"], ["ib_read_lat"], ["ib_atomic_bw"],
            ["ib_atomic_lat"], ["ib_send_bw", "-e"], ["ib_write_bw", "-b"], ["ib_send_bw", "-q", "8"], ["ib_read_bw", "-q", "8"],
            ["ib_write_bw", "-a"], ["ib_send_lat", "-I", "64"]]


def selection(programs, shift):
    """Selects every program once and every (MTU, family) about equally often; all combinations in the soak."""
    conditions = list(itertools.product((1500, 9000), (4, 6)))
    if Settings.soak:
        return [(words, *condition) for words in programs for condition in conditions]
    return [(words, *conditions[(i + shift) % len(conditions)]) for i, words in enumerate(programs)]


class Veth(ProcessTest):
    def each_condition(self, chosen, run):
        for mtu in (1500, 9000):
            hosts = join_hosts(mtu)
            for words, wanted, family in chosen:
                if wanted == mtu:
                    run(hosts, words, mtu, family)

    def test_pingpong(self):
        def run(hosts, words, mtu, family):
            size = "1000" if words[0] == "ibv_ud_pingpong" else "5000"
            command = [words[0], "-g", GID[family], "-n", str(amount(100, 2000)), "-s", size, *words[1:]]
            _, client = run_pair(command, *hosts, address=hosts[0].addresses[4])
            self.assertNotIn("invalid data", client.output())
            report(f"MTU {mtu}, IPv{family}: {' '.join(words)}: {last_figures(client)}")

        self.each_condition(selection(PINGPONG, 0), run)

    def test_perftest(self):
        def run(hosts, words, mtu, family):
            path_mtu = 1024 if mtu == 1500 else 4096
            command = [words[0], "-x", GID[family], "-m", str(path_mtu), "-n", str(amount(50, 1000)), *words[1:]]
            _, client = run_pair(command, *hosts, address=hosts[0].addresses[4])
            self.assertRegex(client.output(), rf"Mtu\s*:\s*{path_mtu}\[B\]")
            report(f"MTU {mtu}, IPv{family}: {' '.join(words)}: {last_figures(client)}")

        self.each_condition(selection(PERFTEST, 1), run)

    def test_exchange(self):
        def run(hosts, words, mtu, family):
            pair = Pair(*hosts, "exchange", *words, f"--messages={amount(1000, 20000)}", f"--family={family}",
                        address=hosts[0].addresses[family]).succeed()
            report(f"MTU {mtu}, IPv{family}: {' '.join(words)}: {pair.last('exchanged')}")

        programs = [["--octets=60000", "--mtu=1024"], ["--octets=60000", "--mtu=256", "--qps=8"], ["--octets=3000", "--events"],
                    ["--octets=200000", "--mtu=512", "--window=4"]]
        self.each_condition(selection(programs, 0), run)

    def test_mtu_is_that_of_the_cable(self):
        for mtu, expected in ((1500, "1024"), (9000, "4096")):
            left, _ = join_hosts(mtu)
            output = left.run("ibv_devinfo").output()
            active = re.search(r"active_mtu:\s+(\d+)", output)
            self.assertTrue(active and active.group(1) == expected, output)
            report(f"MTU {mtu}: active_mtu {expected}")


if __name__ == "__main__":
    main()
