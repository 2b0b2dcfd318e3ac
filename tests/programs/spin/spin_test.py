"""Random verbs calls (spin.cc) as an unprivileged user in a network namespace with only lo: no crash, and
no result that the manual does not allow.

  spin_test.py --rrdma FILE --daemon FILE --library FILE --spin FILE --calls N [--seed N] [--link shm|udp]
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../interop/programs"))
from arena import Arena, enter_namespace, skip  # noqa: E402
import shutil  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "spin"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), default="auto")
    options = parser.parse_args()
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    enter_namespace()
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library, "spin": options.spin}
    with Arena(products) as arena:
        program = os.path.join(arena.folder, "bin", "spin")
        status, text = arena.run([program, f"--calls={options.calls}", f"--seed={options.seed}"], link=options.link, timeout=3000)
    print("\n".join(text.splitlines()[-60:]))
    sys.exit(0 if status == 0 else f"exit status {status}")


if __name__ == "__main__":
    main()
