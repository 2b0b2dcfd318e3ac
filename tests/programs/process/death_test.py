"""Dead and stopped processes: the peer, the daemon, the program that started the daemon; and the state that they
leave."""

import itertools
import signal
import time

from packets import Sender, bth
from surroundings import LINKS, Host, Pair, ProcessTest, Task, amount, daemons, end_process, join_hosts, main, report, wait_until

RETRY_EXCEEDED = 12
# A polling program gives its core away each time that it yields. Beside eight computing programs two such peers
# do not hear from each other for longer than the default 0.5 s. No test with this option measures a timeout.
PATIENT = "--timeout=18"


class PeerDeath(ProcessTest):
    """A survivor with outstanding sends gets its error completion within the time that its attributes imply."""

    def kill_peer(self, link, timeout, retries, events):
        host = Host()
        pair = Pair(host, host, "survivor", f"--timeout={timeout}", f"--retries={retries}", *(["--events"] if events else []),
                    environment=LINKS[link])
        pair.client.await_line("flowing")
        time.sleep(0.2)
        killed = time.monotonic()
        pair.server.signal(signal.SIGKILL)
        line = pair.client.await_line("error", 60)
        pair.client.succeed()
        _, status, _, at = line.split()
        took = float(at) - killed
        nominal = 4.096e-6 * 2 ** timeout * (retries + 1)
        report(f"{link}{', events' if events else ''}: status {status} after {took * 1000:.0f} ms (nominal {nominal * 1000:.0f} ms); "
               f"{pair.client.output().splitlines()[-1]}")
        self.assertEqual(int(status), RETRY_EXCEEDED)
        # The last answered packet may have come a moment before the kill. A timer may take up to four times its
        # nominal value (IBTA 9.7.6.1.3).
        self.assertLess(took, 4 * nominal + 5.0)
        if link == "udp":
            self.assertGreater(took, 0.5 * nominal)

    def test_udp(self):
        self.kill_peer("udp", 14, 3, False)

    def test_udp_events(self):
        self.kill_peer("udp", 13, 7, True)

    def test_ring(self):
        self.kill_peer("ring", 14, 7, False)

    def test_direct_events(self):
        self.kill_peer("direct", 14, 7, True)


class Departure(ProcessTest):
    def test_last_message_is_answered(self):
        """A program that received a message and then exits acknowledges it: no held ACK waits for a reply that never
        comes."""
        host = Host()
        for link in ("udp", "ring"):
            for way in ("exit", "quick_exit", "_exit", "_Exit", "destroy", "sleep"):
                for _ in range(amount(2, 15)):
                    pair = Pair(host, host, "farewell", f"--leave={way}", environment=LINKS[link]).succeed()
                    took = int(pair.last("the last message").split()[-2])
                    # A retransmission would come after 2.1 s.
                    self.assertLess(took, 2_000_000, f"{link}, {way}")
                report(f"{link}, {way}: {pair.last('the last message')}")

    def test_who_is_killed_has_said_it(self):
        """The daemon acknowledges messages that a killed program had received, on this host and to another host."""
        host = Host()
        left, right = join_hosts()
        for name, ends, address in (("one host", (host, host), "127.0.0.1"), ("two hosts", (left, right), left.addresses[4])):
            for _ in range(amount(4, 100)):
                pair = Pair(*ends, "farewell", "--leave=kill", address=address, environment=LINKS["udp"])
                pair.client.succeed()
            report(f"{name}: {pair.last('the last message')}")

    def test_an_acknowledgement_that_is_lost_is_said_again(self):
        """One in seven packets of the exiting program is dropped: sometimes the last one, after the program is gone.
        """
        host = Host()
        left, right = join_hosts()
        seeds = itertools.count(1)
        for name, ends, address in (("one host", (host, host), "127.0.0.1"), ("two hosts", (left, right), left.addresses[4])):
            for way in ("exit", "_exit", "destroy_exit", "kill"):
                for _ in range(amount(6, 100)):
                    faults = {"RRDMA_FAULT": f"drop=15%,seed={next(seeds)}"}
                    pair = Pair(*ends, "farewell", "--rounds=10", f"--leave={way}", address=address, environment=LINKS["udp"],
                                server_environment=faults)
                    pair.client.succeed()
                report(f"{name}, {way}: {pair.last('the last message')}")


class Paralysis(ProcessTest):
    def test_stopped_peer_on_shm_is_no_error(self):
        seconds = amount(3, 10)
        host = Host()
        for link in ("ring", "direct"):
            # Timeout 14 with 2 retries would expire in 0.2 s.
            pair = Pair(host, host, "exchange", f"--messages={amount(500, 5000)}", "--timeout=14", "--retries=2", "--pace-us=1000", environment=LINKS[link])
            pair.server.await_line("flowing")
            pair.server.signal(signal.SIGSTOP)
            time.sleep(seconds)
            self.assertIsNone(pair.client.process.poll(), pair.client.output())
            pair.server.signal(signal.SIGCONT)
            pair.succeed(120)
            report(f"{link}: peer stopped for {seconds} s; {pair.last('exchanged')}")


