"""rdma-core's own Python tests (Debian: python3-pyverbs) against the device, as an unprivileged user. None may fail,
and only those that pyverbs_skips.txt names with a reason may be skipped.

  pyverbs_test.py --rrdma FILE --daemon FILE --library FILE --link shm|udp
"""
import argparse
import os
import shutil
import sys

from arena import Arena, enter_namespace, skip
from programs_test import find_gid
from pyverbs_suite import TESTS, copy_tests

PYTHON = "/usr/bin/python3"  # the interpreter that Debian's pyverbs is built for
HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED_AT_LEAST = 100


def allowed_skips():
    with open(os.path.join(HERE, "pyverbs_skips.txt")) as lines:
        return tuple(line.split()[0] for line in lines if line.strip() and not line.startswith("#"))


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), required=True)
    options = parser.parse_args()
    if not os.path.isdir(TESTS) or not os.path.exists("/usr/lib/python3/dist-packages/pyverbs"):
        skip("python3-pyverbs is not installed")
    enter_namespace()
    with Arena({"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library}) as arena:
        folder = os.path.join(arena.folder, "tests")
        copy_tests(folder)
        runner = shutil.copy(os.path.join(HERE, "pyverbs_runner.py"), arena.folder)
        status, text = arena.run([PYTHON, "-B", runner, folder, find_gid(arena)], link=options.link, timeout=200)
    lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
    results = [line for line in lines if line[0] != "started"]
    passed = sum(what == "passed" for what, _, _ in results)
    allowed = allowed_skips()
    wrong = [(what, name, why) for what, name, why in results
             if what in ("failed", "error") or (what == "skipped" and not name.startswith(allowed))]
    for what, name, why in wrong:
        print(f"{what}: {name}: {why}")
    print(f"{passed} passed, {len(results) - passed - len(wrong)} skipped as expected, {len(wrong)} wrong")
    if status != 0:
        print("the last one that was started:", [name for what, name, _ in lines if what == "started"][-1:])
        sys.exit(f"the test program ended with {status}:\n" + "\n".join(text.splitlines()[-20:]))
    sys.exit(1 if wrong or passed < EXPECTED_AT_LEAST else 0)


if __name__ == "__main__":
    main()
