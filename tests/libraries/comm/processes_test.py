# rrdma::comm between processes: every operation, a killed peer, and the examples. Arguments: the command, the
# programs `death` and `across`, the folder of the examples.
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/commands"))
import surroundings  # noqa: E402  (it knows where the harness is)
from peers import LINKS, Server, each_link, run, started, words  # noqa: E402

DEATH, ACROSS, EXAMPLES = sys.argv[2:5]


class Processes(unittest.TestCase):
    def test_every_operation(self):
        def test(link, address):
            with Server(link, ACROSS, "serve", address) as server:
                self.assertIn("good", run(link, ACROSS, "talk", address))
                self.assertEqual(server.process.wait(30), 0)
        each_link(self, 7180, test)

    def test_a_killed_peer(self):
        def test(link, address):
            with Server(link, DEATH, "serve", address) as server:
                with started(link, DEATH, "wait", address) as client:
                    self.assertEqual(client.stdout.readline(), "waiting\n")
                    server.process.kill()
                    begin = time.monotonic()
                    rest, _ = client.communicate(timeout=60)
                    self.assertEqual(client.returncode, 0, rest)
                    print(f"  every waiter knew after {time.monotonic() - begin:.2f} s", flush=True)
        each_link(self, 7100, test)

    def test_a_stopped_peer(self):
        """A stopped process ends no connection, so only the keep-alive (0.2 s) finds it."""
        def test(link, address):
            with Server(link, DEATH, "serve", address) as server:
                with started(link, DEATH, "wait", address) as client:
                    self.assertEqual(client.stdout.readline(), "waiting\n")
                    server.process.send_signal(signal.SIGSTOP)
                    begin = time.monotonic()
                    rest, _ = client.communicate(timeout=60)
                    self.assertEqual(client.returncode, 0, rest)
                    self.assertLess(time.monotonic() - begin, 4, "it waits a second for an answer")
                    print(f"  every waiter knew after {time.monotonic() - begin:.2f} s", flush=True)
        each_link(self, 7105, test)

    def test_a_program_that_was_stopped(self):
        """It goes on and keeps its connections, although it got no answer for longer than it waits."""
        def test(link, address):
            with Server(link, DEATH, "serve", address), started(link, DEATH, "idle", address) as client:
                self.assertEqual(client.stdout.readline(), "idle\n")
                time.sleep(0.3)
                client.send_signal(signal.SIGSTOP)
                time.sleep(1.7)
                client.send_signal(signal.SIGCONT)
                rest, _ = client.communicate(timeout=60)
                self.assertEqual(client.returncode, 0, rest)
        each_link(self, 7107, test)

    def test_echo(self):
        def test(link, address):
            echo = f"{EXAMPLES}/echo"
            server = subprocess.Popen(words(echo, address), env={**os.environ, **link})
            try:
                answer = surroundings.wait_for(lambda: subprocess.run(
                    words(echo, address, "once more"), capture_output=True, text=True, env={**os.environ, **link}).stdout)
                self.assertEqual(answer, "once more\n")
            finally:
                server.kill()
                server.wait()
        each_link(self, 7110, test)

    def test_hello(self):
        self.assertIn('received "hello, RDMA"', run(LINKS[0], f"{EXAMPLES}/hello"))

    def test_file_copy(self):
        def test(link, address):
            with tempfile.TemporaryDirectory() as folder:
                source, target = f"{folder}/source", f"{folder}/target"
                octets = os.urandom(9_000_017)
                pathlib.Path(source).write_bytes(octets)
                with Server(link, f"{EXAMPLES}/file_copy", "serve", address, target) as server:
                    run(link, f"{EXAMPLES}/file_copy", "send", address, source)
                    self.assertEqual(server.process.wait(30), 0)
                self.assertEqual(pathlib.Path(target).read_bytes(), octets)
        each_link(self, 7120, test)

    def test_key_value(self):
        def test(link, address):
            store = f"{EXAMPLES}/key_value"
            with Server(link, store, "serve", address):
                run(link, store, "put", address, "river", "Rhine")
                run(link, store, "put", address, "hill", "Kahlenberg")
                self.assertEqual(run(link, store, "get", address, "river"), "Rhine\n")
                run(link, store, "put", address, "river", "Danube")
                self.assertEqual(run(link, store, "get", address, "river"), "Danube\n")
                self.assertEqual(run(link, store, "get", address, "sea"), "\n")
        each_link(self, 7130, test)

    def test_counter(self):
        def test(link, address):
            with Server(link, f"{EXAMPLES}/counter", "serve", address, 2) as server:
                for _ in range(2):
                    run(link, f"{EXAMPLES}/counter", "add", address, 50)
                self.assertEqual(server.process.stdout.read(), "100\n")
        each_link(self, 7140, test)

    def test_publish(self):
        def test(link, address):
            publish, group = f"{EXAMPLES}/publish", "239.9.9.9"
            with Server(link, publish, "subscribe", group, 3) as one, Server(link, publish, "subscribe", group, 3) as other:
                publisher = subprocess.Popen(words(publish, "publish", group, "to all"), env={**os.environ, **link})
                try:
                    for subscriber in (one, other):
                        self.assertEqual(subscriber.process.stdout.read(), "to all\n" * 3)
                        self.assertEqual(subscriber.process.wait(30), 0)
                finally:
                    publisher.kill()
                    publisher.wait()
        each_link(self, 7150, test)

    def test_asio(self):
        def test(link, address):
            server = subprocess.Popen(words(f"{EXAMPLES}/echo", address), env={**os.environ, **link})
            try:
                surroundings.wait_for(lambda: subprocess.run(
                    words(f"{EXAMPLES}/echo", address, "ready?"), capture_output=True, env={**os.environ, **link}).stdout)
                port = 7160 + LINKS.index(link)
                with Server(link, f"{EXAMPLES}/asio_echo", port, address), socket.create_connection(("127.0.0.1", port), 10) as client:
                    for said in (b"from TCP", b"to RDMA and back"):
                        client.sendall(said)
                        self.assertEqual(client.recv(100), said)
            finally:
                server.kill()
                server.wait()
        each_link(self, 7170, test)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
