# Tests `rrdma doctor`: provokes every remedy, and checks that a healthy machine has no bad finding.
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import command
import surroundings
from command import RRDMA, run, run_json

SANDBOX = pathlib.Path(__file__).with_name("without_io_uring.py")


def findings(*words, status=None, wrapper=(), **rest):
    """The findings by subject."""
    if wrapper:
        done = subprocess.run([*wrapper, RRDMA, "doctor", "--json", *words], capture_output=True, text=True, timeout=60, **rest)
        return {finding["check"]: finding for finding in json.loads(done.stdout)}
    return {finding["check"]: finding for finding in run_json("doctor", "--json", *words, status=status, seconds=60, **rest)}


class FarHost:
    """Another network namespace at the other end of the cable; `start` runs programs there."""

    def __enter__(self):
        self.anchor = subprocess.Popen(["unshare", "--net", "sleep", "300"])
        def moved():
            return subprocess.run(["ip", "link", "set", "eth1", "netns", str(self.anchor.pid)], capture_output=True).returncode == 0
        here = os.readlink("/proc/self/ns/net")
        surroundings.wait_for(lambda: os.readlink(f"/proc/{self.anchor.pid}/ns/net") != here)
        subprocess.run(self.inside("sh", "-c", "for group in all default; do echo 0 > /proc/sys/net/ipv6/conf/$group/accept_dad; done"), check=True)
        surroundings.wait_for(moved)
        for words in (["link", "set", "lo", "up"], ["link", "set", "eth1", "up"], ["addr", "add", "10.9.0.2/24", "dev", "eth1"],
                      ["addr", "add", "fd09::2/64", "dev", "eth1", "nodad"], ["route", "add", "default", "via", "10.9.0.1"]):
            subprocess.run(self.inside("ip", *words), check=True)
        return self

    def inside(self, *words):
        return ["nsenter", "--target", str(self.anchor.pid), "--net", *words]

    def __exit__(self, *_):
        self.anchor.kill()
        self.anchor.wait()


