"""Two programs on rrdma0 in the namespaces of a test: a server that says when it listens, and who talks to it. Scripts
that use it get the `rrdma` command as their first argument."""

import os
import subprocess
import sys

HOST = "10.9.0.1"  # as surroundings.make_pair() gives it
LINKS = ({"RRDMA_LINK": "shm"}, {"RRDMA_LINK": "udp"})


def words(program, *rest):
    return [sys.argv[1], "run", "--", str(program), *map(str, rest)]


class Server:
    """A program until it is ended; ready once it has said that it listens."""

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
    """What a program said, that ended as it should; its complaints, too, where it should fail."""
    done = subprocess.run(words(program, *rest), capture_output=True, text=True, timeout=60, env={**os.environ, **link})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stdout + done.stderr


def each_link(test_case, port, test):
    """Runs test(link, address) over each way between two programs of a host."""
    for number, link in enumerate(LINKS):
        with test_case.subTest(**link):
            test(link, f"{HOST}:{port + number}")
