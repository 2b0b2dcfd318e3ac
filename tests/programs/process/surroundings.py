"""The environment of the process tests: RRDMA copied to a place that an ordinary user can read, hosts (network
namespaces), programs in them as an unprivileged user, and the termination of every process by its pid.

As root, programs run as nobody. As any other user, everything happens in a user namespace, and programs have no
capabilities in it. The tests touch nothing outside the namespaces that they create.
"""

import argparse
import atexit
import codecs
import os
import pathlib
import pickle
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
from namespaces import (CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, NOBODY, SKIPPED, NetworkNamespace, call)  # noqa: E402
from programs import pids_of, readable_copy, state_of, writable_folder  # noqa: E402

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECUREBITS = 1, 4, 28
SECBIT_NOROOT_LOCKED = 3

# Makes our programs stay for a while before they exit, so that their last counters can be read.
LINGER = {"PROOF_LINGER_MS": "300"}

# The three links between processes of one host.
LINKS = {
    "udp": {"RRDMA_LINK": "udp"},
    "ring": {"RRDMA_LINK": "shm", "RRDMA_DIRECT": "0"},
    "direct": {"RRDMA_LINK": "shm"},
    "mapped": {"RRDMA_LINK": "shm", "SHARED_MEMORY": "1"},  # rrdma run --share-memory
}

def report(text):
    print("  " + text, flush=True)


class Settings:
    """The command line."""

    soak = False
    unprivileged = False
    products = None


def amount(in_test, in_soak):
    return in_soak if Settings.soak else in_test


class Prefix:
    """RRDMA and the test programs, copied to a folder that every user can read."""

    def __init__(self, products):
        products = pathlib.Path(products)
        sources = [products / "bin/rrdma", products / "bin/rrdmad", products / "lib/librrdma.so.1", products / "lib/librrdma-memory.so.1",
                   *(products / "tests/bin").iterdir()]
        missing = [str(path) for path in sources if not path.exists()]
        if missing:
            raise SystemExit("not built: " + ", ".join(missing))
        self.folder = readable_copy("rrdma-process-", {f"{'lib' if '.so' in path.name else 'bin'}/{path.name}": path
                                                       for path in sources})
        self.binaries = self.folder / "bin"
        # Files that programs write: captures, output, their runtime directory.
        self.scratch = writable_folder(self.folder / "scratch")
        writable_folder(self.scratch / "run")

    def program(self, name):
        return str(self.binaries / name)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Stage:
    """Everything that one test run has created; destroyed when the run ends."""

    prefix = None
    programs = []
    tasks = []
    holders = []
    daemons = []  # started by a test, not by a program
    in_user_namespace = False

    @classmethod
    def open(cls):
        atexit.register(cls.close, os.getpid())
        cls.prefix = Prefix(Settings.products)
        if os.geteuid() != 0 or Settings.unprivileged:
            cls.enter_user_namespace()

    @classmethod
    def enter_user_namespace(cls):
        """Like `unshare -Urnm`: becomes root of a namespace in which only this user exists."""
        if os.geteuid() == 0:
            codecs.lookup("ascii")  # the interpreter's own files may be unreadable afterwards
            for path in (cls.prefix.folder, *cls.prefix.folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)  # the owner can remove it at the end
            become_nobody()
            call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
        uid, gid = os.geteuid(), os.getegid()
        try:
            call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        except PermissionError as error:
            print(f"user namespaces are not allowed here: {error}", flush=True)
            sys.exit(SKIPPED)
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        cls.in_user_namespace = True

    @classmethod
    def close(cls, pid):
        if os.getpid() != pid or cls.prefix is None:
            return
        cls.end_all()
        cls.prefix.remove()

    @classmethod
    def end_all(cls):
        for program in cls.programs:
            program.end()
        cls.programs.clear()
        for task in cls.tasks:
            task.end()
        cls.tasks.clear()
        for pid in daemons():
            end_process(pid)
        for daemon in cls.daemons:
            daemon.wait()
        cls.daemons.clear()
        for holder in cls.holders:
            holder.close()
        cls.holders.clear()


def become_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def end_process(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or state_of(pid) == "Z", 5)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def daemons(host=None):
    """Returns the pids of rrdmad processes of this run, in one host or in all."""
    found = pids_of(Stage.prefix.binaries / "rrdmad")
    return [pid for pid in found if host is None or namespace_of(pid) == host.namespace]


def namespace_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def wait_until(condition, seconds, pause=0.005):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
    return True


class Host(NetworkNamespace):
    """A network namespace in which programs of the unprivileged user run."""

    def __init__(self, name="host"):
        super().__init__()
        self.name = name
        self.environment = {}
        Stage.holders.append(self)

    def start(self, *words, **options):
        return Program(self, list(words), **options)

    def start_system_daemon(self):
        """Starts one daemon for all users. REQUIRES: root."""
        daemon = subprocess.Popen([Stage.prefix.program("rrdmad"), "--system"], preexec_fn=self.enter,
                                  stdin=subprocess.DEVNULL)
        Stage.daemons.append(daemon)
        socket = pathlib.Path(f"/run/rrdma/net-{self.namespace.split('[')[1][:-1]}.sock")
        if not wait_until(socket.exists, 10):
            raise AssertionError("the system daemon did not come up")

    def run(self, *words, seconds=60, **options):
        """Runs a program, which must exit with 0."""
        program = self.start(*words, **options)
        program.succeed(seconds)
        return program


