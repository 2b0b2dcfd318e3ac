"""Where programs meet: a network namespace of our own with lo up, an unprivileged user, and a copy of the
products that this user can read. Everything that was started is ended when the arena closes."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
SKIPPED = 77  # ctest: SKIP_RETURN_CODE
INSIDE = "RRDMA_TEST_INSIDE_NAMESPACE"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def enter_namespace():
    """Starts this script again inside a new network namespace; returns only there."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("no network namespace can be made here")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


def listening_ports():
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def end_group(process):
    """Ends a program that start() made, with the children that it may have left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Arena:
    """products: paths of rrdma, rrdmad and librrdma.so.1."""

    def __init__(self, products):
        self.folder = tempfile.mkdtemp(prefix="rrdma-test-")
        os.chmod(self.folder, 0o755)
        for name, path in products.items():
            place = os.path.join(self.folder, "lib" if ".so" in name else "bin")
            os.makedirs(place, mode=0o755, exist_ok=True)
            shutil.copy(path, os.path.join(place, name))
            os.chmod(os.path.join(place, name), 0o755)
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.work)
        os.chmod(self.work, 0o777)
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.started:
            end_group(process)
            process.wait()
        self.end_daemons()
        shutil.rmtree(self.folder, ignore_errors=True)

    def daemons(self):
        """The daemons that were started from our copy, and nobody else's."""
        own = os.path.join(self.folder, "bin", "rrdmad")
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/exe").split(" ")[0] == own:
                    yield int(entry)
            except OSError:
                continue

    def end_daemons(self):
        for pid in list(self.daemons()):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and list(self.daemons()):
            time.sleep(0.05)
        for pid in list(self.daemons()):
            os.kill(pid, signal.SIGKILL)

    def start(self, command, link="auto", extra=None, options=()):
        """Runs a program under `rrdma run` as nobody; its output is collected by finish()."""
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": self.work, "TMPDIR": self.work}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                environment[name] = os.environ[name]
        environment.update(extra or {})
        line = [os.path.join(self.folder, "bin", "rrdma"), "run", "--link", link, *options, "--", *command]
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 and not in_user_namespace() else {}
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", env=environment, cwd=self.work, start_new_session=True, **who)
        self.started.append(process)
        return process

    def finish(self, process, timeout):
        """(exit status or None after the timeout, output)"""
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            end_group(process)
            output, _ = process.communicate()
            return None, output

    def run(self, command, timeout=20, **how):
        return self.finish(self.start(command, **how), timeout)

    def wait_for_listener(self, server, port):
        deadline = time.monotonic() + 10
        while port not in listening_ports() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def pair(self, command, port, timeout=30, address="127.0.0.1", **how):
        """A server and, once it listens, a client. ((status, output) of the server, of the client)"""
        server = self.start(command, **how)
        self.wait_for_listener(server, port)
        client = self.start([*command, address], **how)
        client_end = self.finish(client, timeout)
        return self.finish(server, 10 if client_end[0] == 0 else 2), client_end


def in_user_namespace():
    with open("/proc/self/uid_map") as lines:
        return lines.read().split() != ["0", "0", "4294967295"]
