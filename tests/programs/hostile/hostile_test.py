"""Attacks from the network, each as somebody would try it. The program under attack continues undisturbed."""

import json
import os
import pathlib
import random
import socket
import stat
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "programs/process"), str(HERE.parents[1] / "interop/cm_programs")]

from mads import frame, req  # noqa: E402
from packets import PORT, Sender, bth  # noqa: E402
from prediction import Generator, predicted  # noqa: E402
from surroundings import (LINGER, LINKS, NOBODY, Host, Pair, ProcessTest, Stage, Task, amount, join_hosts, main, report, settle,  # noqa: E402
                          wait_until)

CNP = 0x81
REP = 0x0013


def notify(qpns, times, source, destination, **fields):
    """Congestion notifications with every sum right."""
    with Sender(source, destination) as attacker:
        for _ in range(times):
            for qpn in qpns:
                attacker.send_right(bth(CNP, qpn, 0, ack=False, **fields) + bytes(16))
            time.sleep(0.001)
    return times * len(qpns)


def first_psns(source, destination, port, count):
    """Calls a listener so often, one call after the other. The PSNs of its answers."""
    psns, number, end = [], 0x20000, time.monotonic() + 40
    with Sender(source, destination) as caller, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as answers:
        answers.bind((source, PORT))
        answers.settimeout(1)
        while len(psns) < count and time.monotonic() < end:
            number += 1  # a call of its own, also where the listener was not there yet
            caller.send_right(frame(req(source, destination, port, number), number))
            try:
                while True:
                    mad = answers.recv(2048)[12 + 8:]  # behind the BTH and the DETH
                    attribute, called = struct.unpack_from(">H", mad, 16)[0], struct.unpack_from(">I", mad, 28)[0]
                    if called != number:
                        continue  # an earlier answer once more
                    if attribute == REP:
                        psns.append(struct.unpack_from(">I", mad, 24 + 20)[0] >> 8)
                    break
            except socket.timeout:
                pass
    return psns


def call_for(source, named, destination, port, qpn, calls=40):
    """Calls with the QPN of another connection, in the name of an address."""
    with Sender(source, destination) as caller:
        for number in range(0x30000, 0x30000 + calls):
            content = bytearray(req(named, destination, port, number))
            struct.pack_into(">I", content, 24 + 32, qpn << 8 | 1)
            caller.send_right(frame(bytes(content), number))
            time.sleep(0.002)
    return calls


def connected_qpn(host, program):
    """The QPN of the program's one connected queue pair; None if it has none."""
    done = subprocess.run([Stage.prefix.program("rrdma"), "stat", "--json"], preexec_fn=lambda: settle(host), capture_output=True,
                          text=True, timeout=20, check=False, env=program._environment({}), cwd=Stage.prefix.scratch)
    for process in json.loads(done.stdout or "{}").get("processes", []):
        for pair in process.get("queue_pairs", []):
            if process["pid"] == program.pid and pair["state"] == "RTS":
                return pair["qpn"]
    return None


class Congestion(ProcessTest):
    """Congestion notifications can stop a QP, so only its peer may send them."""

    def test_notifications_of_strangers(self):
        host = Host()
        pair = Pair(host, host, "exchange", f"--messages={amount(8000, 40000)}", "--octets=8000", "--pace-us=200",
                    environment={**LINKS["udp"], **LINGER})
        qpns = [int(program.await_line("first QPN").split()[2]) for program in (pair.client, pair.server)]
        pair.client.await_line("flowing")
        # From the peer's own address too: once the peer has shown its port, only what comes from there is heard.
        attacks = [("another port", Task(host, notify, qpns, 200, "127.0.0.1", "127.0.0.1")),
                   ("another address", Task(host, notify, qpns, 200, "127.0.0.2", "127.0.0.1")),
                   ("to another address", Task(host, notify, qpns, 200, "127.0.0.1", "127.0.0.3"))]
        for name, attack in attacks:
            report(f"{attack.result()} notifications: {name}")
        time.sleep(0.3)  # pages are written ten times a second
        pair.server.sample()
        pair.succeed(amount(120, 600))
        refused = 0
        for program in (pair.client, pair.server):
            self.assertEqual(program.counters.get("cnps_received", 0), 0, program.counters)
            for why in ("dropped_wrong_source", "dropped_wrong_destination", "dropped_wrong_port"):
                self.assertGreater(program.counters.get(why, 0), 0, f"{program.name}: {why}: {program.counters}")
                refused += program.counters[why]
        report(f"{refused} refused; {pair.last('exchanged')}")


class Quantum(ProcessTest):
    """A program that posts much at once must not keep the lane: its other queue pairs and their timers get their turn."""

    MOST = 1 << 20  # bytes of direct operations under one hold of the lock (transport::EngineConfig)

    def test_direct_operations_give_way(self):
        # An operation goes by the ring while earlier ones of its queue pair do, so a busy pair may go that way to its end.
        self.assertTrue(any(self.most_in_one_turn() > 0 for _ in range(6)), "no operation was done directly")

    def most_in_one_turn(self):
        host = Host()
        pair = Pair(host, host, "exchange", f"--messages={amount(60, 3000)}", "--octets=3000000", "--window=16",
                    environment={**LINKS["direct"], **LINGER}).succeed(amount(120, 1200))
        longest = 0
        for program in (pair.client, pair.server):
            octets = program.counters.get("direct_turn_octets_max", 0)
            report(f"{program.name}: {program.counters.get('direct_octets', 0)} octets, at most {octets} in one turn")
            self.assertLessEqual(octets, self.MOST, program.counters)
            longest = max(longest, octets)
        return longest