def join_hosts(mtu=1500):
    """Creates two hosts joined by a cable: (first, second). Addresses .1 and .2, IPv4 and IPv6."""
    hosts = Host("left"), Host("right")
    for host in hosts:
        # Otherwise an IPv6 address is unusable for seconds, while the kernel runs duplicate address detection.
        host.configure("sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad")
    hosts[0].ip("link", "add", "cable", "mtu", str(mtu), "type", "veth", "peer", "name", "cable", "mtu", str(mtu),
                "netns", str(hosts[1].pid))
    for number, host in enumerate(hosts, 1):
        host.ip("address", "add", f"10.77.0.{number}/24", "dev", "cable")
        host.ip("address", "add", f"fd77::{number}/64", "dev", "cable", "nodad")
        host.ip("link", "set", "cable", "up")
        host.environment["RRDMA_NETDEV"] = "cable"
        host.addresses = {4: f"10.77.0.{number}", 6: f"fd77::{number}"}
    # The link-local addresses appear when both ends are up; GID indices depend on them.
    if not wait_until(lambda: all(has_usable_addresses(host) for host in hosts), 10):
        raise AssertionError("the cable got no IPv6 addresses")
    return hosts


def has_usable_addresses(host):
    tentative = 0x40
    rows = [line.split() for line in pathlib.Path(f"/proc/{host.pid}/net/if_inet6").read_text(encoding="ascii").splitlines()]
    usable = [row[0][:4] for row in rows if row[5] == "cable" and not int(row[4], 16) & tentative]
    return {"fe80", "fd77"} <= set(usable)


def settle(host, new_pid_namespace=False):
    """Moves the calling process into a host as the unprivileged user; it ends with the harness."""
    host.enter()
    if new_pid_namespace:
        call("unshare", CLONE_NEWPID)
    if os.geteuid() == 0 and not Stage.in_user_namespace:
        become_nobody()
    else:
        call("prctl", PR_SET_SECUREBITS, SECBIT_NOROOT_LOCKED, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class OwnFault:
    """A known fault of an existing program that ends it after its work is done: the status, its last output, and
    words of which it prints at least one if the work itself failed."""

    def __init__(self, status, last_line, bad_words):
        self.status, self.last_line, self.bad_words = status, last_line, bad_words

    def explains(self, status, output):
        lines = output.splitlines()
        return (status == self.status and lines[-1:] == [self.last_line] and
                not any(word in line for line in lines[:-1] for word in self.bad_words))


OWN_FAULTS = {
    # rping of rdma-core 44 destroys its event channel while its thread for connection events still waits for the next
    # one. If DISCONNECTED comes before that, the thread finds the descriptor closed and calls exit(-1), while the
    # main thread is about to return 0. Upstream's later rping joins the thread first.
    "rping": OwnFault(255, "rdma_get_cm_event: Bad file descriptor", ("fail", "error", "mismatch", "bogus", "Unknown")),
}


class Program:
    """A running program; its output goes to a file. Ends with the test."""

    count = 0

    def __init__(self, host, words, environment=None, through_rrdma=True, new_pid_namespace=False, prefix=(), name=None):
        Program.count += 1
        words = [str(word) for word in words]
        self.words = words
        self.host = host
        self.name = name or f"{pathlib.Path(words[0]).name}#{Program.count}"
        if shutil.which(words[0]) is None:
            words[0] = Stage.prefix.program(words[0])
        command = [str(word) for word in prefix]
        if through_rrdma:
            command += [Stage.prefix.program("rrdma"), "run", *(["--share-memory"] if environment and environment.get("SHARED_MEMORY") else []), "--"]
        command += words
        if new_pid_namespace:
            # The shell's child is the first process of the new namespace, and ends with the shell.
            command = ["sh", "-c", 'setpriv --pdeathsig KILL "$@" & wait $!', "sh"] + command
        self.in_shell = new_pid_namespace
        path = Stage.prefix.scratch / f"output-{Program.count}"
        self.output_path = path
        self.counters = {}
        self.started = time.monotonic()
        with open(path, "wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                                            cwd=Stage.prefix.scratch, env=self._environment(environment or {}),
                                            preexec_fn=lambda: settle(self.host, new_pid_namespace))
        self.pid = self.process.pid
        Stage.programs.append(self)

    def _environment(self, more):
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(Stage.prefix.scratch),
                "XDG_RUNTIME_DIR": str(Stage.prefix.scratch / "run"), "RRDMA_LOG": "error", "LC_ALL": "C.UTF-8"}
        base.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
        return {**base, **self.host.environment, **more}

    def output(self):
        return self.output_path.read_text(encoding="utf-8", errors="replace")

    def lines(self, start):
        return [line for line in self.output().splitlines() if line.startswith(start)]

    def await_line(self, start, seconds=30):
        """Waits for the first line of output that starts with `start`."""
        wait_until(lambda: self.lines(start) or self.process.poll() is not None, seconds)
        found = self.lines(start)
        if not found:
            self.complain(f"never said '{start}'")
        return found[0]

    def sample(self):
        """Reads the counters of the process's page, while there is one (see control/process_page.h)."""
        try:
            children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
            pid = int(children[0]) if self.in_shell and children else self.pid
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                if "memfd:rrdma-process" in os.readlink(entry):
                    self.counters = read_page(entry.read_bytes()) or self.counters
                    return
        except OSError:
            pass

    def wait(self, seconds):
        """Returns the exit status; fails on timeout."""
        until = time.monotonic() + seconds
        next_sample = 0.0
        while self.process.poll() is None:
            now = time.monotonic()
            if now > until:
                self.complain(f"did not end within {seconds} s")
            if now >= next_sample:
                self.sample()
                next_sample = now + 0.1
            time.sleep(0.004)
        return self.process.returncode

    def ends_well(self, seconds=60):
        """Says whether it exits with status 0, or would have except for a known fault of its own (see OwnFault)."""
        status = self.wait(seconds)
        fault = OWN_FAULTS.get(pathlib.Path(self.words[0]).name)
        return status == 0 or (fault is not None and fault.explains(status, self.output()))

    def succeed(self, seconds=60):
        if not self.ends_well(seconds):
            self.complain(f"ended with status {self.process.returncode}")

    def complain(self, what):
        self.end()
        others = "".join(f"\n--- {other.name}: {' '.join(other.words)}\n{other.output()[-3000:]}"
                         for other in Stage.programs if other is not self and other.output())
        raise AssertionError(f"{self.name} {what}: {' '.join(self.words)}\n{self.output()[-4000:]}{others}")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def read_page(octets):
    """Returns {name: value} of a process page; empty while the page is being created."""
    if not octets:
        return None
    magic, version = struct.unpack_from("<II", octets, 0)
    if magic != 0x52525050 or version != 5:
        return None
    used = struct.unpack_from("<I", octets, 28)[0]
    counters = {}
    for i in range(used):
        name, value = struct.unpack_from("<40sQ", octets, 128 + 48 * i)
        counters[name.split(b"\0")[0].decode()] = value
    return counters


