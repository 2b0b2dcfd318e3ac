# UCX with two devices as two rails of one connection: each carries its share. The loss of one under load ends the
# connection with a clear status, as on hardware, because this UCX cannot move to another rail. The end with requests in
# flight notices. The other one learns it by UCX's own means; UCX 1.18 of Debian 13 does not tell it.
import itertools
import os
import re
import shutil
import subprocess
import time
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json
from programs import ucx_perftest

RAILS = ("127.0.0.1", "127.0.0.2")
OCTETS = 4 << 20  # of a message: large enough for the rendezvous protocol, which uses all rails
SHARE_MIN = 0.3
PORTS = itertools.count(13400)
# UCX's own values are a second and seven retries; give up sooner here.
ENVIRONMENT = {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "rrdma0:1,rrdma1:1", "UCX_MAX_RNDV_RAILS": "2", "UCX_RC_VERBS_TIMEOUT": "100ms",
               "UCX_RC_VERBS_RETRY_COUNT": "3", "UCX_KEEPALIVE_INTERVAL": "1s"}


def ucx_version():
    told = subprocess.run(["ucx_info", "-v"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.search(r"version[ :]+(\d+)\.(\d+)", told, re.I).groups()))


class Pair:
    """ucx_perftest against itself, with error handling on the endpoints. It runs until the end of the block."""

    def __enter__(self):
        words = [RRDMA, "run", "--devices", "2", "--", *ucx_perftest(), "-p", str(next(PORTS)), "-t", "tag_bw", "-s", str(OCTETS), "-n", "1000000", "-w", "2", "-e"]
        self.programs = []
        before = servers.open_ports()
        for more in ((), (RAILS[0],)):
            self.programs.append(subprocess.Popen([*words, *more], env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE,
                                                  stderr=subprocess.STDOUT, bufsize=0))
            os.set_blocking(self.programs[-1].stdout.fileno(), False)
            if not more:
                servers.await_server(self.programs[0], before, words)
        self.texts = ["", ""]
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()
            program.wait()
            program.stdout.close()

    def octets(self):
        """Payload bytes, by rail."""
        by_rail = dict.fromkeys(RAILS, 0)
        for process in run_json("stat", "--json")["processes"]:
            for qp in process["queue_pairs"]:
                if qp["peer"] in by_rail:
                    by_rail[qp["peer"]] += qp["sent_octets"] + qp["received_octets"]
        return by_rail

    def statuses(self):
        """The final messages of the ends that must print one; None until they have."""
        for number, program in enumerate(self.programs):
            self.texts[number] += (program.stdout.read() or b"").decode()
        found = [re.search(r"error handler called with status (-\d+) \((.*?)\)", text) for text in self.texts]
        return [match[2] for match in found if match] if (any if UCX >= (1, 18) else all)(found) else None


class Rails(unittest.TestCase):
    def test_each_carries_its_share(self):
        with Pair() as pair:
            carried = surroundings.wait_for(lambda: (lambda by: by if sum(by.values()) > 50 * OCTETS else None)(pair.octets()), 60)
            for rail in RAILS:
                self.assertGreater(carried[rail], SHARE_MIN * sum(carried.values()), carried)
            self.assertEqual({one["address"] for one in run_json("stat", "--json")["addresses"]}, set(RAILS))
            print("carried:", {rail: f"{octets / sum(carried.values()):.0%}" for rail, octets in carried.items()})

    def test_the_loss_of_one(self):
        with Pair() as pair:
            surroundings.wait_for(lambda: pair.octets()[RAILS[1]] > 10 * OCTETS, 60)
            self.assertIsNone(pair.statuses())
            begin = time.monotonic()
            run("fault", "set", "port=down", "--device", "rrdma1")
            said = surroundings.wait_for(pair.statuses, 30)
            self.assertIn("Endpoint timeout", said)  # of the end that had requests in flight
            self.assertLess(time.monotonic() - begin, 20)
            run("fault", "clear", "all")
        with Pair() as pair:  # with the port up again, both rails carry data again
            surroundings.wait_for(lambda: min(pair.octets().values()) > 10 * OCTETS, 60)


if __name__ == "__main__":
    if shutil.which("ucx_perftest") is None:
        raise SystemExit(surroundings.SKIPPED)
    UCX = ucx_version()
    surroundings.enter()
    command.main()
