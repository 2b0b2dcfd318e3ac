# Tests `rrdma run --devices`: programs find and use several devices, each with its own address and properties.
# Arguments: the command, a program that opens two devices.
import re
import subprocess
import sys
import unittest

import command
import surroundings
from command import RRDMA, run

PLAN = ("rrdma1:speed=200G,numa=1,pci=0000:81:00.0,fw=22.36.1010,mtu=1024,vendor=0x02c9,part=4129,max_qp=2,max_cqe=100")


def said(*words, status=0):
    done = subprocess.run([RRDMA, "run", *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def section(text, device):
    return text.split(f"hca_id:\t{device}\n")[1].split("hca_id:")[0]


class SeveralDevices(unittest.TestCase):
    def test_each_has_its_own_address_and_guid(self):
        text = said("--devices", "4", "--", "ibv_devinfo", "-v")
        self.assertEqual(re.findall(r"hca_id:\s+(\S+)", text), [f"rrdma{i}" for i in range(4)])
        self.assertEqual(len(set(re.findall(r"node_guid:\s+(\S+)", text))), 4)
        for number in range(1, 4):
            self.assertEqual(re.findall(r"GID\[ *0\]:\s+(\S+)", section(text, f"rrdma{number}")), [f"::ffff:127.0.0.{number + 1},"])

    def test_properties(self):
        text = section(said("--devices", "2", "--device", PLAN, "--", "ibv_devinfo", "-v"), "rrdma1")
        for line in (r"fw_ver:\s+22\.36\.1010", r"vendor_id:\s+0x02c9", r"vendor_part_id:\s+4129", r"max_qp:\s+2\n", r"max_cqe:\s+100\n",
                     r"active_mtu:\s+1024", r"active_speed:\s+50\.0 Gbps", r"active_width:\s+4X"):
            self.assertRegex(text, line)
        self.assertNotRegex(section(said("--devices", "2", "--device", PLAN, "--", "ibv_devinfo", "-v"), "rrdma0"), "22.36.1010")

    def test_place_of_a_pci_device(self):
        script = """
import ctypes, os, pathlib
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
place = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
for path in ("/sys/class/infiniband/rrdma1/device", "/sys/class/pci_bus/0000:81/../../0000:81:00.0", "/sys/bus/pci/devices/0000:81:00.0"):
    assert libc.realpath(path.encode(), None).decode() == place, libc.realpath(path.encode(), None)
    assert os.path.realpath(path) == place, os.path.realpath(path)
assert pathlib.Path(place, "class").read_text() == "0x020000\\n"
assert pathlib.Path(place, "numa_node").read_text() == "1\\n"
assert pathlib.Path("/sys/class/infiniband/rrdma1/ports/1/rate").read_text() == "200 Gb/sec\\n"
assert os.listdir(place + "/infiniband") == ["rrdma1"]
assert "rrdma0/device" in libc.realpath(b"/sys/class/infiniband/rrdma0/device", None).decode()
"""
        said("--devices", "2", "--device", PLAN, "--", sys.executable, "-c", script)

    def test_limits_hold(self):
        script = "ibv_rc_pingpong -d rrdma1 -g 0 -r 500 -n 1"  # its CQ has more than 100 entries
        self.assertIn("Couldn't create CQ", said("--devices", "2", "--device", PLAN, "--", *script.split(), status=1))

    def test_one_program_opens_two(self):
        for link in ("shm", "udp"):
            self.assertIn("every octet right", said("--devices", "3", "--link", link, "--", sys.argv[2], "rrdma0", "0", "rrdma2", "0"))

    def ring(self, words, address):
        """rping between two programs, through rdma_cm, on the device that has the address."""
        server = subprocess.Popen([RRDMA, "run", *words, "--", "rping", "-s", "-a", address, "-C", "5", "-v"], stdout=subprocess.PIPE, text=True)
        client = [RRDMA, "run", *words, "--", "rping", "-c", "-a", address, "-I", address, "-C", "5"]
        try:
            done = surroundings.wait_for(lambda: (lambda ended: ended if ended.returncode == 0 else None)(
                subprocess.run(client, capture_output=True, text=True, timeout=60)), 60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.wait(30), 0)
        finally:
            server.kill()
            server.stdout.close()

    def test_rping_on_each_device_without_rights(self):
        for number in range(1, 4):
            self.ring(["--devices", "4"], f"127.0.0.{number + 1}")

    def test_rping_on_each_device_of_a_private_network(self):
        script = r"""
set -e
for address in 10.82.0.1 10.82.0.2 10.82.0.3 10.82.0.4 fd52:5244:4d41::1 fd52:5244:4d41::2 fd52:5244:4d41::3 fd52:5244:4d41::4; do
  rping -s -a $address -C 3 & server=$!
  for try in 1 2 3 4 5 6 7 8 9 10; do rping -c -a $address -C 3 >/dev/null 2>&1 && break; sleep 0.2; done
  wait $server
  echo done $address
done
"""
        words = [RRDMA, "run", "--devices", "4", "--private", "--", "bash", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("done "), 8)

    def test_route_chooses_the_device(self):
        surroundings.ip("link", "add", "east", "type", "veth", "peer", "name", "west")
        try:
            for end, address in (("east", "10.40.0.1/24"), ("west", "10.50.0.1/24")):
                surroundings.ip("link", "set", end, "up")
                surroundings.ip("addr", "add", address, "dev", end)
            text = said("--devices", "3", "--", "ibv_devinfo", "-v")
            both = section(text, "rrdma1") + section(text, "rrdma2")
            self.assertTrue("::ffff:10.40.0.1" in both and "::ffff:10.50.0.1" in both, text)
            self.ring(["--devices", "3"], "10.40.0.1")
            self.ring(["--devices", "3"], "10.50.0.1")
        finally:
            surroundings.ip("link", "del", "east")

    def test_mistakes(self):
        self.assertIn("'colour' is no property", said("--devices", "2", "--device", "rrdma1:colour=red", "--", "true", status=125))
        self.assertIn("--devices", said("--devices", "17", "--", "true", status=125))
        self.assertIn("rrdma shell --private", run("env", "--private", status=2)[1])


if __name__ == "__main__":
    surroundings.enter()
    command.main()