class Task:
    """A Python function in a process of its own, in a host, as the unprivileged user of the programs."""

    def __init__(self, host, function, *arguments):
        reader, writer = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                settle(host)
                os.write(writer, pickle.dumps(function(*arguments)))
                status = 0
            except BaseException:  # any exception: report it and end this process
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        self.reader = reader
        Stage.tasks.append(self)

    def result(self, seconds=60):
        ready, _, _ = select.select([self.reader], [], [], seconds)
        octets = os.read(self.reader, 1 << 16) if ready else b""
        self.end()
        if not octets:
            raise AssertionError("a task failed or did not end")
        return pickle.loads(octets)

    def end(self):
        if self.pid is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reader)
        self.pid = None


class Pair:
    """Two programs of ours that talk over a side channel: server (side 0) and client (side 1)."""

    port = 20000

    def __init__(self, server_host, client_host, program, *words, address="127.0.0.1", environment=None,
                 server_environment=None, client_environment=None, server_options=None, client_options=None,
                 server_words=(), client_words=()):
        Pair.port += 1
        environment = environment or {}
        self.server = server_host.start(program, f"--listen={Pair.port}", *words, *server_words, name=f"{program}-server",
                                        environment={**environment, **(server_environment or {})}, **(server_options or {}))
        self.client = client_host.start(program, f"--connect={address},{Pair.port}", *words, *client_words,
                                        name=f"{program}-client",
                                        environment={**environment, **(client_environment or {})}, **(client_options or {}))

    def succeed(self, seconds=60):
        self.client.succeed(seconds)
        self.server.succeed(20)
        return self

    def last(self, start, program=None):
        lines = (program or self.client).lines(start)
        return lines[-1] if lines else ""


class ProcessTest(unittest.TestCase):
    """Every test method starts from nothing and leaves nothing."""

    def setUp(self):
        print(f"{self.id().split('.', 1)[1]}:", flush=True)
        self.begin = time.monotonic()

    def tearDown(self):
        Stage.end_all()
        report(f"({time.monotonic() - self.begin:.1f} s)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--products", required=True, help="build folder: bin/, lib/, tests/bin/")
    parser.add_argument("--soak", action="store_true", help="the long form")
    parser.add_argument("--unprivileged", action="store_true", help="in a user namespace, also as root")
    options, rest = parser.parse_known_args()
    Settings.soak, Settings.unprivileged, Settings.products = options.soak, options.unprivileged, options.products
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Stage.open()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=1, failfast=False)
