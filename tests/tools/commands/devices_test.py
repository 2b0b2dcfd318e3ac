# Tests `rrdma devices` and `rrdma gids`: they show the devices and GIDs that unmodified programs find. Also the `rdma` tool of
# iproute2, which asks the kernel by netlink.
import json
import re
import socket
import subprocess
import sys
import unittest

import command
import surroundings
from command import run, run_json


NETLINK_RDMA, NETLINK_USERSOCK = 20, 2
# Opens such a socket, reads lines of its input, and prints what it receives after each. The question is a list of devices.
ASKER = """
import socket, struct, sys
asker = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
asker.bind((0, 0))
asker.settimeout(2)
print(asker.getsockname()[0], flush=True)
for line in sys.stdin:
    asker.send(struct.pack("=IHHII", 16, 5 << 10 | 1, 0x305, 1, 0))
    print(asker.recv(4096), flush=True)
"""


def rdma(*words, options=()):
    done = subprocess.run([command.RRDMA, "run", *options, "--", "rdma", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class RdmaTool(unittest.TestCase):
    def test_links_and_devices(self):
        status, output, error = rdma("link", "show", "-j")
        self.assertEqual(status, 0, error)
        (port,) = json.loads(output)
        self.assertEqual((port["ifname"], port["port"], port["state"], port["netdev"]), ("rrdma0", 1, "ACTIVE", "eth0"))
        (device,) = run_json("devices", "--json")
        status, output, error = rdma("dev")
        self.assertEqual(status, 0, error)
        self.assertRegex(output, f"rrdma0: node_type ca .*fw .* node_guid {device['guid']}")

    def test_two_devices(self):
        _, output, error = rdma("link", options=("--devices", "2"))
        self.assertEqual(re.findall(r"link (\S+)/1 state ACTIVE", output), ["rrdma0", "rrdma1"], error)

    def test_what_is_not_answered_is_an_error(self):
        for words in (("res", "show"), ("link", "add", "x", "type", "rxe", "netdev", "eth0")):
            status, output, error = rdma(*words)
            self.assertNotEqual(status, 0, output)
            self.assertIn("not supported", error)

    def test_nobody_else_can_answer(self):
        # Before its first question, a program drops what others sent to its socket; later, the kernel refuses it.
        with subprocess.Popen([command.RRDMA, "run", "--", sys.executable, "-c", ASKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as asker, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_USERSOCK) as stranger:
            port = int(asker.stdout.readline())
            stranger.sendto(b"forged" * 8, (port, 0))
            print("ask", file=asker.stdin, flush=True)
            self.assertIn("rrdma0", asker.stdout.readline())
            with self.assertRaises(ConnectionRefusedError):
                stranger.sendto(b"forged" * 8, (port, 0))
            print("ask", file=asker.stdin, flush=True)
            self.assertIn("rrdma0", asker.stdout.readline())
            asker.stdin.close()
            self.assertEqual(asker.wait(10), 0)


class Devices(unittest.TestCase):
    def test_the_device_sits_on_the_interface_of_the_default_route(self):
        (device,) = run_json("devices", "--json")
        self.assertEqual(device["device"], "rrdma0")
        self.assertEqual(device["interface"], "eth0")
        self.assertEqual(device["state"], "active")
        self.assertEqual(device["interface_mtu"], 1500)
        self.assertEqual(device["ib_mtu"], 1024)

    def test_lines_fit_80_columns_and_have_no_colours_in_a_pipe(self):
        for words in (["devices"], ["gids"]):
            output, _ = run(*words)
            self.assertNotIn("\x1b", output)
            for line in output.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_another_interface_on_request(self):
        (device,) = run_json("devices", "--json", "--netdev", "lo")
        self.assertEqual((device["interface"], device["ib_mtu"]), ("lo", 4096))
        (by_variable,) = run_json("devices", "--json", environment={"RRDMA_NETDEV": "lo"})
        self.assertEqual(by_variable, device)

    def test_an_unknown_interface_is_said(self):
        _, error = run("devices", "--netdev", "nosuch", status=2)
        self.assertIn("there is no network interface 'nosuch'", error)
        self.assertIn("ip link", error)

    def test_gids_are_those_of_the_program(self):
        shown = {entry["index"]: entry["gid"] for entry in run_json("gids", "--json")}
        seen = subprocess.run([command.RRDMA, "run", "--", "ibv_devinfo", "-v"], capture_output=True, text=True, check=True).stdout
        found = dict(re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)", seen))
        self.assertEqual(len(shown), len(found), seen)
        addresses = {entry["index"]: entry["address"] for entry in run_json("gids", "--json")}
        for index, text in found.items():
            self.assertEqual(text.replace("::ffff:", ""), addresses[int(index)])

    def test_table_of_gids(self):
        output, _ = run("gids")
        self.assertRegex(output, r"rrdma0\s+\d\s+10\.9\.0\.1\s+RoCE v2\s+eth0")
        self.assertRegex(output, r"rrdma0\s+\d\s+fd09::1\s+RoCE v2\s+eth0")

    def test_an_interface_without_address(self):
        surroundings.ip("link", "add", "bare", "type", "bridge")
        _, error = run("gids", "--netdev", "bare", status=2)
        self.assertIn("'bare' is down", error)
        self.assertIn("ip link set bare up", error)
        self.assertEqual(run_json("gids", "--json", "--netdev", "bare"), [])
        self.assertRegex(run("devices", "--netdev", "bare")[0], r"bare\s+down .* none")


class Usage(unittest.TestCase):
    def test_help_at_every_level(self):
        output, _ = run("--help")
        commands = re.findall(r"^  ([a-z]+)  +[A-Z]", output, re.M)
        self.assertGreaterEqual(set(commands), {"run", "decode", "devices", "gids", "stat"})
        for name in commands:
            text, _ = run(name, "--help")
            self.assertRegex(text, r"(?i)exit status", name)

    def test_wrong_options(self):
        for words in (["devices", "--nosuch"], ["stat", "--qp", "seven"], ["link", "frob"], ["link", "add"], ["doctor", "--peer"],
                      ["stat", "--watch", "0"], ["top", "--interval", "abc"], ["explain", "--lang", "xx", "EINVAL"], ["capture"], ["decode"],
                      ["capture", "--seconds", "-1", "x"], ["sim", "--seed", "abc"], ["sim", "--fault", "foo=1"], ["--nosuch"]):
            _, error = run(*words, status=2)
            self.assertRegex(error, rf"^rrdma( {words[0]})?: ")
            self.assertIn("--help", error)
        self.assertIn("there is no command 'nosuch'", run("nosuch", status=2)[1])

    def test_wrong_options_of_run(self):
        """Its own failures have a status that no program is likely to use."""
        for words in ([], ["--nosuch"], ["--link", "foo", "true"], ["--fault", "drop=xx", "true"], ["--pcap", "/nonexistent/x", "true"],
                      ["--netdev", "nosuch", "true"], ["--log", "loud", "true"]):
            self.assertRegex(run("run", *words, status=125)[1], "^rrdma run: ")
        run("run", "--", "/nonexistent", status=127)
        run("run", "--", "/etc/passwd", status=126)
        run("run", "--", "sh", "-c", "exit 7", status=7)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
