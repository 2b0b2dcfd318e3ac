#!/usr/bin/env python3
"""Runs README's commands from nothing in a bare Debian: try_root.py SUITE TARGET... makes a root with mmdebstrap that has
only make and git, clones this tree into it, runs `make TARGET` there and prints how long each took. Needs root for chroot;
exits with 77 where no such root can be made."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SECONDS = {"demo": 900, "test": 4500}
MOUNTS = (("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "dev/shm"))


def made(suite, root):
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        print("roots: needs root and mmdebstrap")
        return False
    done = subprocess.run(["mmdebstrap", "--variant=apt", "--include=make,git,ca-certificates", suite, root], capture_output=True, text=True)
    if done.returncode != 0:
        print("roots: mmdebstrap made no root: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    return done.returncode == 0


def run(root, target):
    """`make TARGET` in the root, in mount, PID and IPC namespaces of its own that end with it."""
    began = time.monotonic()
    mounts = " && ".join(f"mount -t {kind} none {root}/{place}" for kind, place in MOUNTS)
    inside = f"mkdir -p {root}/dev/shm && {mounts} && mount --bind /dev/null {root}/dev/null && exec chroot {root} sh -c 'cd /rrdma && CI=true make {target}'"
    done = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", inside], timeout=SECONDS.get(target, 900),
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL)
    print(f"roots: make {target}: status {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def main():
    suite, targets = sys.argv[1], sys.argv[2:] or ["demo"]
    folder = tempfile.mkdtemp(prefix="rrdma-root.", dir="/var/tmp")
    root = os.path.join(folder, "root")
    try:
        if not made(suite, root):
            return 77
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", SOURCE, f"{root}/rrdma"], check=True)
        for path in ("dev/null",):
            pathlib.Path(root, path).touch()
        return 0 if all(run(root, target) for target in targets) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
