#!/usr/bin/env python3
"""The connection manager under faults: interfaces that change or vanish, a daemon that is killed during
half-open calls, floods of packets from strangers, programs that do not fetch their events.

    cm_trouble_test.py --products BUILD_FOLDER [--soak] [names of tests]
"""

import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))

from mads import flood_with_calls, flood_with_garbage  # noqa: E402
from surroundings import (Host, ProcessTest, Task, amount, daemons, end_process, join_hosts, main, report,  # noqa: E402
                          wait_until)

ADDR_CHANGE, DEVICE_REMOVAL = "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_DEVICE_REMOVAL"
CONNECT_REQUEST, REJECTED, UNREACHABLE = "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_UNREACHABLE"
FLOODED = 7400


def listener(host, address, port, how="listen"):
    program = host.start("cm_events", how, address, port)
    program.await_line("listening")
    return program


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def ping(host, address, port, count=20):
    host.run("rping", "-c", "-a", address, "-p", port, "-C", count, "-V")


class Interfaces(ProcessTest):
    def test_address_removed(self):
        for family, prefix in ((4, 24), (6, 64)):
            left, right = join_hosts()
            address = left.addresses[family]
            there = listener(left, address, 7001)
            everywhere = listener(left, "0.0.0.0" if family == 4 else "::", 7002)
            caller = right.start("cm_events", "call", address, 7001)
            there.await_line(CONNECT_REQUEST)
            left.ip("address", "del", f"{address}/{prefix}", "dev", "cable")
            there.await_line(ADDR_CHANGE, 5)
            # The address returns and goes again, which is reported again. A wildcard listener is bound to no
            # address that could go.
            left.ip("address", "add", f"{address}/{prefix}", "dev", "cable", *(["nodad"] if family == 6 else []))
            time.sleep(0.2)
            left.ip("address", "del", f"{address}/{prefix}", "dev", "cable")
            self.assertTrue(wait_until(lambda: len(there.lines(ADDR_CHANGE)) == 2, 5), there.output())
            self.assertEqual(everywhere.lines("RDMA_CM"), [])
            self.assertEqual(caller.lines(ADDR_CHANGE), [])
            report(f"IPv{family}: told of {address}")

    def test_hardware_address_changed(self):
        left, right = join_hosts()
        there = listener(left, left.addresses[4], 7001)
        caller = right.start("cm_events", "call", left.addresses[4], 7001)
        there.await_line(CONNECT_REQUEST)
        right.ip("link", "set", "cable", "address", "02:00:00:00:07:07")
        caller.await_line(ADDR_CHANGE, 5)
        self.assertEqual(there.lines(ADDR_CHANGE), [])

    def test_interface_deleted(self):
        left, right = join_hosts()
        there = listener(left, left.addresses[4], 7001)
        everywhere = listener(left, "0.0.0.0", 7002)
        caller = right.start("cm_events", "call", left.addresses[4], 7001)
        there.await_line(CONNECT_REQUEST)
        left.ip("link", "del", "cable")  # deletes both ends of the cable
        for program in there, caller:
            program.await_line(DEVICE_REMOVAL, 5)
            program.await_line("destroyed", 5)
            program.succeed(10)
        self.assertEqual(everywhere.lines("RDMA_CM"), [])
        self.assertIsNone(everywhere.process.poll())


class DaemonDeath(ProcessTest):
    def test_half_open_calls_are_told(self):
        """Callers over both links: within the host, and from another host whose own daemon stays alive."""
        left, right = join_hosts()
        address = left.addresses[4]
        there = listener(left, address, 7001)
        near = left.start("cm_events", "call", address, 7001)
        near.await_line("called")
        self.assertTrue(wait_until(lambda: len(there.lines(CONNECT_REQUEST)) == 1, 10), there.output())
        self.assertEqual(len(near.lines("RDMA_CM")), 2)
        killed_at = time.monotonic()
        for pid in daemons(left):
            end_process(pid)
        near.await_line(UNREACHABLE, 5)
        report(f"UNREACHABLE after {time.monotonic() - killed_at:.2f} s")
        # The next daemon knows the listener, so callers of this host and of other hosts reach it.
        for number, host in ((2, left), (3, right)):
            caller = host.start("cm_events", "call", address, 7001)
            caller.await_line("called")
            self.assertTrue(wait_until(lambda n=number: len(there.lines(CONNECT_REQUEST)) == n, 10), there.output())
            self.assertEqual(caller.lines(UNREACHABLE), [])
        self.assertIsNone(there.process.poll())

    def test_listeners_of_all_kinds_are_restored(self):
        host = Host()
        addresses = ("127.0.0.1", "0.0.0.0", "::1", "::")
        listeners = {address: listener(host, address, 7010 + n, "refuse") for n, address in enumerate(addresses)}
        for pid in daemons(host):
            end_process(pid)
        for n, address in enumerate(addresses):
            def heard(address=address, n=n):
                # The new daemon refuses calls until the listener has registered with it.
                caller = host.start("cm_events", "call", "::1" if ":" in address else "127.0.0.1", 7010 + n)
                caller.await_line(REJECTED, 10)
                return listeners[address].lines(CONNECT_REQUEST)

            self.assertTrue(wait_until(heard, 20), listeners[address].output())
            self.assertEqual(len(listeners[address].lines(CONNECT_REQUEST)), 1)
        # The listeners still own their ports.
        thief = host.start("cm_events", "listen", "127.0.0.1", 7010)
        self.assertNotEqual(thief.wait(10), 0)
        self.assertIn("in use", thief.output())


    def test_pending_events_stay(self):
        """Events that a program has not fetched when the daemon is killed stay available."""
        host = Host()
        late = listener(host, "127.0.0.1", 7001, "idle")
        callers = [host.start("cm_events", "call", "127.0.0.1", 7001) for _ in range(3)]
        for caller in callers:
            caller.await_line("called")
        time.sleep(0.2)
        for pid in daemons(host):
            end_process(pid)
        for caller in callers:
            caller.await_line(UNREACHABLE, 5)
        late.signal(signal.SIGUSR1)
        self.assertTrue(wait_until(lambda: len(late.lines(CONNECT_REQUEST)) == 3, 10), late.output())
        self.assertEqual(len(late.lines("RDMA_CM")), 3)