class DaemonDeath(ProcessTest):
    def await_one_daemon(self, host):
        """Each program that finds no daemon starts one; all but the first daemon exit as soon as they are up."""
        deadline = time.monotonic() + 5
        while len(daemons(host)) != 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(len(daemons(host)), 1)

    def test_daemon_killed_amid_traffic(self):
        host = Host()
        for link in ("udp", "direct"):
            pair = Pair(host, host, "exchange", f"--messages={amount(500, 6000)}", "--qps=4", "--pace-us=500", PATIENT, environment=LINKS[link])
            pair.client.await_line("flowing")
            openings = []
            amid_traffic = 0
            for _ in range(amount(3, 20)):
                time.sleep(0.3)
                amid_traffic += pair.client.process.poll() is None
                for pid in daemons(host):
                    end_process(pid)
                begin = time.monotonic()
                newcomer = host.start("hold")
                line = newcomer.await_line("qpn")
                took = time.monotonic() - begin
                newcomer.process.stdin.close()
                newcomer.process.stdin = None
                newcomer.succeed()
                report(f"{link}: daemon killed; a new program: {line}, {took * 1000:.0f} ms with its start")
                openings.append(float(line.split()[-2]))
                self.await_one_daemon(host)
            self.assertGreater(amid_traffic, 0)
            # Usually a fraction of a second on an idle machine. The bound only excludes a wait for some timeout.
            self.assertLess(max(openings), 10_000)
            # Also run a whole new conversation beside the old one.
            Pair(host, host, "exchange", "--messages=500", PATIENT, environment=LINKS[link]).succeed()
            pair.succeed(180)
            report(f"{link}: {pair.last('exchanged')}")

    def test_starter_killed(self):
        """The program that started the daemon dies; all other programs continue."""
        host = Host()
        starter = host.start("hold")
        starter.await_line("qpn")
        pair = Pair(host, host, "exchange", "--messages=1000", "--pace-us=1000", PATIENT, environment=LINKS["udp"])
        pair.client.await_line("flowing")
        daemon, = daemons(host)
        starter.signal(signal.SIGKILL)
        starter.wait(10)
        time.sleep(0.3)
        self.assertEqual(daemons(host), [daemon])
        # As in a container that ends: both die at once.
        end_process(daemon)
        Pair(host, host, "exchange", "--messages=500", PATIENT, environment=LINKS["udp"]).succeed()
        pair.succeed(120)
        report(pair.last("exchanged"))

    def test_daemon_leaves_after_its_last_client(self):
        host = Host()
        Pair(host, host, "exchange", "--messages=10").succeed()
        self.assertEqual(len(daemons(host)), 1)
        begin = time.monotonic()
        self.assertTrue(wait_until(lambda: not daemons(host), 30, 0.05))
        report(f"gone after {time.monotonic() - begin:.1f} s")


class Leftovers(ProcessTest):
    def test_killed_programs_leave_nothing(self):
        """More programs than there are slots, each killed. The next one always gets a slot and never a QPN that was
        used before. Packets for the dead programs disturb no other."""
        host = Host()
        pair = Pair(host, host, "exchange", f"--messages={amount(300000, 9000000)}", "--pace-us=200", PATIENT, environment=LINKS["udp"])
        pair.client.await_line("flowing")
        seen = set()
        rounds = amount(40, 600)
        stale = 0
        for number in range(rounds):
            program = host.start("hold")
            qpn = int(program.await_line("qpn").split()[1])
            self.assertNotIn(qpn, seen)
            program.signal(signal.SIGKILL)
            program.wait(10)
            program.end()
            seen.add(qpn)
            stale += Task(host, send_stale, seen).result()
            if number % 10 == 0:
                self.assertIsNone(pair.client.process.poll(), pair.client.output())
        self.assertIsNone(pair.client.process.poll(), pair.client.output())
        self.assertIsNone(pair.server.process.poll(), pair.server.output())
        report(f"{rounds} programs killed in turn, slots {sorted({qpn >> 16 for qpn in seen})}, {stale} stale packets sent")

    def test_shared_memory_is_given_back(self):
        host = Host()
        before = shared_memory_octets()
        for _ in range(amount(5, 50)):
            pair = Pair(host, host, "survivor", environment=LINKS["direct"])
            pair.client.await_line("flowing")
            pair.client.signal(signal.SIGKILL)
            pair.server.signal(signal.SIGKILL)
            pair.client.wait(10)
            pair.server.wait(10)
        for pid in daemons(host):
            end_process(pid)
        self.assertTrue(wait_until(lambda: shared_memory_octets() < before + (64 << 20), 10), "shared memory stays behind")
        report(f"shared memory before {before >> 20} MiB, after {shared_memory_octets() >> 20} MiB")


def shared_memory_octets():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Shmem:"))


def send_stale(qpns):
    """Sends SEND ONLY and ACKNOWLEDGE packets with correct ICRCs to QPs of dead programs."""
    with Sender() as sender:
        for qpn in qpns:
            for opcode, rest in ((0x04, bytes(64)), (0x11, bytes(4)), (0x0A, bytes(16 + 64))):
                sender.send_right(bth(opcode, qpn, 1) + rest)
    return 3 * len(qpns)


if __name__ == "__main__":
    main()
