"""Private namespaces: all tests and benchmarks create them here. A script restarts itself inside (enter), or holds
further networks beside its own (NetworkNamespace). Root creates plain namespaces; other users create them in a user
namespace in which they are root. All of them end with the process that created them."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NOBODY = 65534
SKIPPED = 77  # ctest's SKIP_RETURN_CODE: this machine cannot run the test, which is not a failure
PR_SET_PDEATHSIG = 1
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000

_INSIDE = "RRDMA_TEST_INSIDE"
_FLAGS = {"net": ["--net"], "mount": ["--mount"], "pid": ["--pid", "--fork", "--kill-child", "--mount-proc"]}

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """Calls a libc function that returns 0 on success."""
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def unshare(*kinds):
    """The command prefix that creates new namespaces ("net", "mount", "pid"); None if that is forbidden."""
    if not shutil.which("unshare"):
        return None
    words = ["unshare", *(flag for kind in kinds for flag in _FLAGS[kind])]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
    refused = subprocess.run([*words, "true"], check=False, capture_output=True).returncode != 0
    return None if refused else words


def is_inside():
    return _INSIDE in os.environ


def enter(*kinds, environment=None, afterwards=None):
    """Restarts this script in new namespaces. True inside, with lo up; False if they are forbidden. Calls `afterwards`,
    if given, when the inner script has ended; otherwise the inner script replaces this one (exec)."""
    if is_inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return True
    words = unshare(*kinds)
    if words is None:
        return False
    environment = dict(os.environ if environment is None else environment)
    environment[_INSIDE] = "1"
    command = [*words, sys.executable, "-B", *sys.argv]
    if afterwards is None:
        os.execvpe(command[0], command, environment)
    status = 1
    try:
        status = subprocess.run(command, env=environment, check=False).returncode
    finally:
        afterwards()
    sys.exit(status)


def is_real_root():
    """True for root of the machine, not only of a user namespace."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


class NetworkNamespace:
    """A second network namespace with lo up, which exists as long as its holder process."""

    def __init__(self):
        self.holder = subprocess.Popen(["sleep", "infinity"], preexec_fn=self._leave_network, stdin=subprocess.DEVNULL)
        self.pid = self.holder.pid
        own = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + 5
        while os.readlink(f"/proc/{self.pid}/ns/net") == own:
            if time.monotonic() > end:
                raise AssertionError("no network namespace could be made")
            time.sleep(0.005)
        self.namespace = os.readlink(f"/proc/{self.pid}/ns/net")
        self.ip("link", "set", "lo", "up")

    @staticmethod
    def _leave_network():
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        call("unshare", CLONE_NEWNET)

    def enter(self):
        """Moves the calling process there; usable as preexec_fn."""
        with open(f"/proc/{self.pid}/ns/net", "rb") as namespace:
            call("setns", namespace.fileno(), CLONE_NEWNET)

    def configure(self, *words):
        subprocess.run(words, preexec_fn=self.enter, check=True, timeout=20)

    def ip(self, *words):
        self.configure("ip", *words)

    def close(self):
        self.holder.kill()
        self.holder.wait()
