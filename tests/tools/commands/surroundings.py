# The environment for tests of the `rrdma` command: private namespaces for the network, mounts and processes. Each
# test file creates and removes its own. Nothing is left behind, and other programs are invisible. Exit status 77
# tells ctest that this machine does not permit them.
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
import namespaces  # noqa: E402
from namespaces import SKIPPED  # noqa: E402


def enter():
    """Restarts this script inside the namespaces. Returns once inside."""
    runtime = None if namespaces.is_inside() else tempfile.mkdtemp(prefix="rrdma-test.")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RRDMA_")}
    environment.update({"XDG_RUNTIME_DIR": runtime or "", "XDG_CONFIG_HOME": runtime or "", "RRDMA_DAEMON_LINGER": "0.2",
                        "LC_ALL": "C.UTF-8"})
    if not namespaces.enter("net", "mount", "pid", environment=environment,
                            afterwards=lambda: shutil.rmtree(runtime, ignore_errors=True)):
        shutil.rmtree(runtime, ignore_errors=True)
        print("namespaces of one's own are not allowed here")
        sys.exit(SKIPPED)
    # Make addresses of new interfaces usable at once, without duplicate address detection.
    for group in ("default", "all"):
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{group}/accept_dad").write_text("0")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def make_pair(near="eth0", far="eth1"):
    """Creates both ends of a cable in this namespace. The near one gets addresses and the default route."""
    ip("link", "add", near, "type", "veth", "peer", "name", far)
    ip("link", "set", near, "up")
    ip("link", "set", far, "up")
    ip("addr", "add", "10.9.0.1/24", "dev", near)
    ip("addr", "add", "fd09::1/64", "dev", near, "nodad")
    ip("route", "add", "default", "via", "10.9.0.2", "dev", near)


def wait_for(condition, seconds=60):
    """Returns the result of `condition()` once it is true. Fails after a timeout."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"nothing happened within {seconds} s")
        time.sleep(0.05)
