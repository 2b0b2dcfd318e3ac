"""Our end: a network namespace with a bridge for RRDMA's device and a tap for the guest, programs that run
under `rrdma run` as an ordinary user, and tcpdump on the tap. The namespaces belong to this process
(enter), so nothing remains when it ends."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))
import namespaces  # noqa: E402

BRIDGE, TAP = "br0", "tap1"
ADDRESS4, ADDRESS6 = "10.77.0.1", "fd77::1"
GUEST4, GUEST6 = "10.77.0.2", "fd77::2"
CANNOT = namespaces.SKIPPED


class CannotRun(Exception):
    pass


def cannot(why):
    print(f"interop: cannot run here: {why}", file=sys.stderr)
    raise CannotRun(why)


def enter():
    """Restarts this program in network, mount and process namespaces of its own; returns inside them."""
    if not os.path.exists("/dev/net/tun"):
        cannot("there is no /dev/net/tun for the guest's network")
    if not namespaces.enter("net", "mount", "pid"):
        cannot("no namespaces: neither root nor user namespaces are at hand")
    # Programs that list interfaces from sysfs must see those of the new namespace.
    subprocess.run(["mount", "-t", "sysfs", "sys", "/sys"], check=False, capture_output=True)


def as_user():
    """Returns a command prefix that drops root's rights. A user namespace has only the one user."""
    if namespaces.is_real_root():
        return ["setpriv", f"--reuid={namespaces.NOBODY}", f"--regid={namespaces.NOBODY}", "--clear-groups", "--"]
    return []


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def write_setting(path, value):
    Path("/proc/sys/net", path).write_text(value)


def set_up_network(mtu):
    ip("link", "set", "lo", "up")
    # Snooping would drop the first multicast packets.
    ip("link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    ip("tuntap", "add", "dev", TAP, "mode", "tap")
    write_setting(f"ipv6/conf/{TAP}/disable_ipv6", "1")
    write_setting(f"ipv6/conf/{BRIDGE}/accept_dad", "0")
    ip("link", "set", TAP, "mtu", str(mtu), "master", BRIDGE, "up")
    ip("link", "set", BRIDGE, "address", "02:77:00:00:00:01", "mtu", str(mtu), "up")
    ip("addr", "add", ADDRESS4 + "/24", "dev", BRIDGE)
    ip("addr", "add", ADDRESS6 + "/64", "dev", BRIDGE, "nodad")


def set_mtu(mtu):
    ip("link", "set", TAP, "mtu", str(mtu))
    ip("link", "set", BRIDGE, "mtu", str(mtu))


def interface_counter(name):
    return int(Path(f"/sys/class/net/{TAP}/statistics/{name}").read_text())


def socket_overflows():
    """Counts datagrams that sockets of this namespace dropped for lack of room or for other errors."""
    total = 0
    names = None
    for line in Path("/proc/net/snmp").read_text().splitlines():
        if line.startswith("Udp: "):
            if names is None:
                names = line.split()
            else:
                total += int(line.split()[names.index("RcvbufErrors")])
    for line in Path("/proc/net/snmp6").read_text().splitlines():
        if line.startswith("Udp6RcvbufErrors"):
            total += int(line.split()[1])
    return total


def tcp_listens(port):
    wanted = f":{port:04X}"
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(wanted) and words[3] == "0A":
                return True
    return False


class Program:
    """A program of ours with its output in a file."""

    def __init__(self, command, output, environment=None):
        self.path = Path(output)
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(environment or {})}, start_new_session=True)
        self.before, self.calm = None, 0

    @property
    def output(self):
        return self.path.read_text(errors="replace")

    def exit_code(self):
        return self.process.poll()

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, sign)
                self.wait(2)

    def rests(self):
        """Asleep in several consecutive samples without using CPU time: it waits for a peer."""
        try:
            words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return True
        now = (words[11], words[12])
        self.calm = self.calm + 1 if words[0] == "S" and now == self.before else 0
        self.before = now
        return self.calm >= 6


class Rrdma:
    """The staged build, copied to a place that an ordinary user can read, whatever the rights of the build
    folder."""

    def __init__(self, build, stage):
        self.stage = Path(stage)
        for source, target in (("bin/rrdma", "bin"), ("bin/rrdmad", "bin"), ("lib/librrdma.so.1", "lib")):
            self.add_program(Path(build, source), target)
        self.command = str(self.stage / "bin/rrdma")

    def add_program(self, path, folder="bin"):
        """Returns the program's new path."""
        if not path.exists():
            raise SystemExit(f"interop: {path} is not built; `make interop-quick` builds what is needed")
        (self.stage / folder).mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(path, self.stage / folder))

    def run(self, words, options=()):
        return [*as_user(), self.command, "run", "--netdev", BRIDGE, *options, "--", *words]

    def gids(self):
        """Returns {4: index, 6: index} of our device, and its name."""
        done = subprocess.run(self.run(["ibv_devinfo", "-v"]), capture_output=True, text=True, timeout=30, check=False)
        name, indices = device_in(done.stdout, ADDRESS4, ADDRESS6)
        if name is None:
            raise SystemExit(f"interop: ibv_devinfo finds no device of ours:\n{done.stdout}{done.stderr}")
        return name, indices


def device_in(text, address4, address6):
    """Reads the output of `ibv_devinfo -v`. Returns the device with the GID of the IPv4 address (None: no
    device) and {4: index, 6: index} of both addresses there. A machine with rxe shows its devices beside
    ours."""
    for section in text.split("hca_id:")[1:]:
        indices = {}
        for index, gid in re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),? ", section + " "):
            if gid.endswith(":" + address4):
                indices[4] = int(index)
            if gid == address6:
                indices[6] = int(index)
        if 4 in indices:
            return section.split()[0], indices
    return None, {}


class Capture:
    """tcpdump on the tap, after segmentation: it sees the packets that the guest's NIC receives and sends."""

    def __init__(self, path):
        self.path = Path(path)
        # The buffer is cut into slots of the snapshot length. A snapshot length just above the largest frame
        # gives the most slots.
        self.process = subprocess.Popen(
            ["tcpdump", "-i", TAP, "-n", "-s", "5000", "-B", "65536", "--immediate-mode", "-U", "-Z", "root", "-w", str(path), "udp port 4791"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        line = self.process.stderr.readline()
        while line and b"listening on" not in line:
            line = self.process.stderr.readline()

    def stop(self):
        """Returns the number of packets that tcpdump missed."""
        time.sleep(0.05)
        self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=20)[1].decode()
        missed = re.search(r"(\d+) packets dropped by kernel", text)
        return int(missed.group(1)) if missed else 0