class Machine(unittest.TestCase):
    def test_its_own_device_is_not_the_kernels(self):
        """Under `rrdma run`, the files of the device are those of RRDMA."""
        under = findings(wrapper=(RRDMA, "run", "--"))
        self.assertEqual(under["kernel devices"]["sentence"], findings()["kernel devices"]["sentence"])

    def test_a_machine_in_order(self):
        surroundings.ip("link", "set", "eth0", "mtu", "4200")
        try:
            seen = findings(status=0)
        finally:
            surroundings.ip("link", "set", "eth0", "mtu", "1500")
        self.assertEqual([f for f in seen.values() if f["health"] == "bad"], [])
        for check in ("kernel", "library", "UDP trains", "steering", "port 4791", "daemon", "rrdma0", "MTU", "io_uring"):
            self.assertEqual(seen[check]["health"], "ok", seen[check])
            self.assertEqual(seen[check]["remedy"], "")
        self.assertIn("an IB MTU of 4096", seen["MTU"]["sentence"])

    def test_text(self):
        output, _ = run("doctor")
        self.assertRegex(output, r"(?m)^ok    kernel: Linux ")
        self.assertRegex(output, r"(?m)^warn  MTU: 1500 of eth0 gives an IB MTU of 1024")
        self.assertRegex(output, r"(?m)^      remedy: .*as root: ip link set eth0 mtu\s+4192")
        self.assertRegex(output.splitlines()[-1], r"RRDMA works here; \d could be better\.")
        self.assertNotIn("\x1b", output)
        for line in output.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_io_uring_disabled(self):
        seen = findings(wrapper=[sys.executable, str(SANDBOX)])["io_uring"]
        self.assertEqual(seen["health"], "warn")
        self.assertIn("io_uring_setup", seen["remedy"])
        self.assertIn("Operation not permitted", seen["sentence"])

    def bound_over(self, path, text):
        """Replaces the contents of a file in /proc, in this mount namespace."""
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        subprocess.run(["mount", "--bind", file.name, path], check=True)
        self.addCleanup(subprocess.run, ["umount", path], check=True)

    def test_io_uring_disabled_by_the_administrator(self):
        if not os.path.exists("/proc/sys/kernel/io_uring_disabled"):
            self.skipTest("this kernel has no such setting")
        self.bound_over("/proc/sys/kernel/io_uring_disabled", "2\n")
        seen = findings(wrapper=[sys.executable, str(SANDBOX)])["io_uring"]
        self.assertIn("sysctl -w kernel.io_uring_disabled=0", seen["remedy"])

    def test_tiny_receive_buffer(self):
        if not os.path.exists("/proc/sys/net/core/rmem_max"):
            self.skipTest("a network namespace of this kernel has no such setting")
        self.bound_over("/proc/sys/net/core/rmem_max", "212992\n")
        seen = findings()["receive buffer"]
        self.assertEqual(seen["health"], "warn")
        self.assertIn("208 KiB", seen["sentence"])
        self.assertIn("sysctl -w net.core.rmem_max=4194304", seen["remedy"])
        self.bound_over("/proc/sys/net/core/rmem_max", "4096\n")
        self.assertEqual(findings(status=1)["receive buffer"]["health"], "bad")

    def test_port_taken(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind(("0.0.0.0", 4791))
            seen = findings(status=1)["port 4791"]
            self.assertEqual(seen["health"], "bad")
            self.assertIn("held by", seen["sentence"])
            self.assertIn("ss -ulpn", seen["remedy"])
        self.assertEqual(findings()["port 4791"]["sentence"], "free")

    def test_port_of_the_daemon(self):
        daemon = subprocess.Popen([os.path.join(os.path.dirname(RRDMA), "rrdmad"), "--stay"], stderr=subprocess.DEVNULL)
        try:
            surroundings.wait_for(lambda: findings()["port 4791"]["sentence"] == "held by the daemon")
            self.assertIn(f"pid {daemon.pid}", findings()["daemon"]["sentence"])
        finally:
            daemon.terminate()
            daemon.wait()

    def test_mtu_too_small(self):
        seen = findings()["MTU"]
        self.assertEqual(seen["health"], "warn")
        self.assertIn("4096 needs 4192", seen["sentence"])
        self.assertIn("ip link set eth0 mtu 4192", seen["remedy"])

    def test_few_descriptors(self):
        seen = findings(wrapper=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])["open files"]
        self.assertEqual(seen["health"], "warn")
        self.assertIn("limits.conf", seen["remedy"])

    def test_interface(self):
        self.assertIn("name one that exists", findings("--netdev", "nosuch", status=1)["interface"]["remedy"])
        surroundings.ip("link", "add", "dark", "type", "bridge")
        self.assertIn("ip link set dark up", findings("--netdev", "dark", status=1)["rrdma0"]["remedy"])
        self.assertIn("--netdev", findings("--netdev", "lo")["rrdma0"]["sentence"])

    def test_library_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/bin")
            shutil.copy(RRDMA, f"{folder}/bin/rrdma")
            done = subprocess.run([f"{folder}/bin/rrdma", "doctor", "--json"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            (seen,) = (f for f in json.loads(done.stdout) if f["check"] == "library")
            self.assertIn("install RRDMA whole", seen["remedy"])


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_suitable(self):
        self.assertEqual(findings("--program", "ibv_devinfo", status=0)["program"]["health"], "ok")

    def test_missing(self):
        seen = findings("--program", "no-such-program", status=1)["program"]
        self.assertIn("on the PATH", seen["sentence"])

    def test_static(self):
        built = subprocess.run(["cc", "-static", "-x", "c", "-", "-o", f"{self.folder}/static"], input="int main(void) { return 0; }", text=True)
        self.assertEqual(built.returncode, 0)
        seen = findings("--program", f"{self.folder}/static", status=1)["program"]
        self.assertIn("statically linked", seen["sentence"])
        self.assertIn("link it dynamically", seen["remedy"])

    def test_setuid(self):
        copy = f"{self.folder}/true"
        shutil.copy("/bin/true", copy)
        try:
            os.chown(copy, 1, -1)  # setuid to the same user grants nothing
            os.chmod(copy, 0o4755)
        except OSError:
            copy = shutil.which("mount")  # owned by a root outside this namespace
        seen = findings("--program", copy, status=1)["program"]
        self.assertIn("setuid", seen["sentence"])
        self.assertIn("run a copy without these rights", seen["remedy"])


class Peers(unittest.TestCase):
    NAME, MISSING, SILENT = "no.such.name.invalid", "10.9.0.77", "10.9.0.3"
    LISTENER = f"import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('{SILENT}', 4791)); print(flush=True); time.sleep(300)"

    @classmethod
    def setUpClass(cls):
        cls.far = FarHost().__enter__()
        subprocess.run(cls.far.inside("ip", "addr", "add", f"{cls.SILENT}/24", "dev", "eth1"), check=True)
        cls.listener = subprocess.Popen(cls.far.inside(sys.executable, "-c", cls.LISTENER), stdout=subprocess.PIPE)
        cls.listener.stdout.readline()
        # These checks take seconds because there is no answer, so run them concurrently.
        cls.pool = ThreadPoolExecutor()
        cls.slow = {peer: cls.pool.submit(findings, "--peer", peer, status=1, environment={"RES_OPTIONS": "timeout:1 attempts:1"})
                    for peer in (cls.NAME, cls.MISSING, cls.SILENT)}

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        cls.listener.kill()
        cls.listener.communicate()
        cls.far.__exit__()

    def answer(self, peer):
        return self.slow[peer].result()[f"peer {peer}"]

    def test_nobody_serves_the_port(self):
        seen = findings("--peer", "10.9.0.2", status=1)["peer 10.9.0.2"]
        self.assertIn("nobody serves UDP port 4791", seen["sentence"])
        self.assertIn("rrdmad --stay", seen["remedy"])

    def test_silence(self):
        seen = self.answer(self.SILENT)
        self.assertIn("does not answer on UDP port 4791", seen["sentence"])
        self.assertIn("firewalls", seen["remedy"])

    def test_no_such_host(self):
        seen = self.answer(self.MISSING)
        self.assertIn("cannot be reached", seen["sentence"])
        self.assertIn("ping 10.9.0.77", seen["remedy"])

    def test_no_route(self):
        surroundings.ip("route", "del", "default")
        try:
            self.assertIn("ip route get", findings("--peer", "198.51.100.1", status=1)["peer 198.51.100.1"]["remedy"])
        finally:
            surroundings.ip("route", "add", "default", "via", "10.9.0.2", "dev", "eth0")

    def test_no_such_name(self):
        self.assertIn("resolved", self.answer(self.NAME)["sentence"])

    def test_an_answer(self):
        self.answer(self.SILENT)
        self.listener.kill()  # the port is shared by all addresses there
        self.listener.wait()
        daemon = subprocess.Popen(self.far.inside(os.path.join(os.path.dirname(RRDMA), "rrdmad"), "--stay"), stderr=subprocess.DEVNULL)
        try:
            surroundings.wait_for(lambda: findings("--peer", "10.9.0.2")["peer 10.9.0.2"]["health"] == "ok", 30)
            for address in ("10.9.0.2", "fd09::2"):
                seen = findings("--peer", address, status=0)[f"peer {address}"]
                self.assertEqual(seen["health"], "ok")
                self.assertRegex(seen["sentence"], r"answers on UDP port 4791, after \d+\.\d ms")
        finally:
            daemon.terminate()
            daemon.wait()

    def test_oneself(self):
        self.assertEqual(findings("--peer", "10.9.0.1")["peer 10.9.0.1"]["health"], "ok")


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    command.main()
