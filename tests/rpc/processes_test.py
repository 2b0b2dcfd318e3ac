# rrdma::rpc between processes: a server that is killed in every phase of calls, and the examples. Arguments: the command, the program `death`,
# the folder of the examples.
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import surroundings

RRDMA, DEATH, EXAMPLES = sys.argv[1:4]
HOST = "10.9.0.1"
LINKS = ({"RRDMA_LINK": "shm"}, {"RRDMA_LINK": "udp"})


def words(program, *rest):
    return [RRDMA, "run", "--", str(program), *map(str, rest)]


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
    done = subprocess.run(words(program, *rest), capture_output=True, text=True, timeout=60, env={**os.environ, **link})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


class Processes(unittest.TestCase):
    def each_link(self, port, test):
        for number, link in enumerate(LINKS):
            with self.subTest(**link):
                test(link, f"{HOST}:{port + number}")

    def test_a_killed_server(self):
        def test(link, address):
            with Server(link, DEATH, "serve", address) as server:
                client = subprocess.Popen(words(DEATH, "wait", address), stdout=subprocess.PIPE, text=True, env={**os.environ, **link})
                self.assertEqual(client.stdout.readline(), "waiting\n")
                server.process.kill()
                begin = time.monotonic()
                rest, _ = client.communicate(timeout=60)
                self.assertEqual(client.returncode, 0, rest)
                print(f"  every call had ended after {time.monotonic() - begin:.2f} s", flush=True)
        self.each_link(7200, test)

    def test_hello(self):
        def test(link, address):
            hello = f"{EXAMPLES}/hello"
            with Server(link, hello, "serve", address):
                self.assertEqual(run(link, hello, "call", address, "RDMA"), "hello, RDMA\n")
                self.assertIn("who is it?", run(link, hello, "call", address, "", status=1))
        self.each_link(7210, test)

    @unittest.skipUnless(os.path.exists(f"{EXAMPLES}/key_value"), "protobuf is not installed")
    def test_key_value(self):
        def test(link, address):
            store = f"{EXAMPLES}/key_value"
            with Server(link, store, "serve", address):
                for key, value in (("river", "Danube"), ("hill", "Kahlenberg"), ("sea", "Adria")):
                    run(link, store, "put", address, key, value)
                self.assertEqual(run(link, store, "get", address, "river"), "Danube\n")
                self.assertIn("not found", run(link, store, "get", address, "lake", status=1))
                self.assertEqual(run(link, store, "scan", address, "i"), "river Danube\nsea Adria\n")
        self.each_link(7220, test)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