class PathMtu(ProcessTest):
    def test_spoofed_fragmentation_needed(self):
        """A route that shrinks because a stranger says so must not stop what the interface can send."""
        if os.geteuid() != 0 or Stage.in_user_namespace:
            self.skipTest("needs root for raw sockets")
        left, right = join_hosts(1500)
        pair = Pair(left, right, "exchange", f"--messages={amount(3000, 30000)}", "--octets=8000", "--mtu=1024", "--pace-us=500",
                    address=left.addresses[4], environment=LINKS["udp"])
        pair.client.await_line("flowing")
        for victim, attacker in ((left, right), (right, left)):
            attacker.configure(sys.executable, "-B", str(HERE / "spoofed_icmp.py"), victim.addresses[4],
                               attacker.addresses[4], "600")
            route = subprocess.run(["ip", "route", "get", attacker.addresses[4]], preexec_fn=victim.enter, check=True,
                                   capture_output=True, text=True, timeout=20).stdout
            report(f"{victim.name} believes: {' '.join(route.split())}")
        pair.succeed(amount(120, 600))
        report(pair.last("exchanged"))


class Guessing(ProcessTest):
    """A stranger on the peer's own host knows both addresses, and guesses numbers."""

    def test_numbers_of_queue_pairs_are_no_row(self):
        host = Host()
        program = host.start("hold", "--qps=16")
        qpns = sorted(int(word) for word in program.await_line("qpns").split()[1:])
        steps = [after - before for before, after in zip(qpns, qpns[1:])]
        report(f"steps between 16 numbers: {steps}")
        self.assertLess(sum(step == 1 for step in steps), 8)

    def test_first_psns_do_not_follow_from_others(self):
        """A host calls some times, reads the PSNs in the answers, and computes the one that the next caller is given."""
        control = Generator(random.getrandbits(64) | 1 for _ in range(4))
        self.assertEqual(predicted([control.next() & 0xFFFFFF for _ in range(20)]), control.next() & 0xFFFFFF)
        victim, attacker = join_hosts()
        server = victim.start("rping", "-s", "-P", "-a", victim.addresses[4], "-p", 7500, "-v")
        psns = Task(attacker, first_psns, attacker.addresses[4], victim.addresses[4], 7500, 24).result()
        self.assertIsNone(server.process.poll(), server.output())
        report(f"{len(psns)} first PSNs of rping: {' '.join(f'{psn:06x}' for psn in psns[:6])} ...")
        self.assertEqual(len(set(psns)), 24)
        for before in range(20, len(psns)):
            self.assertNotEqual(predicted(psns[before - 20:before]), psns[before], "the next PSN was predicted")


class Stalled(ProcessTest):
    """A target of the same user whose memory blocks every access. SECURITY.md names the remedy: RRDMA_DIRECT=0."""

    def test_without_direct_access_only_the_target_waits(self):
        device = pathlib.Path("/dev/userfaultfd")
        if os.geteuid() != 0 or Stage.in_user_namespace or not device.exists():
            self.skipTest("needs root and /dev/userfaultfd")
        copy = Stage.prefix.scratch / "userfaultfd"
        os.mknod(copy, stat.S_IFCHR | 0o600, device.stat().st_rdev)
        os.chown(copy, NOBODY, NOBODY)
        host = Host()
        pair = Pair(host, host, "stalled", f"--userfaultfd={copy}", environment=LINKS["ring"]).succeed()
        report(pair.last("other connections"))


class Calls(ProcessTest):
    """A REQ in the name of a standing connection, with its address and its QPN."""

    def connect(self, peer, victim):
        """A client that pings until the test ends. The listener may need a moment."""
        for _ in range(10):
            client = peer.start("rping", "-c", "-a", victim.addresses[4], "-p", 7501, "-C", 100_000_000)
            wait_until(lambda: client.process.poll() is not None or connected_qpn(peer, client) is not None, 20, 0.1)
            if client.process.poll() is None:
                return client
        return self.fail(client.output())

    def test_forged_calls_end_no_connection(self):
        victim, peer = join_hosts()
        peer.ip("address", "add", "10.77.0.66/24", "dev", "cable")
        server = victim.start("rping", "-s", "-a", victim.addresses[4], "-p", 7501)
        client = self.connect(peer, victim)
        qpn = connected_qpn(peer, client)
        for source, named in (("10.77.0.66",) * 2, ("10.77.0.66", peer.addresses[4]), (peer.addresses[4],) * 2):
            sent = Task(peer, call_for, source, named, victim.addresses[4], 7501, qpn).result()
            report(f"{sent} calls from {source} that name {named}, QPN {qpn:#x}")
        time.sleep(amount(20, 60))  # the victim's daemon asks three times, and then disconnects
        for program in (server, client):
            self.assertIsNone(program.process.poll(), f"{program.name} has ended: {program.output()}")
        self.assertEqual(connected_qpn(peer, client), qpn)


if __name__ == "__main__":
    main()
