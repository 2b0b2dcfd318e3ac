"""Many processes, queue pairs and threads at once."""

import os
import pathlib
import re
import signal
import time

from surroundings import LINKS, Host, Pair, ProcessTest, amount, main, report, wait_until


def children_of(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


class Many(ProcessTest):
    def test_64_processes(self):
        for link, environment in (("shm", {}), ("udp", LINKS["udp"])):
            host = Host()
            program = host.run("mesh", "--members=64", "--messages=10000", "--octets=1024", "--window=32",
                               environment=environment, seconds=180)
            report(f"{link}: {program.lines('64 processes')[0]}")

    def test_64_processes_each_with_each(self):
        host = Host()
        program = host.run("mesh", "--members=64", "--all", f"--messages={amount(20, 10000)}", "--octets=512", "--window=8",
                           f"--seconds={amount(120, 2400)}", seconds=amount(150, 2500))
        report(program.lines("64 processes")[0])

    def test_processes_of_a_job(self):
        """As many processes as an MPI job has on a large host, in pairs, each with a connected queue pair."""
        members = int(os.environ.get("RRDMA_MEMBERS", amount(96, 1024)))
        for link, environment in (("shm", {}), ("udp", LINKS["udp"])):
            host = Host()
            program = host.run("mesh", f"--members={members}", "--messages=20", "--octets=256", "--window=4", "--memory",
                               f"--seconds={amount(120, 1700)}", environment=environment, seconds=amount(150, 1800))
            report(f"{link}: {program.lines(str(members))[0]}; {program.lines('memory')[0]}")

    def test_mesh_ends_soon_after_one_failed(self):
        """The others would wait for it in vain, and the harness for them."""
        host = Host()
        program = host.start("mesh", "--members=8", "--messages=100000000")
        self.assertTrue(wait_until(lambda: len(children_of(program.pid)) == 8, 30))
        os.kill(children_of(program.pid)[0], signal.SIGKILL)
        begin = time.monotonic()
        self.assertEqual(program.wait(30), 1)
        report(f"ended {time.monotonic() - begin:.1f} s after the first: {program.lines('mesh')[-1]}")

    def test_1000_queue_pairs(self):
        host = Host()
        for link in ("udp", "direct"):
            pair = Pair(host, host, "exchange", "--qps=1000", f"--messages={amount(20, 200)}", "--octets=512", "--window=4",
                        environment=LINKS[link]).succeed(180)
            report(f"{link}: {pair.last('connected')}; {pair.last('exchanged')}")

    def test_threads_share_queues(self):
        host = Host()
        for link in ("udp", "ring", "direct"):
            pair = Pair(host, host, "shared_queues", f"--messages={amount(2000, 50000)}", environment=LINKS[link]).succeed(amount(120, 900))
            report(f"{link}: {pair.last('8 threads')}")
            self.assertTrue(re.match("8 threads, 4 QPs", pair.last("8 threads")))


if __name__ == "__main__":
    main()
