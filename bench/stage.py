"""The environment for measurements: a private network namespace with only lo (if it can be created), one core for
each side, and a copy of the products. If we are root, programs run as an unprivileged user. Every program has a
timeout, and none outlives the stage."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/harness"))
import namespaces  # noqa: E402
from programs import end_all_of, end_group, listening_ports, readable_copy, writable_folder  # noqa: E402

DEVICE = ("bin/rrdma", "bin/rrdmad", "lib/librrdma.so.1", "lib/librrdma-memory.so.1")


class Trouble(Exception):
    """A program did not return its figure. The text contains its output."""


def enter_namespace():
    """Restarts this script in a private network namespace, or continues in the current one if that is forbidden."""
    namespaces.enter("net")


def two_cores():
    """Two usable cores; not hardware threads of one core if there is a choice."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return allowed[0], allowed[0]
    for other in allowed[1:]:
        if place_of(other) != place_of(allowed[0]):
            return allowed[0], other
    return allowed[0], allowed[1]


def place_of(core):
    folder = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return [(folder / name).read_text().strip() for name in ("physical_package_id", "core_id")]
    except OSError:
        return [str(core)]


class Stage:
    def __init__(self, build, limit_seconds, programs=()):
        """`programs`: programs to measure besides those of the device, as paths within the build folder."""
        products = (*DEVICE, *programs)
        missing = [name for name in products if not (Path(build) / name).exists()]
        if missing:
            raise Trouble(f"{build} lacks {', '.join(missing)}: the make target of this benchmark builds them")
        self.near_core, self.far_core = two_cores()
        self.limit_seconds = limit_seconds
        self.port = 21000
        self.folder = readable_copy("rrdma-bench-", {name: Path(build) / name for name in products})
        self.work = writable_folder(self.folder / "work")
        self.started = []
        self.device, self.gid_index = "", 0

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for program in self.started:
            end_group(program)
            program.wait()
        end_all_of(self.program("rrdmad"))
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name):
        return str(self.folder / "bin" / name)

    def next_port(self):
        """A new port each time: connections on the last one may still be closing."""
        self.port = self.port + 1 if self.port < 29000 else 21000
        return self.port

    def find_device(self):
        """The first IPv4 address of the loopback device: name and GID index."""
        text = self.run([self.program("rrdma"), "gids"], {"RRDMA_NETDEV": "lo"})
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 3 and words[1].isdigit() and words[2].startswith("127."):
                self.device, self.gid_index = words[0], int(words[1])
                return
        raise Trouble(f"no device on the loopback interface: {text[-300:]}")

    @contextlib.contextmanager
    def system_daemon(self, *options):
        """A daemon for all users, which relays, instead of the programs' own."""
        if not namespaces.is_real_root():
            raise Trouble("a system daemon needs root")
        end_all_of(self.program("rrdmad"))
        daemon = subprocess.Popen([self.program("rrdmad"), "--system", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        self.started.append(daemon)
        try:
            socket = Path(f"/run/rrdma/net-{os.stat('/proc/self/ns/net').st_ino}.sock")
            deadline = time.monotonic() + self.limit_seconds
            while not socket.exists():
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise Trouble("the system daemon does not start")
                time.sleep(0.005)
            yield
        finally:
            daemon.terminate()
            daemon.wait()
            self.started.remove(daemon)

    def start(self, command, environment, core):
        everything = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.work), "TMPDIR": str(self.work), "RRDMA_NETDEV": "lo", "RRDMA_LOG": "error"}
        everything.update(environment or {})
        nobody = {"user": namespaces.NOBODY, "group": namespaces.NOBODY, "extra_groups": []}
        who = nobody if namespaces.is_real_root() else {}
        pinned = command if core is None else ["taskset", "-c", str(core), *command]
        # A file, not a pipe: a server with many QPs prints all their addresses while its output is not read.
        output = tempfile.TemporaryFile()
        program = subprocess.Popen(pinned, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=everything, cwd=self.work,
                                   start_new_session=True, **who)
        program.printed = output
        self.started.append(program)
        return program

    def finish(self, program, seconds):
        """Returns (exit status or None after the timeout, output)."""
        try:
            status = program.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = None
        end_group(program)
        program.wait()
        self.started.remove(program)
        with program.printed as output:
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def run(self, command, environment=None, core=None):
        status, output = self.finish(self.start(command, environment, core), self.limit_seconds)
        if status != 0:
            raise Trouble(f"{Path(command[0]).name}: {describe(status)}: {reason(output)}")
        return output

    def pair(self, server, client, port, environment=None, protocol="tcp", server_ends=True):
        """Returns the client's output. The server runs on the far core and is stopped if it does not end by itself.
        """
        far = self.start(server, environment, self.far_core)
        try:
            self.wait_for_port(far, port, protocol)
            status, output = self.finish(self.start(client, environment, self.near_core), self.limit_seconds)
        finally:
            far_output = self.finish(far, 3 if server_ends else 0)[1]
        if status != 0:
            raise Trouble(f"{describe(status)}: {reason(output)} | the server: {reason(far_output)}")
        return output

    def wait_for_port(self, server, port, protocol):
        deadline = time.monotonic() + self.limit_seconds
        while port not in listening_ports(protocol):
            if server.poll() is not None or time.monotonic() > deadline:
                raise Trouble("the server does not listen")
            time.sleep(0.005)


def describe(status):
    return "took too long" if status is None else f"exit status {status}"


def reason(output):
    """The lines that describe the failure, otherwise the last lines."""
    telling = [line.strip() for line in output.splitlines() if re.search(r"error|fail|unable|couldn|cannot|refused|rrdma:", line, re.IGNORECASE)]
    return " / ".join(telling)[:400] or output[-200:].strip() or "said nothing"
