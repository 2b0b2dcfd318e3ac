#!/usr/bin/env python3
"""Unmodified programs that connect through the real librdmacm, each as its own client and server: on every
link within a host and between two hosts, over IPv4 and IPv6. surroundings.py provides the environment.

    cm_programs_test.py --products BUILD_FOLDER [--soak] [names of tests]
"""

import hashlib
import itertools
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))

from surroundings import (LINKS, Host, ProcessTest, Settings, Stage, amount, daemons, end_process, join_hosts, main,  # noqa: E402
                          report, wait_until)

LOOPBACK = {4: "127.0.0.1", 6: "::1"}
SHM = {"shm": {}}
# Output of clients that call before their server listens. A qperf server announces its port before it
# listens.
REFUSALS = ("refused", "REJECTED", "UNREACHABLE", "event 8", "event: RDMA_CM_EVENT_REJECTED", "Event rejected")
# The ends of qperf wait 5 s of wall-clock time for each other's messages. On a busy machine they then exit
# with "failed to receive results: timed out". The server takes the client's limit from the first message.
QPERF_SERVER, QPERF_CLIENT = ("qperf", "-lto", 30), ("qperf", "-to", 30, "-t", 1)
WITHIN = {"udp": LINKS["udp"], "shm": {}}


def needs(program):
    return unittest.skipIf(shutil.which(program) is None, f"{program} is not installed")


def listens(host, words):
    """Starts a server and waits until the daemon knows its listener. If that is not visible, waits for a
    moment."""
    server = host.start(*words)
    wait_until(lambda: daemons(host) or server.process.poll() is not None, 10)
    return server


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


class Places:
    """Places where a client and its server meet: (name, server's host, client's host, address, environment).
    """

    @staticmethod
    def within(links=None, families=(4, 6)):
        for name, environment in (links or WITHIN).items():
            host = Host(name)
            for family in families:
                yield f"{name}/IPv{family}", host, host, LOOPBACK[family], environment

    @staticmethod
    def between(families=(4, 6)):
        left, right = join_hosts()
        for family in families:
            yield f"two hosts/IPv{family}", left, right, left.addresses[family], {}

    @staticmethod
    def everywhere(families=(4, 6)):
        yield from Places.within(families=families)
        yield from Places.between(families)

    @staticmethod
    def with_lids(places=None):
        """Places where programs address each other by LID. Shared memory only, because datagrams would
        otherwise use UDP."""
        everywhere = itertools.chain(Places.within({"udp": LINKS["udp"], "shm": LINKS["direct"]}, (4,)), Places.between((4,)))
        for name, server_host, client_host, address, environment in places or everywhere:
            yield f"{name}/LID", server_host, client_host, address, {**environment, "RRDMA_LID": "1"}

    @staticmethod
    def as_time_allows(families=(4, 6)):
        """One place by default, every place in the long form. Some programs know IPv4 only."""
        yield from Places.everywhere(families) if Settings.soak else Places.within(SHM, families=(4,))


