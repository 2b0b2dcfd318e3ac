# Runs the `rrdma` command under test. Its path is the first argument of each test file.
import json
import os
import subprocess
import sys
import unittest

RRDMA = sys.argv[1] if len(sys.argv) > 1 else "rrdma"


def run(*words, status=0, environment=None, seconds=30, user=None):
    """Returns standard output and standard error of `rrdma WORDS`, which must exit with `status`."""
    done = subprocess.run([RRDMA, *map(str, words)], capture_output=True, text=True, timeout=seconds, user=user,
                          env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL)
    if status is not None and done.returncode != status:
        raise AssertionError(f"rrdma {' '.join(map(str, words))}: exit status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def run_json(*words, **rest):
    return json.loads(run(*words, **rest)[0])


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
