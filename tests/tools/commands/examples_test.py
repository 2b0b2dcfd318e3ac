# Tests the examples on rrdma0: every mode with and without rdma_cm, several clients, and the io_uring programs.
# Arguments: the command, the folder of the built examples.
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import command
import surroundings
from command import RRDMA, run_json

FOLDER = sys.argv[2]
MODES = ("send", "write", "read", "atomic")


def words(name, *rest):
    return [RRDMA, "run", "--", os.path.join(FOLDER, name), *map(str, rest)]


def example(name, *rest, status=0, device=True):
    arguments = words(name, *rest) if device else [os.path.join(FOLDER, name), *map(str, rest)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if done.returncode != status:
        raise AssertionError(f"{name} {rest}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if status == 0 else done.stderr


class Server:
    """A server that ends by itself; ready once it has printed `sign`."""

    def __init__(self, name, *rest, sign, device=True):
        arguments = words(name, *rest) if device else [os.path.join(FOLDER, name), *map(str, rest)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.text = ""
        while sign not in self.text:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(self.text)
            self.text += line

    def end(self):
        rest, _ = self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            raise AssertionError(self.text + rest)
        return self.text + rest


def numbers(text):
    return [int(number) for number in re.findall(r"^ ?(\d+)\. ", text, re.M)]


class ByHand(unittest.TestCase):
    def check_client(self, text):
        self.assertEqual(numbers(text), list(range(1, len(numbers(text)) + 1)), text)
        for state in ("RESET -> INIT", "INIT -> RTR", "RTR -> RTS"):
            self.assertIn(f"QP {state}", text)
        self.assertRegex(text, r"Latency: min [\d.]+ us, median [\d.]+ us, max [\d.]+ us")
        self.assertRegex(text, r"Bandwidth, 16 in flight: [\d.]+ MB/s")
        self.assertIn("verified every byte", text)

    def test_devices(self):
        text = example("list_devices")
        (device,) = run_json("devices", "--json")
        self.assertIn(f"rrdma0: GUID {device['guid'].replace(':', '')}", text)
        self.assertIn("port 1: active, MTU 1024 of at most 4096, Ethernet", text)
        for gid in device["gids"]:
            self.assertIn(f"GID {gid['index']}: {gid['address']} (RoCE v2)", text)

    def test_without_a_device(self):
        self.assertEqual(subprocess.run([os.path.join(FOLDER, "list_devices")], capture_output=True).returncode, 1)

    def test_modes(self):
        for port, mode in enumerate(MODES, 18700):
            server = Server("rdma_server", "10.9.0.1", "rrdma0", port, sign="Waiting")
            self.check_client(example("rdma_client", "10.9.0.1", "rrdma0", port, 1, "--mode", mode, "--rounds", 50))
            text = server.end()
            self.assertEqual(numbers(text), list(range(1, len(numbers(text)) + 1)), text)
            self.assertIn("Verified every byte", text)

    def test_defaults(self):
        server = Server("rdma_server", sign="TCP port 18515")
        self.check_client(example("rdma_client"))
        server.end()

    def test_sizes_and_events(self):
        server = Server("rdma_server", "--events", "--clients", 3, sign="Waiting")
        for size in (1, 63, 100_000):
            self.check_client(example("rdma_client", "--events", "--size", size, "--rounds", 20))
        server.end()

    def test_several_clients_at_the_same_time(self):
        server = Server("rdma_server", "--clients", 4, sign="Waiting for 4 clients")
        clients = [subprocess.Popen(words("rdma_client", "--mode", mode), stdout=subprocess.PIPE, text=True) for mode in MODES]
        for client in clients:
            self.check_client(client.communicate(timeout=60)[0])
        text = server.end()
        for number in range(1, 5):
            self.assertRegex(text, rf"\[client {number}\] \d+\. Verified every byte")

    def test_wrong_words(self):
        self.assertIn("usage:", example("rdma_client", "--mode", "nosuch", status=2))
        self.assertIn("usage:", example("rdma_server", "10.9.0.1", "rrdma0", "no-port", status=2))
        self.assertIn("no RDMA device 'nosuch'", example("rdma_client", "10.9.0.1", "nosuch", status=1))
        self.assertIn("Connection refused", example("rdma_client", "10.9.0.1", "rrdma0", 18799, status=1))
        self.assertIn("no GID with index 9", example("rdma_client", "10.9.0.1", "rrdma0", 18799, 9, status=1))


class OverTheConnectionManager(unittest.TestCase):
    def check_client(self, text):
        for event in ("ADDR_RESOLVED", "ROUTE_RESOLVED", "ESTABLISHED", "DISCONNECTED"):
            self.assertIn(f"RDMA_CM_EVENT_{event}", text)
        self.assertIn("verified every byte", text)

    def test_modes(self):
        server = Server("rdma_cm_server", "--clients", 4, sign="Listening")
        for mode in MODES:
            self.check_client(example("rdma_cm_client", "10.9.0.1", "--mode", mode, "--rounds", 50))
        text = server.end()
        self.assertEqual(text.count("Verified every byte"), 4)
        self.assertEqual(text.count("RDMA_CM_EVENT_CONNECT_REQUEST"), 4)

    def test_address_and_port(self):
        server = Server("rdma_cm_server", "10.9.0.1", 18777, "--events", sign="port 18777")
        self.check_client(example("rdma_cm_client", "10.9.0.1", 18777, "--events"))
        server.end()

    def test_several_clients_at_the_same_time(self):
        server = Server("rdma_cm_server", "--clients", 3, sign="Listening")
        clients = [subprocess.Popen(words("rdma_cm_client", "10.9.0.1"), stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for client in clients:
            self.check_client(client.communicate(timeout=60)[0])
        server.end()

    def test_nobody_listens(self):
        self.assertIn("RDMA_CM_EVENT_REJECTED", example("rdma_cm_client", "10.9.0.1", 18798, status=1))


class IoUring(unittest.TestCase):
    def setUp(self):
        if "queue_init" in subprocess.run([os.path.join(FOLDER, "uring_file_read"), "/dev/null"], capture_output=True, text=True).stderr:
            self.skipTest("io_uring is not allowed here")

    def file(self, octets):
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        content = os.urandom(octets)
        file.write(content)
        file.flush()
        return file.name, sum(content)

    def test_file_read(self):
        for octets in (0, 1, 300_000):
            path, total = self.file(octets)
            self.assertIn(f"{octets} bytes, their sum is {total}\n", example("uring_file_read", path, device=False))
        self.assertIn("No such file", example("uring_file_read", "/nonexistent", status=1, device=False))

    def test_coroutines(self):
        files = [self.file(octets) for octets in (10, 200_000, 70_000)]
        text = example("uring_coroutine_read", *[path for path, _ in files], device=False)
        self.assertIn("Reading 3 files at the same time", text)
        for path, total in files:
            self.assertRegex(text, rf"{path}: \d+ bytes, their sum is {total}\n")

    def test_echo(self):
        server = Server("uring_udp_echo", 7790, 20, sign="Listening", device=False)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(10)
            client.connect(("127.0.0.1", 7790))
            for i in range(10):
                for piece in (b"a%d" % i, b"b%d" % i):
                    client.send(piece)
                self.assertEqual({client.recv(100), client.recv(100)}, {b"a%d" % i, b"b%d" % i})
        self.assertEqual(server.end().count("bytes from 127.0.0.1"), 20)

    def test_an_echo_server_gives_its_port_back(self):
        for _ in range(20):
            server = Server("uring_udp_echo", 7792, 1, sign="Listening", device=False)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.settimeout(10)
                client.sendto(b"again", ("127.0.0.1", 7792))
                self.assertEqual(client.recv(100), b"again")
            server.end()

    def test_zero_copy(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 7791))
            receiver.settimeout(10)
            done = subprocess.run([os.path.join(FOLDER, "uring_zero_copy_send"), "127.0.0.1", "7791", "5"], capture_output=True, text=True, timeout=30)
            if done.returncode == 77:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            for letter in b"abcde":
                self.assertEqual(receiver.recv(4096), bytes([letter]) * 1024)
            self.assertIn("Sent 5 datagrams; the kernel released the buffer 5 times", done.stdout)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
