"""The dlopen door: programs that look for libibverbs by themselves find the device under both names, and
programs that open any other library find it where they did before.

  door_test.py --rrdma FILE --daemon FILE --library FILE --door FILE --runpath-caller FILE
"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from arena import Arena, enter_namespace  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "door", "runpath-caller"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    enter_namespace()
    failures = 0
    # Without a RUNPATH of its own nothing leads there: the test can fail.
    plain = subprocess.run([options.runpath_caller])
    preloaded = subprocess.run([options.runpath_caller], env={**os.environ, "LD_PRELOAD": options.library})
    for what, end in (("by itself", plain), ("with the library preloaded", preloaded)):
        if end.returncode != 0:
            print(f"dlopen by RUNPATH, {what}: exit status {end.returncode}")
            failures += 1
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library, "door": options.door}
    with Arena(products) as arena:
        door = os.path.join(arena.folder, "bin", "door")
        for name in ("libibverbs.so.1", "libibverbs.so"):
            status, text = arena.run([door, name])
            if status != 0:
                print(f"door {name}: exit status {status}\n{text}")
                failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
