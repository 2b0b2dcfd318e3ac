#!/usr/bin/env python3
"""The portable release of `make dist` in bare Debian roots, from the archive alone: as a random user without capabilities,
with a read-only root and a filter like Docker's (root.py). tarball_test.py SUITE runs the demo's programs, rping, UCX and
Open MPI there, and installs the package; "SUITE_pods" runs them between two rootless pods, and between two containers of one pod. Exits with 77 if there is
no archive (dist/, or the folder RRDMA_DIST) or no root can be made. RRDMA_ROOTS is a folder with ready roots, SUITE.tar."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import root

SOURCE = pathlib.Path(__file__).resolve().parents[3]
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
SUITE = sys.argv[1].removesuffix("_pods")
UCX = {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "rrdma0:1"}
# Debian 13 builds it with MPI, and it waits for mpirun unless -P forbids that; Debian 12's has no such option.
UCX_TEST = "ucx_perftest -t tag_bw -s 65536 -n 200 -w 10 $(ucx_perftest -h | sed -n 's/.* -P <0|1>.*/-P 0/p')"
MPI = "-x UCX_NET_DEVICES=rrdma0:1 -x UCX_TLS=rc_v,self --mca pml ucx"
MPI_TEST = "rrdma run -- python3 -m mpi4py.bench ringtest -n 65536 -l 20"
SERVER_SECONDS = 3  # until a server listens


def newest(pattern):
    found = sorted(pathlib.Path(os.environ.get("RRDMA_DIST", SOURCE / "dist")).glob(pattern))
    return found[-1] if found else None


def archive():
    return newest(f"rrdma-*-linux-{ARCH}.tar.xz")


def both(server, client):
    """A script that runs a server and then a client, both in this container."""
    return f"({server}) >/tmp/server 2>&1 & sleep {SERVER_SECONDS}; {client} >/tmp/client 2>&1; status=$?; test $status = 0 || kill $!; wait; cat /tmp/server /tmp/client; exit $status"


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rrdma-tarball.", dir="/var/tmp")
        try:
            cls.root = root.Root(SUITE, archive(), cls.folder)
            root.Pod(rootless=True).end()
        except (RuntimeError, OSError) as error:
            print(f"tarball: {error}")
            shutil.rmtree(cls.folder, ignore_errors=True)
            os._exit(77)
        shutil.copy(pathlib.Path(__file__).with_name("remote_shell.py"), cls.root.path / "opt/remote_shell")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)


class OneRoot(Tarball):
    def ok(self, script, *words, **more):
        status, output = self.root.run(script, **more)
        self.assertEqual(status, 0, output[-3000:])
        for word in words:
            self.assertIn(word, output)
        return output

    def test_the_cage(self):
        """The user can write nowhere but /tmp and /dev/shm, and the filter refuses what Docker's refuses."""
        self.ok("! touch /opt/x 2>/dev/null && ! touch /etc/x 2>/dev/null && touch /tmp/x /dev/shm/x && ! unshare --user true 2>/dev/null && test $(id -u) -gt 999999999")
        self.assertIn("CapBnd:\t0000000000000000", self.ok("cat /proc/self/status", "Seccomp:\t2", "CapEff:\t0000000000000000"))

    def test_devinfo_within_seconds(self):
        began = time.monotonic()
        self.ok("rrdma run -- ibv_devinfo", "rrdma0", "PORT_ACTIVE")
        print(f"ibv_devinfo answered after {time.monotonic() - began:.1f} s")

    def test_doctor(self):
        output = self.ok("rrdma doctor", "RRDMA works here")
        for subject in ("io_uring", "direct memory"):
            self.assertRegex(output, f"(?m)^warn  {subject}: .*not permitted")

    def test_pingpong(self):
        self.ok(both("rrdma run -- ibv_rc_pingpong -g 0", "rrdma run -- ibv_rc_pingpong -g 0 127.0.0.1"), "1000 iters")

    def test_write_bandwidth(self):
        self.ok(both("rrdma run -- ib_write_bw -F -x 0 -s 4096 -n 100", "rrdma run -- ib_write_bw -F -x 0 -s 4096 -n 100 127.0.0.1"), "4096")

    @unittest.skipIf(SUITE == "bullseye", "librdmacm of rdma-core 33 does not find the device")
    def test_rping(self):
        self.ok(both("rrdma run -- rping -s -a 127.0.0.1 -C 5 -v", "rrdma run -- rping -c -a 127.0.0.1 -C 5 -v"), "ping data")

    def test_ucx(self):
        self.ok("rrdma run -- ucx_info -d", "rrdma0")
        self.ok(both(f"rrdma run -- {UCX_TEST}", f"rrdma run -- {UCX_TEST} 127.0.0.1"), "Final:", **UCX)

    @unittest.skipIf(SUITE == "bullseye", "not tried with Open MPI 4.1.0")
    def test_open_mpi(self):
        self.ok(f"mpirun --oversubscribe -np 2 {MPI} {MPI_TEST}", "time for 20 loops")

    def test_preload_without_the_command(self):
        """A container activates RRDMA by one variable."""
        self.ok("ibv_devinfo", "rrdma0", LD_PRELOAD="/opt/rrdma/lib/librrdma.so.1")
        self.ok("! ibv_devinfo 2>&1 | grep rrdma0", LD_PRELOAD="/opt/rrdma/lib/librrdma.so.1", RRDMA_EXCEPT="sshd:ibv_*")

    def test_package(self):
        """The package of the release: it installs beside what the root has, works without the archive, and leaves nothing."""
        package = newest(f"rrdma_*_{ARCH}.deb")
        shutil.copy(package, self.root.path / "opt/rrdma.deb")
        dpkg = ["chroot", self.root.path, "dpkg"]
        subprocess.run([*dpkg, "--install", "/opt/rrdma.deb"], check=True, capture_output=True)
        self.ok("readlink -f /usr/bin/rrdma && rrdma run -- ibv_devinfo && rrdma doctor", "/usr/lib/rrdma/bin/rrdma", "rrdma0", "PORT_ACTIVE", PATH="/usr/bin:/bin")
        self.ok("dpkg --verify rrdma && test -e /usr/share/man/man1/rrdma.1 && test -e /usr/share/doc/rrdma/copyright", PATH="/usr/bin:/bin")
        subprocess.run([*dpkg, "--purge", "rrdma"], check=True, capture_output=True)
        self.ok("! ls /usr/lib/rrdma /usr/bin/rrdma 2>/dev/null", PATH="/usr/bin:/bin")