class Hostile(ProcessTest):
    def bystander(self, host, address):
        server = host.start("rping", "-s", "-P", "-a", address, "-p", 7300)
        self.assertTrue(wait_until(lambda: daemons(host), 10))
        wait_until(lambda: server.process.poll() is not None, 0.5)
        ping(host, address, 7300)
        return server

    def test_flood_of_calls(self):
        """A stranger makes 10,000 calls a second: first to an unused port, then to a listener that does not
        answer."""
        left, right = join_hosts()
        here, stranger = left.addresses[4], right.addresses[4]
        server = self.bystander(left, here)
        target = listener(left, here, FLOODED)
        daemon = daemons(left)[0]
        before = resident_kib(daemon)
        for port in FLOODED + 1, FLOODED:
            flood = Task(right, flood_with_calls, stranger, here, port, 10000, amount(3, 10))
            pings, begin = 0, time.monotonic()
            while pings < 3 or time.monotonic() - begin < amount(2.5, 9):
                ping(left, here, 7300, 5)
                pings += 1
            sent, seconds = flood.result()
            report(f"{sent} calls in {seconds:.1f} s to port {port}; meanwhile {pings} rpings in {time.monotonic() - begin:.1f} s; "
                   f"daemon: {before} KiB, then {resident_kib(daemon)}")
            self.assertGreater(sent, 100 * seconds)  # the threshold also holds on a slow machine
        self.assertEqual(daemons(left), [daemon])
        self.assertLess(resident_kib(daemon), before + 32 * 1024)
        # The listener's backlog bounds the calls that wait for it, regardless of the number of callers.
        self.assertTrue(wait_until(lambda: target.lines(CONNECT_REQUEST), 5))
        self.assertLessEqual(len(target.lines(CONNECT_REQUEST)), 1024)
        target.end()
        ping(left, here, 7300)
        again = listener(left, here, FLOODED, "refuse")
        right.start("cm_events", "call", here, FLOODED).await_line(REJECTED, 10)
        for program in server, again:
            self.assertIsNone(program.process.poll(), program.output())

    def test_malformed_mads(self):
        left, right = join_hosts()
        here, stranger = left.addresses[4], right.addresses[4]
        server = self.bystander(left, here)
        target = listener(left, here, FLOODED, "refuse")
        daemon = daemons(left)[0]
        before = resident_kib(daemon)
        flood = Task(right, flood_with_garbage, random.Random(6), stranger, here, FLOODED, amount(20000, 200000))
        for _ in range(3):
            ping(left, here, 7300)
        count = flood.result(120)
        report(f"{count} wrong MADs; daemon: {before} KiB, then {resident_kib(daemon)}")
        self.assertEqual(daemons(left), [daemon])
        self.assertLess(resident_kib(daemon), before + 32 * 1024)
        right.start("cm_events", "call", here, FLOODED).await_line(REJECTED, 10)
        ping(right, here, 7300)
        for program in server, target:
            self.assertIsNone(program.process.poll(), program.output())

    def test_events_that_nobody_takes(self):
        """One listener fetches no events, another acknowledges none: their callers wait, others do not."""
        left, right = join_hosts()
        here, stranger = left.addresses[4], right.addresses[4]
        server = self.bystander(left, here)
        daemon = daemons(left)[0]
        before = resident_kib(daemon)
        for port, how in ((FLOODED, "idle"), (FLOODED + 1, "hoard")):
            deaf = listener(left, here, port, how)
            flood = Task(right, flood_with_calls, stranger, here, port, 2000, amount(1.5, 10))
            ping(left, here, 7300)
            sent, _ = flood.result()
            ping(left, here, 7300)
            self.assertIsNone(deaf.process.poll(), deaf.output())
            self.assertLess(resident_kib(deaf.pid), 256 * 1024)
            report(f"{how}: {sent} calls; program {resident_kib(deaf.pid)} KiB, daemon {before} KiB, then {resident_kib(daemon)}")
            deaf.end()
        self.assertEqual(daemons(left), [daemon])
        self.assertLess(resident_kib(daemon), before + 32 * 1024)
        ping(right, here, 7300)
        self.assertIsNone(server.process.poll(), server.output())


if __name__ == "__main__":
    main()
