#!/usr/bin/env python3
"""Runs README's commands from nothing in a bare Debian: try_root.py SUITE TARGET... makes a root with mmdebstrap that has
only make, git and mount, clones this tree into it, runs `make TARGET` there and prints how long each took. Needs root;
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
# In the new mount namespace. pivot_root, because a process in a chroot may not make user namespaces, which the tests need.
ENTER = """mount --bind {root} {root} && mount -t proc none {root}/proc && mount -t sysfs none {root}/sys &&
mount --bind /dev {root}/dev && mount -t tmpfs none {root}/dev/shm &&
mount -t devpts -o newinstance,ptmxmode=0666 none {root}/dev/pts &&
cd {root} && pivot_root . . && umount -l . && cd /rrdma && CI=true exec make {target}"""


def made(suite, root):
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        print("roots: needs root and mmdebstrap")
        return False
    # mount: ENTER needs it, and Debian 13 does not install it.
    done = subprocess.run(["mmdebstrap", "--variant=apt", "--include=make,git,ca-certificates,mount", suite, root], capture_output=True, text=True)
    if done.returncode != 0:
        print("roots: mmdebstrap made no root: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    return done.returncode == 0


def run(root, target):
    """`make TARGET` in the root, in mount, PID and IPC namespaces of its own that end with it."""
    began = time.monotonic()
    done = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-ec", ENTER.format(root=root, target=target)], timeout=SECONDS.get(target, 900),
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
        # Every installed or container's system has it; a bare root of Debian 12 has not.
        pathlib.Path(root, "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="ascii")
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", SOURCE, f"{root}/rrdma"], check=True)
        return 0 if all(run(root, target) for target in targets) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