class Programs(ProcessTest):
    def meet(self, place, server_words, client_words, seconds=60, server_ends=True, settle=0.3, fresh_server=False):
        """Runs both ends. Restarts a client that finds no server yet, and the server too if a half-made call
        has broken it."""
        name, server_host, client_host, _, environment = place

        def serve():
            program = server_host.start(*server_words, environment=environment)
            wait_until(lambda: daemons(server_host) or program.process.poll() is not None, 10)
            return program

        server = serve()
        for attempt in range(20):
            wait_until(lambda program=server: program.process.poll() is not None, settle)
            client = client_host.start(*client_words, environment=environment)
            if client.ends_well(seconds):
                break
            if not any(word in client.output() for word in REFUSALS) or attempt == 19:
                client.complain(f"failed ({name})")
            if fresh_server:
                server.end()
                server = serve()
        if server_ends:
            server.succeed(20)
        else:
            server.signal(signal.SIGTERM)
            server.end()
        report(f"{name}: {' '.join(client_words[:1])} well")
        return client

    def test_rping(self):
        for place in Places.everywhere():
            address, count = place[3], amount(200, 1000)
            self.meet(place, ["rping", "-s", "-a", address, "-C", count, "-S", 4096, "-V"],
                      ["rping", "-c", "-a", address, "-C", count, "-S", 4096, "-V"])

    def test_rping_persistent(self):
        for name, server_host, client_host, address, environment in Places.as_time_allows():
            server = server_host.start("rping", "-s", "-P", "-a", address, environment=environment)
            wait_until(lambda host=server_host: daemons(host), 10)
            wait_until(lambda program=server: program.process.poll() is not None, 1)
            clients = amount(10, 50)
            for _ in range(clients):
                client_host.run("rping", "-c", "-a", address, "-C", 10, "-V", environment=environment)
            self.assertIsNone(server.process.poll(), server.output())
            server.end()
            report(f"{name}: {clients} clients of one server")

    def test_ucmatose(self):
        for place in Places.everywhere():
            count = amount(25, 100)
            self.meet(place, ["ucmatose", "-c", count, "-b", place[3]], ["ucmatose", "-s", place[3], "-c", count])

    def test_udaddy(self):
        for place in Places.everywhere():
            self.meet(place, ["udaddy", "-b", place[3]], ["udaddy", "-s", place[3]])

    def test_udpong(self):
        for place in Places.as_time_allows():
            self.meet(place, ["udpong", "-b", place[3]], ["udpong", "-s", place[3], "-C", 100, "-S", 900],
                      server_ends=False)

    def hear_multicast(self, sender_host, sender_address, receivers, group):
        heard = [host.start("mckey", "-m", group, "-b", address, prefix=("stdbuf", "-oL")) for host, address in receivers]
        for receiver in heard:
            receiver.await_line("receiving")
        sender_host.run("mckey", "-s", "-m", group, "-b", sender_address)
        for receiver in heard:
            receiver.succeed(30)
        report(f"{group} from {sender_address} reached {len(heard)} receivers")

    def test_mckey(self):
        # A sender waits five seconds for its fabric.
        for environment in WITHIN.values() if Settings.soak else ({},):
            host = Host()
            host.environment.update(environment)
            self.hear_multicast(host, "127.0.0.1", [(host, "127.0.0.1")] * 2, "239.1.2.3")
        if not Settings.soak:
            return
        left, right = join_hosts()
        for family, group in ((4, "239.1.2.4"), (6, "ff15::77")):
            receivers = [(right, right.addresses[family]), (right, right.addresses[family]), (left, left.addresses[family])]
            self.hear_multicast(left, left.addresses[family], receivers, group)

    def test_rdma_client(self):
        for place in Places.everywhere():
            self.meet(place, ["rdma_server", "-s", place[3]], ["rdma_client", "-s", place[3]])

    def test_rdma_xclient(self):
        for kind in "r", "x":
            for place in Places.as_time_allows(families=(4,)):
                self.meet(place, ["rdma_xserver", "-c", kind], ["rdma_xclient", "-s", place[3], "-c", kind])

    def test_rstream(self):
        for place in Places.as_time_allows():
            for sizes in (["-S", "all"], ["-S", "all", "-T", "async"]) if Settings.soak else (["-S", 4096],):
                self.meet(place, ["rstream", "-b", place[3], *sizes], ["rstream", "-s", place[3], *sizes], 120)

    def test_riostream(self):
        # Both ends spin on their memory, so on two cores their background threads wait for a core. Over UDP
        # the sizes "all" (32 B to 4 MiB) would take minutes; the default sizes take half a minute.
        sizes = [] if Settings.soak else ["-S", 4096]
        for place in Places.as_time_allows():
            self.meet(place, ["riostream", "-b", place[3], *sizes], ["riostream", "-s", place[3], *sizes], 120)

    def test_rcopy(self):
        octets = amount(64, 1024) * 1024 * 1024
        source, target = Stage.prefix.scratch / "copied-from", Stage.prefix.scratch / "copied-to"
        with open(source, "wb") as file:
            for _ in range(octets // (1 << 20)):
                file.write(os.urandom(1 << 20))
        wanted = digest(source)
        for name, server_host, client_host, address, environment in Places.as_time_allows(families=(4,)):
            server = server_host.start("rcopy", environment=environment)
            wait_until(lambda host=server_host: daemons(host), 10)
            wait_until(lambda program=server: program.process.poll() is not None, 1)
            client = client_host.run("rcopy", source, f"{address}:{target}", seconds=240, environment=environment)
            self.assertEqual(digest(target), wanted)
            server.end()
            target.unlink()
            report(f"{name}: {octets >> 20} MiB, checksums equal; {client.output().splitlines()[-1]}")

    def test_cmtime(self):
        count = amount(100, 1000)
        # Newer ones also connect without QPs, by made-up QPNs. Two ends on one host must not have the same.
        others = ["-q", "200000"] if "base_qpn" in pathlib.Path(shutil.which("cmtime")).read_text(encoding="latin-1") else []
        for place in Places.as_time_allows():
            client = self.meet(place, ["cmtime", "-b", place[3], *others], ["cmtime", "-s", place[3], "-c", count], 120, server_ends=False)
            for line in client.output().splitlines():
                if line.startswith(("step", "connect", "disconnect", "resolve", "full")):
                    report(line)

    def test_librspreload(self):
        """Runs a TCP echo that knows nothing of RDMA over rsockets. Its ports show that it does not use TCP.
        """
        found = sorted(pathlib.Path("/usr/lib").glob("*/rsocket/librspreload.so"))
        if not found:
            self.skipTest("librspreload is not installed")
        for name, server_host, client_host, address, environment in Places.as_time_allows():
            environment = {**environment, "LD_PRELOAD": str(found[0])}
            server = server_host.start("tcp_echo", "server", address, 9999, environment=environment)
            server.await_line("listening")
            client = client_host.run("tcp_echo", "client", address, 9999, environment=environment)
            server.succeed(20)
            self.assertIn("all echoes right", client.output())
            self.assertTrue(daemons(server_host), "nobody used RRDMA")
            report(f"{name}: an unmodified echo")

    @needs("qperf")
    def test_qperf(self):
        for place in Places.as_time_allows(families=(4,)):
            for measure in ("rc_lat", "rc_bw", "rc_rdma_read_bw", "rc_rdma_write_bw"):
                self.meet(place, QPERF_SERVER, [*QPERF_CLIENT, "-cm1", place[3], measure], server_ends=False)

    @needs("qperf")
    def test_qperf_datagrams(self):
        """The ud_* tests of qperf ignore -cm1 (and print so) and create address handles with a LID and
        without a GRH. A RoCE device has no LIDs. Such a handle is EINVAL here, as in the kernel, whose
        core refuses it for every port that requires a GRH. The test checks that nothing else breaks and
        that the error text names the workaround, even if only one end uses it. test_lid_qperf tests with
        the workaround."""
        host = Host()
        server = host.start("qperf", environment={"RRDMA_LOG": "info"})
        wait_until(lambda: server.process.poll() is not None, 1)
        for measure, lid in ("ud_lat", "0"), ("ud_bw", "0"), ("ud_lat", "1"):
            said_before = len(server.output())
            client = host.start("qperf", "-cm1", "-t", 1, "127.0.0.1", measure, environment={"RRDMA_LID": lid, "RRDMA_LOG": "info"})
            self.assertNotEqual(client.wait(30), 0)
            self.assertIn("-cm1 set but not used", client.output())
            self.assertIn("failed to create address handle: Invalid argument", client.output())
            # The end that fails first terminates the other.
            self.assertIn("`rrdma run --lid`", client.output() + server.output()[said_before:])
        self.assertIsNone(server.process.poll(), server.output())

    @needs("qperf")
    def test_lid_qperf(self):
        """Uses address handles in every place. The last place adds addresses of connected QPs, which need
        qperf without -cm1. The default of 2 KiB exceeds an interface MTU of 1500. The client waits for its
        server by itself."""
        for name, server_host, client_host, address, environment in Places.with_lids():
            server = server_host.start(*QPERF_SERVER, environment=environment)
            client = client_host.run(*QPERF_CLIENT, "-cm1", "-m", 1024, address, "ud_lat", "ud_bw", environment=environment)
            self.assertRegex(client.output(), r"(?s)latency +=.*recv_bw +=")
            if server_host is not client_host:
                client = client_host.run(*QPERF_CLIENT, "-mt", 1024, address, "uc_bw", "rc_lat", environment=environment)
                self.assertRegex(client.output(), r"(?s)recv_bw +=.*latency +=")
            self.assertIsNone(server.process.poll(), server.output())
            server.end()
            report(f"{name}: qperf well")

    def test_lid_pingpong(self):
        """Uses the command's own option. The LID that the program prints is that of the address."""
        host = Host()
        words = [Stage.prefix.program("rrdma"), "run", "--lid", "--", "ibv_rc_pingpong"]
        server = host.start(*words, through_rrdma=False)
        wait_until(lambda: server.process.poll() is not None, 1)
        client = host.start(*words, "127.0.0.1", through_rrdma=False)
        client.succeed(30)
        server.succeed(20)
        for program in client, server:
            self.assertIn("local address:  LID 0x0001", program.output())
            self.assertIn("remote address: LID 0x0001", program.output())
        file = "/sys/class/infiniband/rrdma0/ports/1/lid"
        self.assertEqual(host.run("cat", file, environment={"RRDMA_LID": "1"}).output(), "0x1\n")
        self.assertEqual(host.run("cat", file).output(), "0x0\n")

    def test_lid_udpong(self):
        """Datagram rsockets send to their own port by its LID."""
        for place in Places.with_lids(Places.within(SHM, families=(4,))):
            self.meet(place, ["udpong", "-b", place[3]], ["udpong", "-s", place[3], "-C", 100, "-S", 900],
                      server_ends=False)

    @needs("fi_pingpong")
    def test_libfabric(self):
        # libfabric's verbs provider finds no endpoint of type msg if there are only loopback interfaces, and
        # its server listens on 127.0.0.1.
        left, _ = join_hosts()
        for kind in "msg", "rdm":
            self.meet((f"one host/{kind}", left, left, None, {}), ["fi_pingpong", "-p", "verbs", "-e", kind],
                      ["fi_pingpong", "-p", "verbs", "-e", kind, "127.0.0.1"], settle=1)

    def test_ucx(self):
        """UCX connects by address through rdma_cm with its own wire-up, private data and reject reasons."""
        if not pathlib.Path(Stage.prefix.program("ucp_talk")).exists():
            self.skipTest("not built: UCX's headers are not installed")
        ucx = {"UCX_TLS": "rc_v,self", "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm", "UCX_NET_DEVICES": "rrdma0:1"}
        for number, (name, server_host, client_host, address, environment) in enumerate(Places.everywhere()):
            place = name, server_host, client_host, address, {**environment, **ucx}
            client = self.meet(place, ["ucp_talk", "server", address, 7600 + number], ["ucp_talk", "client", address, 7600 + number])
            self.assertIn("all echoes right", client.output())
            self.assertIn("rdmacm", client.output())

    @needs("ib_send_bw")
    def test_perftest(self):
        # With -R the program connects twice, and does not check whether the server listens again before the
        # second call. On a busy machine the client is rejected and crashes with a segmentation fault of its
        # own.
        for place in Places.as_time_allows(families=(4,)):
            for program in ("ib_send_bw", "ib_write_bw", "ib_read_lat"):
                self.meet(place, [program, "-R", "-n", 200], [program, "-R", "-n", 200, place[3]], settle=1, fresh_server=True)

    def test_bad_input(self):
        host = Host()
        neighbour = host.start("rping", "-s", "-P", "-a", "127.0.0.1")
        wait_until(lambda: daemons(host), 10)
        wait_until(lambda: neighbour.process.poll() is not None, 1)
        script = Stage.prefix.scratch / "bad_input.py"
        shutil.copy(pathlib.Path(__file__).resolve().parent / "bad_input.py", script)
        script.chmod(0o755)
        self.assertIn("every answer right", host.run("/usr/bin/python3", "-B", script).output())
        host.run("rping", "-c", "-a", "127.0.0.1", "-C", 10, "-V")

    def test_loss(self):
        """MADs are dropped and duplicated: all connections are established and closed, and the daemon keeps
        no state."""
        host = Host()
        environment = {"RRDMA_MAD_FAULT": "drop=5%,dup=1%,seed=3"}
        keeper = host.start("rping", "-s", "-P", "-a", "127.0.0.1", environment=environment)
        self.assertTrue(wait_until(lambda: daemons(host), 10))
        daemon, count = daemons(host)[0], amount(200, 1000)
        place = ("5 % lost", host, host, "127.0.0.1", environment)

        def descriptors():
            return len(os.listdir(f"/proc/{daemon}/fd"))

        def resident():
            with open(f"/proc/{daemon}/statm", encoding="ascii") as file:
                return int(file.read().split()[1])

        self.meet(place, ["ucmatose", "-c", count, "-p", 7200], ["ucmatose", "-s", "127.0.0.1", "-c", count, "-p", 7200], 150)
        before = descriptors(), resident()
        for _ in range(2):
            self.meet(place, ["ucmatose", "-c", count, "-p", 7200], ["ucmatose", "-s", "127.0.0.1", "-c", count, "-p", 7200], 150)
        self.assertTrue(wait_until(lambda: descriptors() <= before[0], 10), "descriptors are left in the daemon")
        report(f"{3 * count} connections; daemon: {before[0]} descriptors, {before[1]} pages, then {descriptors()} and {resident()}")
        self.assertLess(resident(), before[1] * 3 // 2)
        self.assertIsNone(keeper.process.poll())

    def test_death_disconnects(self):
        """A program dies: its peer gets DISCONNECTED within a second and exits by itself."""
        host = Host()
        server = host.start("rping", "-s", "-a", "127.0.0.1", "-v")
        wait_until(lambda: daemons(host), 10)
        wait_until(lambda: server.process.poll() is not None, 1)
        client = host.start("rping", "-c", "-a", "127.0.0.1", "-C", 1000000)
        server.await_line("server ping data")
        client.signal(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: "DISCONNECT" in server.output() or server.process.poll() is not None, 2), server.output()[-500:])

    def test_daemon_death(self):
        """The daemon is killed: the established connection continues, and a listener still gets new calls."""
        host = Host()
        server = host.start("rping", "-s", "-P", "-a", "127.0.0.1")
        wait_until(lambda: daemons(host), 10)
        wait_until(lambda: server.process.poll() is not None, 1)
        client = host.start("rping", "-c", "-a", "127.0.0.1", "-C", 20000, "-v")
        client.await_line("ping data")
        for pid in daemons(host):
            end_process(pid)
        client.succeed(120)
        host.run("rping", "-c", "-a", "127.0.0.1", "-C", 10)
        self.assertIsNone(server.process.poll(), server.output())


if __name__ == "__main__":
    main()
