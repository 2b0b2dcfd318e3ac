# rrdma::rpc between processes: a server killed in every phase of calls, and the examples. Arguments: the command, the
# programs `death`, `dying` and `restart`, the folder of the examples.
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/commands"))
import surroundings  # noqa: E402  (it knows where the harness is)
from peers import HOST, Server, each_link, ended, run, started, words  # noqa: E402

DEATH, DYING, RESTART, EXAMPLES = sys.argv[2:6]
NOTICED = 5  # seconds: more than a keep-alive of 0.5 s and the wait for an answer, also on a busy machine


class Processes(unittest.TestCase):
    def test_a_killed_server(self):
        def test(link, address):
            with Server(link, DEATH, "serve", address) as server:
                with started(link, DEATH, "wait", address) as client:
                    self.assertEqual(client.stdout.readline(), "waiting\n")
                    server.process.kill()
                    begin = time.monotonic()
                    rest, _ = client.communicate(timeout=60)
                    self.assertEqual(client.returncode, 0, rest)
                    print(f"  every call had ended after {time.monotonic() - begin:.2f} s", flush=True)
        each_link(self, 7200, test)

    def test_a_stopped_server(self):
        """Every call ends, also of streams, and an idle channel is lost. The server serves again when it goes on."""
        def test(link, address):
            with Server(link, DEATH, "serve", address) as server:
                with started(link, DEATH, "wait", address) as waiting:
                    self.assertEqual(waiting.stdout.readline(), "waiting\n")
                    server.process.send_signal(signal.SIGSTOP)
                    begin = time.monotonic()
                    rest, _ = waiting.communicate(timeout=60)
                    took = time.monotonic() - begin
                    self.assertEqual(waiting.returncode, 0, rest)
                    self.assertLess(took, NOTICED, "a keep-alive of 0.5 s")
                    print(f"  every call had ended after {took:.2f} s", flush=True)
                server.process.send_signal(signal.SIGCONT)
                self.assertIn(address, run(link, DEATH, "move", address))
        each_link(self, 7270, test)

    def test_a_client_leaves_a_stopped_server(self):
        """A Client goes on with its other address, and no call fails."""
        def test(link, address):
            host, port = address.split(":")
            other = f"{host}:{int(port) + 5}"
            with Server(link, DEATH, "serve", address) as stopped, Server(link, DEATH, "serve", other):
                with started(link, DEATH, "move", address, other) as calling:
                    self.assertEqual(calling.stdout.readline(), f"{address}\n")
                    stopped.process.send_signal(signal.SIGSTOP)
                    begin = time.monotonic()
                    rest, _ = calling.communicate(timeout=60)
                    self.assertEqual(calling.returncode, 0, rest)
                    self.assertLess(time.monotonic() - begin, NOTICED)
                    print(f"  {rest.splitlines()[-1]}", flush=True)
        each_link(self, 7280, test)

    def test_a_stopped_client(self):
        """The server ends its connection and its handlers, and has the memory back that it held for them."""
        def test(link, address):
            with Server(link, DEATH, "hold", address) as server, started(link, DEATH, "wait", address) as waiting:
                self.assertEqual(waiting.stdout.readline(), "waiting\n")
                waiting.send_signal(signal.SIGSTOP)
                begin = time.monotonic()
                self.assertEqual(server.process.wait(timeout=60), 0)
                took = time.monotonic() - begin
                self.assertLess(took, NOTICED)
                print(f"  the server was rid of it after {took:.2f} s", flush=True)
        each_link(self, 7290, test)

    def test_a_server_that_dies_in_each_phase(self):
        def test(link, address):
            print(end=run(link, DYING, "call", address, "before the connection"), flush=True)
            for phase in ("handshake", "sent", "read", "handler", "large handler", "write", "parts",
                          "half of the results", "half of the arguments"):
                with self.subTest(phase=phase), Server(link, DYING, "serve", address, phase):
                    print(end=run(link, DYING, "call", address, phase), flush=True)
        each_link(self, 7230, test)

    def test_a_server_that_is_replaced(self):
        """New processes take the address over while calls run: none is lost, none is executed twice."""
        def test(link, address):
            with tempfile.TemporaryDirectory() as folder:
                ledger = pathlib.Path(folder, "ledger")

                def start(*what):
                    return subprocess.Popen(words(RESTART, *what), stdout=subprocess.PIPE, text=True, env={**os.environ, **link})
                server, caller = start("serve", address, ledger), None
                try:
                    self.assertEqual(server.stdout.readline(), "serving\n")
                    caller = start("call", address)
                    self.assertEqual(caller.stdout.readline(), "calling\n")
                    for _ in range(8):
                        time.sleep(0.2)
                        before, server = server, start("serve", address, ledger)
                        time.sleep(0.3)  # it waits for the address
                        before.terminate()
                        self.assertEqual(server.stdout.readline(), "serving\n")
                        rest, _ = before.communicate(timeout=60)
                        self.assertEqual((before.returncode, rest), (0, ""))
                    time.sleep(0.2)
                    caller.terminate()
                    said, _ = caller.communicate(timeout=60)
                    self.assertEqual(caller.returncode, 0, said)
                    paid, talks, connections = (int(word) for word in said.split() if word.isdigit())
                    self.assertEqual(ledger.stat().st_size, paid, "a call was lost or executed twice")
                    self.assertGreater(talks, 0)
                    self.assertGreaterEqual(connections, 9)
                    print(f"  {paid} calls and {talks} streams through 8 restarts", flush=True)
                finally:
                    for process in filter(None, (server, caller)):
                        process.kill()
                        process.communicate()
        each_link(self, 7260, test)

    def test_hello(self):
        def test(link, address):
            hello = f"{EXAMPLES}/hello"
            with Server(link, hello, "serve", address):
                self.assertEqual(run(link, hello, "call", address, "RDMA"), "hello, RDMA\n")
                self.assertIn("who is it?", run(link, hello, "call", address, "", status=1))
        each_link(self, 7210, test)

    def test_shapes(self):
        def test(link, address):
            shapes = f"{EXAMPLES}/shapes"
            with Server(link, shapes, "serve", address, 1) as server:
                self.assertEqual(run(link, shapes, "call", address).splitlines(),
                                 ["3 recorded", "at 7: 17", "at 3: not found: nothing was read at 3", "at 7: 17", "at 8: 18",
                                  "mean 10", "mean 15", "mean 30"])
                self.assertEqual(server.process.wait(30), 0)
        each_link(self, 7215, test)

    def test_the_command_without_rrdma_run(self):
        """The device comes with the library: neither the server nor `rrdma rpc` runs under `rrdma run`."""
        address = f"{HOST}:7229"
        with ended(subprocess.Popen([f"{EXAMPLES}/hello", "serve", address, "1"], stdout=subprocess.PIPE, text=True)) as server:
            self.assertIn("listening", server.stdout.readline())
            done = subprocess.run([sys.argv[1], "rpc", "health", address], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, "it is well\n"), done.stderr)
            self.assertNotIn("rrdma run --", subprocess.run([sys.argv[1], "rpc", "--help"], capture_output=True, text=True, timeout=60).stdout)

    def ask_by_command(self, link, address):
        """The same service through `rrdma rpc`, which has no prior knowledge of it."""
        rpc = (sys.argv[1], "rpc")
        listed = run(link, *rpc, "list", address)
        self.assertIn("key_value.Store/Get unary idempotent\n", listed)
        self.assertIn("key_value.Store/Scan server-stream\n", listed)
        self.assertEqual(run(link, *rpc, "call", address, "key_value.Store/Get", '{"key": "a"}'), '{"key":"a","value":"b25l"}\n')
        self.assertEqual(run(link, *rpc, "call", address, "key_value.Store/Scan", '{"key": "b"}').count("\n"), 2)
        pairs = [json.dumps({"key": key, "value": "dHdv"}) for key in ("y", "z")]
        self.assertEqual(run(link, *rpc, "call", address, "key_value.Store/Load", *pairs), '{"pairs":"2"}\n')
        lines = "\n".join(json.dumps({"key": f"a{i}", "value": "dHdv"}) for i in range(500))
        loaded = subprocess.run(words(*rpc, "call", address, "key_value.Store/Load", "-"), input=lines, capture_output=True, text=True, timeout=60,
                                env={**os.environ, **link}, check=True)
        self.assertEqual(loaded.stdout, '{"pairs":"500"}\n')
        self.assertEqual(run(link, *rpc, "call", address, "key_value.Store/Ask", '{"key": "z"}', '{"key": "none"}'),
                         '{"key":"z","value":"dHdv"}\n{"key":"none","value":""}\n')
        self.assertIn("takes one argument", run(link, *rpc, "call", address, "key_value.Store/Get", '{"key": "x"}', '{"key": "y"}', status=2))
        self.assertIn("there is no x", run(link, *rpc, "call", address, "key_value.Store/Get", '{"key": "x"}', status=2))
        said = run(link, *rpc, "call", address, "key_value.Store/Get", '{"key": "\\u001b[31mx\\r"}', status=2)
        self.assertIn("there is no \\x1b[31mx\\x0d", said)
        self.assertNotIn("\x1b", said)
        self.assertIn("--secret", run(link, *rpc, "list", address, "--secret", "in everybody's sight", status=2))
        self.assertIn("no secret in the first line", run(link, *rpc, "list", address, "--secret-file", "/dev/null", status=2))
        self.assertIn("no key_value.Key", run(link, *rpc, "call", address, "key_value.Store/Get", '{"lock": 1}', status=2))
        self.assertIn("there is no service", run(link, *rpc, "call", address, "key_value.Shop/Get", status=2))
        self.assertIn("p99.9", run(link, *rpc, "bench", address, "key_value.Store/Get", '{"key": "a"}', "-n", "500", "-c", "8"))
        self.assertIn('method="Get",code="ok"} 50', run(link, *rpc, "metrics", address))
        self.assertEqual(run(link, *rpc, "health", address, "key_value.Store"), "it is well\n")

    def test_key_value(self):
        def test(link, address):
            store = f"{EXAMPLES}/key_value"
            with Server(link, store, "serve", address):
                for key, value in (("b", "two"), ("a", "one"), ("c", "three")):
                    self.assertEqual(run(link, store, "put", address, key, value), "")
                self.assertEqual(run(link, store, "get", address, "b"), "two\n")
                self.assertEqual(run(link, store, "scan", address, "b"), "b two\nc three\n")
                self.assertIn("there is no x", run(link, store, "get", address, "x", status=1))
                # Read from the server's memory. Values that do not fit into a slot need a call.
                self.assertEqual(run(link, store, "look", address, "b"), "two\n")
                self.assertEqual(run(link, store, "put", address, "along", "x" * 300), "")
                self.assertEqual(run(link, store, "look", address, "along"), "x" * 300 + " (asked)\n")
                self.assertIn("there is no x", run(link, store, "look", address, "x", status=1))
                self.ask_by_command(link, address)
        each_link(self, 7220, test)

    def test_twins(self):
        """The same service with gRPC, from the same .proto: the same commands and answers."""
        twin = f"{EXAMPLES}/key_value_grpc"
        if not os.path.exists(twin):
            self.skipTest("gRPC is not installed")
        said = []
        for program, port in ((f"{EXAMPLES}/key_value", 7225), (twin, 7226)):
            address = f"{HOST}:{port}"
            with Server({}, program, "serve", address):
                answers = [run({}, program, *order[:1], address, *order[1:], status=status) for status, *order in (
                    (0, "put", "b", "two"), (0, "put", "a", "one"), (0, "get", "a"), (0, "scan", "a"), (1, "get", "x"))]
                answers[-1] = "there is no x" in answers[-1]
                said.append(answers)
        self.assertEqual(said[0], ["", "", "one\n", "a one\nb two\n", True])
        self.assertEqual(said[0], said[1])

    def test_file_transfer(self):
        def test(link, address):
            program = f"{EXAMPLES}/file_transfer"
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as mine:
                octets = random.Random(1).randbytes(9_000_001)
                pathlib.Path(mine, "here").write_bytes(octets)
                pathlib.Path(mine, "empty").write_bytes(b"")
                with Server(link, program, "serve", address, folder):
                    print("  put", run(link, program, "put", address, f"{mine}/here", "there").strip(), flush=True)
                    self.assertEqual(pathlib.Path(folder, "there").read_bytes(), octets)
                    print("  get", run(link, program, "get", address, "there", f"{mine}/back").strip(), flush=True)
                    self.assertEqual(pathlib.Path(mine, "back").read_bytes(), octets)
                    run(link, program, "put", address, f"{mine}/empty", "nothing")
                    self.assertIn("No such file", run(link, program, "get", address, "nowhere", f"{mine}/x", status=1))
                    self.assertIn("no name of a file", run(link, program, "get", address, "../x", f"{mine}/x", status=1))
        each_link(self, 7250, test)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
