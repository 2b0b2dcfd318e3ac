"""Tests the dlopen hook. Programs that load libibverbs themselves find the device under both names, with
every binding mode, and through a private copy under another name, as Python wheels ship it. Programs that
open any other library find it at the same place as without RRDMA.

  door_test.py --rrdma FILE --daemon FILE --library FILE --door FILE --runpath-caller FILE --early FILE
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../interop/programs"))
from arena import Arena, enter_namespace  # noqa: E402


def private_copies(folder):
    """Copies the system's libraries under the names that a wheel gives them."""
    copies = []
    for library in ("libibverbs", "librdmacm"):
        found = glob.glob(f"/usr/lib/*/{library}.so.1") + glob.glob(f"/usr/lib64/{library}.so.1")
        if found:
            copies.append(os.path.join(folder, f"{library}-1de1263b.so"))
            shutil.copy(found[0], copies[-1])
            os.chmod(copies[-1], 0o755)
    return copies


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "door", "runpath-caller", "early"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    enter_namespace()
    failures = 0
    # Only the RUNPATH of the program leads to the library, so a hook that becomes the caller fails this.
    plain = subprocess.run([options.runpath_caller])
    preloaded = subprocess.run([options.runpath_caller], env={**os.environ, "LD_PRELOAD": options.library})
    for what, end in (("by itself", plain), ("with the library preloaded", preloaded)):
        if end.returncode != 0:
            print(f"dlopen by RUNPATH, {what}: exit status {end.returncode}")
            failures += 1
    # The constructor of a library runs before netlink is usable: RRDMA must print nothing about interfaces.
    early = subprocess.run([options.early], capture_output=True, text=True,
                           env={**os.environ, "LD_PRELOAD": options.library, "RRDMA_LOG": "error"})
    if early.returncode != 0 or early.stderr:
        print(f"a look at the devices in a constructor: exit status {early.returncode}\n{early.stderr}")
        failures += 1
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library, "door": options.door}
    with Arena(products) as arena:
        door = os.path.join(arena.folder, "bin", "door")
        names = ["libibverbs.so.1", "libibverbs.so", *private_copies(arena.work)]
        for name in names:
            for mode in ("local", "global", "deepbind"):
                status, text = arena.run([door, name, mode])
                if status != 0:
                    print(f"door {name} {mode}: exit status {status}\n{text}")
                    failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