class Pods(Tarball):
    """Two rootless pods, joined by a cable."""

    def setUp(self):
        self.first, self.second = (root.Pod(name, rootless=True) for name in ("first", "second"))
        self.addCleanup(self.first.end)
        self.addCleanup(self.second.end)
        root.connect(self.first, self.second)

    def pair(self, server, client, word, to, **environment):
        """A server in a container of the first pod, and a client in a container of the pod `to`."""
        serving = self.root.start(server, self.first, **environment)
        time.sleep(SERVER_SECONDS)
        status, output = self.root.run(client, to, **environment)
        served = root.finish(serving, 10 if status == 0 else 1)[1]
        self.assertEqual(status, 0, output[-3000:] + served[-3000:])
        self.assertIn(word, output + served)

    def run_programs(self, to, **more):
        index = "$(rrdma gids | awk '/10.88/ { print $2; exit }')"
        self.pair(f"rrdma run -- ib_write_bw -F -x {index} -s 4096 -n 100", f"rrdma run -- ib_write_bw -F -x {index} -s 4096 -n 100 10.88.0.1", "4096", to, **more)
        self.pair("rrdma run -- rping -s -a 10.88.0.1 -C 5 -v", "rrdma run -- rping -c -a 10.88.0.1 -C 5 -v", "ping data", to, **more)
        self.pair(f"rrdma run -- {UCX_TEST}", f"rrdma run -- {UCX_TEST} 10.88.0.1", "Final:", to, **UCX, **more)

    def test_two_pods(self):
        self.run_programs(self.second)

    def test_open_mpi_in_two_pods(self):
        agent = {"OMPI_MCA_plm_rsh_agent": "/opt/remote_shell", "PRTE_MCA_plm_ssh_agent": "/opt/remote_shell"}
        self.pair("timeout 30 /opt/remote_shell serve", f"mpirun --host second,first -np 2 {MPI} {MPI_TEST}", "time for 20 loops", self.second, **agent)

    def test_two_containers_of_one_pod(self):
        """One network namespace; PID and mount namespaces of their own. A server keeps its part of the port when the container
        with the daemon ends. No mpirun: it takes one address for one host."""
        first = self.root.start(f"timeout {2 * SERVER_SECONDS} rrdma run -- ibv_asyncwatch", self.first, RRDMA_POD="1")
        time.sleep(SERVER_SECONDS / 2)
        resident = self.root.start("rrdma run -- rping -s -P -p 9000 -a 10.88.0.1", self.first, RRDMA_POD="1")
        root.finish(first, 10 * SERVER_SECONDS)
        self.run_programs(self.first, RRDMA_POD="1")
        status, output = self.root.run("rrdma run -- rping -c -p 9000 -a 10.88.0.1 -C 5 -v; rrdma stat", self.first, RRDMA_POD="1")
        resident.kill()
        self.assertEqual(status, 0, output + resident.communicate()[0])
        self.assertIn("rping", output)

    def test_two_containers_without_the_variable(self):
        """They are two users, and the second is told so."""
        resident = self.root.start("rrdma run -- rping -s -P -a 10.88.0.1", self.first)
        time.sleep(SERVER_SECONDS)
        status, output = self.root.run("rrdma run -- rping -c -a 10.88.0.1 -C 5 -v; rrdma explain", self.first)
        resident.kill()
        resident.communicate()
        self.assertIn("set RRDMA_POD=1", " ".join(output.split()))


if __name__ == "__main__":
    if archive() is None:
        print("tarball: there is no release in dist/; run `make dist`")
        sys.exit(77)
    chosen = Pods if sys.argv[1].endswith("_pods") else OneRoot
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(chosen) if len(sys.argv) < 3 else unittest.TestSuite(chosen(name) for name in sys.argv[2:])
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    sys.exit(0 if result.wasSuccessful() else 1)
