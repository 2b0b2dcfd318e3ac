"""Two programs on rrdma0 in the namespaces of a test: a server that reports when it listens, and its client. Scripts
that use this module get the `rrdma` command as their first argument."""

import contextlib
import os
import subprocess
import sys

HOST = "10.9.0.1"  # assigned by surroundings.make_pair()
LINKS = ({"RRDMA_LINK": "shm"}, {"RRDMA_LINK": "udp"})


def words(program, *rest):
    return [sys.argv[1], "run", "--", str(program), *map(str, rest)]


@contextlib.contextmanager
def ended(process):
    """Kills the program at the end. `with Popen(...)` waits for it without a limit, also if the test has failed."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def started(link, program, *rest):
    """A running program whose output is a pipe, killed at the end."""
    return ended(subprocess.Popen(words(program, *rest), stdout=subprocess.PIPE, text=True, env={**os.environ, **link}))


class Server:
    """A running program; ready once it has reported that it listens."""

    def __init__(self, link, program, *rest):
        self.process = subprocess.Popen(words(program, *rest), stdout=subprocess.PIPE, text=True, env={**os.environ, **link})
        line = self.process.stdout.readline()
        assert "listening" in line, line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def run(link, program, *rest, status=0):
    """Standard output of a program that ended with `status`; includes standard error if a failure is expected."""
    done = subprocess.run(words(program, *rest), capture_output=True, text=True, timeout=60, env={**os.environ, **link})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stdout + done.stderr


def each_link(test_case, port, test):
    """Runs test(link, address) over each kind of link between two programs of a host."""
    for number, link in enumerate(LINKS):
        with test_case.subTest(**link):
            test(link, f"{HOST}:{port + number}")
