#!/usr/bin/env python3
"""The portable release of `make dist` in bare Debian roots, from the archive alone: as a random user, with a read-only
root and Docker's seccomp filter. tarball_test.py SUITE runs the demo's programs, rping and UCX there; "pods" gives two
such users network namespaces of their own, joined by a cable. Exits with 77 if there is no archive (dist/, or the folder
RRDMA_DIST) or no root can be made. RRDMA_ROOTS is a folder with ready roots, SUITE.tar."""

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
SUITE = sys.argv[1] if len(sys.argv) > 1 else "bookworm"


def archive():
    found = sorted(pathlib.Path(os.environ.get("RRDMA_DIST", SOURCE / "dist")).glob(f"rrdma-*-linux-{ARCH}.tar.xz"))
    return found[-1] if found else None


def both(server, client, wait=3):
    """A script that runs a server and then a client, both in this root."""
    return f"({server}) >/tmp/server 2>&1 & sleep {wait}; {client} >/tmp/client 2>&1; status=$?; wait; cat /tmp/server /tmp/client; exit $status"


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rrdma-tarball.", dir="/var/tmp")
        try:
            cls.root = root.Root("bookworm" if SUITE == "pods" else SUITE, archive(), cls.folder)
        except RuntimeError as error:
            print(f"tarball: {error}")
            shutil.rmtree(cls.folder, ignore_errors=True)
            os._exit(77)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def ok(self, script, *words, **more):
        status, output = self.root.run(script, **more)
        self.assertEqual(status, 0, output[-3000:])
        for word in words:
            self.assertIn(word, output)
        return output


class OneRoot(Tarball):
    def test_the_cage(self):
        """The user can write nowhere but /tmp and /dev/shm, and the filter refuses what Docker's refuses."""
        self.ok("! touch /opt/x 2>/dev/null && ! touch /etc/x 2>/dev/null && touch /tmp/x /dev/shm/x && ! unshare --user true 2>/dev/null && test $(id -u) -gt 999999999")

    def test_devinfo_within_seconds(self):
        began = time.monotonic()
        self.ok("rrdma run -- ibv_devinfo", "rrdma0", "PORT_ACTIVE")
        print(f"ibv_devinfo answered after {time.monotonic() - began:.1f} s")

    def test_doctor(self):
        output = self.ok("rrdma doctor; test $? -le 1", "libibverbs")
        self.assertIn("io_uring", output)

    def test_pingpong(self):
        self.ok(both("rrdma run -- ibv_rc_pingpong -g 0", "rrdma run -- ibv_rc_pingpong -g 0 localhost"), "1000 iters")

    def test_write_bandwidth(self):
        self.ok(both("rrdma run -- ib_write_bw -F -x 0 -s 4096 -n 100", "rrdma run -- ib_write_bw -F -x 0 -s 4096 -n 100 localhost"), "4096")

    @unittest.skipIf(SUITE == "bullseye", "librdmacm of rdma-core 33 does not find the device")
    def test_rping(self):
        self.ok(both("rrdma run -- rping -s -a 127.0.0.1 -C 5 -v", "rrdma run -- rping -c -a 127.0.0.1 -C 5 -v"), "ping data")

    def test_ucx(self):
        self.ok("rrdma run -- ucx_info -d", "rrdma0")

    def test_preload_without_the_command(self):
        """A container activates RRDMA by one variable."""
        self.ok("ibv_devinfo", "rrdma0", LD_PRELOAD="/opt/rrdma/lib/librrdma.so.1")
        self.ok("! ibv_devinfo 2>&1 | grep rrdma0", LD_PRELOAD="/opt/rrdma/lib/librrdma.so.1", RRDMA_EXCEPT="sshd:ibv_*")


class Pods(Tarball):
    """Two users in namespaces of their own, joined by a cable."""

    def setUp(self):
        self.pods = [subprocess.Popen(["unshare", "--net", "sleep", "600"]) for _ in range(2)]
        time.sleep(0.5)
        a, b = (pod.pid for pod in self.pods)
        script = f"""ip link add rrdma-a{a} type veth peer name rrdma-b{a}
            ip link set rrdma-a{a} netns {a} name eth0; ip link set rrdma-b{a} netns {b} name eth0
            nsenter -t {a} -n sh -c 'ip link set lo up; ip address add 10.88.0.1/24 dev eth0; ip link set eth0 up'
            nsenter -t {b} -n sh -c 'ip link set lo up; ip address add 10.88.0.2/24 dev eth0; ip link set eth0 up'"""
        subprocess.run(["sh", "-ec", script], check=True)

    def tearDown(self):
        for pod in self.pods:
            pod.kill()
            pod.wait()

    def pair(self, server, client, word):
        at, to = (pod.pid for pod in self.pods)
        serving = self.root.start(f"sleep 1; {server}", network=at)
        time.sleep(4)
        status, output = self.root.run(client, network=to, user=1_234_567_890)
        try:
            served = serving.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            serving.kill()
            served = serving.communicate()[0]
        self.assertEqual(status, 0, output + served)
        self.assertIn(word, output + served)

    def test_write_bandwidth(self):
        index = "$(rrdma gids | awk '/10.88/ { print $2 }')"
        self.pair(f"rrdma run -- ib_write_bw -F -x {index} -s 4096 -n 100", f"rrdma run -- ib_write_bw -F -x {index} -s 4096 -n 100 10.88.0.1", "4096")

    def test_rping(self):
        self.pair("rrdma run -- rping -s -a 10.88.0.1 -C 5 -v", "rrdma run -- rping -c -a 10.88.0.1 -C 5 -v", "ping data")

    def test_two_containers_of_one_pod(self):
        """One network namespace, two PID, mount and IPC namespaces, two users."""
        self.pods[1], kept = self.pods[0], self.pods[1]
        try:
            self.pair("rrdma run -- rping -s -a 10.88.0.1 -C 5 -v", "rrdma run -- rping -c -a 10.88.0.1 -C 5 -v", "ping data")
        finally:
            self.pods[1] = kept


if __name__ == "__main__":
    if archive() is None:
        print("tarball: there is no release in dist/; run `make dist`")
        sys.exit(77)
    chosen = Pods if SUITE == "pods" else OneRoot
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(chosen))
    sys.exit(0 if result.wasSuccessful() else 1)
