"""The exact results of verbs calls (verbs_letter, a GoogleTest program) as an unprivileged user in a network
namespace with only lo.

  verbs_test.py --rrdma FILE --daemon FILE --library FILE --program FILE --filter TESTS [--link shm|udp]
"""
import argparse
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../interop/programs"))
from arena import Arena, enter_namespace, skip  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "program"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--filter", required=True)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), default="auto")
    options = parser.parse_args()
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    enter_namespace()
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library, "letter": options.program}
    with Arena(products) as arena:
        program = os.path.join(arena.folder, "bin", "letter")
        # On any machine, threads with queues of their own are kept apart.
        status, text = arena.run([program, "--gtest_filter=" + options.filter], link=options.link,
                                 extra={"RRDMA_LANES": "4"}, timeout=options.seconds - 10)
    print("\n".join(text.splitlines()[-100:]))
    sys.exit(0 if status == 0 else f"exit status {status}")


if __name__ == "__main__":
    main()
