# Runs a test program on rrdma0 in its own namespaces, over one of the ways between two ends. Arguments: the command,
# the way, the program and its arguments.
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/commands"))
import surroundings

WAYS = {
    "shm": ({"RRDMA_LINK": "shm"}, []),
    "ring": ({"RRDMA_LINK": "shm", "RRDMA_DIRECT": "0"}, []),
    "udp": ({"RRDMA_LINK": "udp"}, []),
    "lossy": ({"RRDMA_LINK": "udp", "COMM_TEST_LOSSY": "1"}, ["--fault", "drop=1%,dup=1%,reorder=1%,seed=7"]),
    "slow": ({"RRDMA_LINK": "udp"}, ["--fault", "rate=2M"]),
    "leaky": ({"RRDMA_LINK": "udp", "COMM_TEST_LOSSY": "1"}, ["--fault", "drop=10%,seed=7"]),
}


def main():
    rrdma, way, *program = sys.argv[1:]
    surroundings.enter()
    surroundings.make_pair()
    environment, options = WAYS[way]
    done = subprocess.run([rrdma, "run", *options, "--", *program], env={**os.environ, **environment})
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
