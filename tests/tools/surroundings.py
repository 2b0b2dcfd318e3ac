# Where the tests of the `rrdma` command run: namespaces of their own for the network, mounts and
# processes, made anew for each test file and gone with it, so that nothing is left behind and nobody
# else's programs are seen. Exit status 77 tells ctest that this machine does not allow them.
import os
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
_INSIDE = "RRDMA_TEST_INSIDE"


def enter():
    """Starts this script again inside the namespaces; returns once inside."""
    if os.environ.get(_INSIDE) == "1":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # Addresses of new interfaces can be used at once: no search for duplicates.
        for group in ("default", "all"):
            with open(f"/proc/sys/net/ipv6/conf/{group}/accept_dad", "w") as setting:
                setting.write("0")
        return
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    if subprocess.run(unshare + ["true"], capture_output=True).returncode != 0:
        print("namespaces of one's own are not allowed here")
        sys.exit(SKIPPED)
    runtime = tempfile.mkdtemp(prefix="rrdma-test.")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RRDMA_")}
    environment.update({_INSIDE: "1", "XDG_RUNTIME_DIR": runtime, "XDG_CONFIG_HOME": runtime, "RRDMA_DAEMON_LINGER": "0.2", "LC_ALL": "C.UTF-8"})
    status = 1
    try:
        status = subprocess.run(unshare + [sys.executable, "-B"] + sys.argv, env=environment).returncode
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
    sys.exit(status)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def make_pair(near="eth0", far="eth1"):
    """Two ends of a cable in this namespace; the near one has addresses and the default route."""
    ip("link", "add", near, "type", "veth", "peer", "name", far)
    ip("link", "set", near, "up")
    ip("link", "set", far, "up")
    ip("addr", "add", "10.9.0.1/24", "dev", near)
    ip("addr", "add", "fd09::1/64", "dev", near, "nodad")
    ip("route", "add", "default", "via", "10.9.0.2", "dev", near)


def wait_for(condition, seconds=60):
    """What `condition()` gives once it is true; fails after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"nothing happened within {seconds} s")
        time.sleep(0.05)
