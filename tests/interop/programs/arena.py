"""The environment of the programs: a network namespace of our own with lo up, an unprivileged user, and a copy of the
products that this user can read. Closing the arena ends everything that it started."""
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))
import namespaces  # noqa: E402
from programs import children_of, end_all_of, end_group, listening_ports, pids_of, readable_copy, writable_folder  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(namespaces.SKIPPED)


def enter_namespace():
    """Restarts this script inside a new network namespace; returns only there."""
    if not namespaces.enter("net"):
        skip("no network namespace can be made here")


class Arena:
    """products: paths of rrdma, rrdmad and librrdma.so.1."""

    def __init__(self, products):
        self.folder = str(readable_copy("rrdma-test-", {f"{'lib' if '.so' in name else 'bin'}/{name}": path
                                                        for name, path in products.items()}))
        self.work = str(writable_folder(os.path.join(self.folder, "work")))
        self.started = []
        namespaces.call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.started:
            end_group(process)
            process.wait()
        self.end_orphans()
        end_all_of(os.path.join(self.folder, "bin", "rrdmad"))
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command, link="auto", extra=None, options=()):
        """Runs a program under `rrdma run` as nobody; finish() collects its output."""
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": self.work, "TMPDIR": self.work}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                environment[name] = os.environ[name]
        environment.update(extra or {})
        line = [os.path.join(self.folder, "bin", "rrdma"), "run", "--link", link, *options, "--", *command]
        nobody = {"user": namespaces.NOBODY, "group": namespaces.NOBODY, "extra_groups": []}
        who = nobody if namespaces.is_real_root() else {}
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", env=environment, cwd=self.work, start_new_session=True, **who)
        self.started.append(process)
        return process

    def finish(self, process, timeout):
        """Returns (exit status or None after the timeout, output)."""
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            end_group(process)
            self.end_orphans()
            output, _ = process.communicate()
            return None, output

    def end_orphans(self):
        """Kills processes whose parents have ended, like fio's jobs, which leave their parent's group. Not daemons."""
        known = {process.pid for process in self.started} | set(pids_of(os.path.join(self.folder, "bin", "rrdmad")))
        for pid in children_of(os.getpid()) - known:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def run(self, command, timeout=20, **how):
        return self.finish(self.start(command, **how), timeout)

    def wait_for_listener(self, server, port):
        deadline = time.monotonic() + 10
        while port not in listening_ports() and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def pair(self, command, port, timeout=30, address="127.0.0.1", **how):
        """Runs a server and, once it listens, a client. Returns ((status, output) of the server, of the client)."""
        server = self.start(command, **how)
        self.wait_for_listener(server, port)
        client = self.start([*command, address], **how)
        client_end = self.finish(client, timeout)
        return self.finish(server, 10 if client_end[0] == 0 else 2), client_end
