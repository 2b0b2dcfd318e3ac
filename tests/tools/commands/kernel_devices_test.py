# Tests RRDMA beside a kernel device: their order, hiding one of them, and the consistency of the device list, the
# files and librdmacm. The kernel device is a fake: files and a node where the real libibverbs looks, in mounts of
# this test. It cannot be opened. Argument: the command.
import os
import pathlib
import subprocess
import sys
import unittest

import command
import surroundings
from command import RRDMA

FAKE = "rxe7"
NODES = ("null", "zero", "full", "random", "urandom", "tty")

# Names in the order of rdma_get_devices().
BY_CONNECTION_MANAGER = """
import ctypes
manager, verbs = ctypes.CDLL("librdmacm.so.1"), ctypes.CDLL("libibverbs.so.1")
manager.rdma_get_devices.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
verbs.ibv_get_device_name.restype = ctypes.c_char_p
count = ctypes.c_int()
contexts = manager.rdma_get_devices(ctypes.byref(count))
for i in range(count.value):
    print(verbs.ibv_get_device_name(ctypes.c_void_p(contexts[i][0])).decode())
"""


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def make_kernel_device():
    """The files that a kernel with one RDMA device shows."""
    mount("-t", "tmpfs", "none", "/sys/class")
    verbs, device = pathlib.Path("/sys/class/infiniband_verbs"), pathlib.Path("/sys/class/infiniband") / FAKE
    (verbs / "uverbs0").mkdir(parents=True)
    device.mkdir(parents=True)
    for path, text in ((verbs / "abi_version", "6"), (verbs / "uverbs0/ibdev", FAKE), (verbs / "uverbs0/abi_version", "2"),
                       (verbs / "uverbs0/dev", "231:192"), (device / "node_type", "1: CA"), (device / "node_guid", "0000:0000:0000:0001")):
        path.write_text(text + "\n")
    nodes = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "nodes"
    nodes.mkdir()
    mount("-t", "tmpfs", "none", str(nodes))
    for name in NODES:
        (nodes / name).touch()
        mount("--bind", f"/dev/{name}", str(nodes / name))
    (nodes / "infiniband").mkdir()
    (nodes / "shm").mkdir(mode=0o1777)
    os.mknod(nodes / "infiniband/uverbs0", 0o20666, os.makedev(231, 192))
    mount("--rbind", str(nodes), "/dev")


def shown(*words, options=()):
    done = subprocess.run([RRDMA, "run", *options, "--", *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout.split()


class KernelDevices(unittest.TestCase):
    ORDERS = {(): ["rrdma0", FAKE], ("--only",): ["rrdma0"], ("--beside",): [FAKE, "rrdma0"]}

    @classmethod
    def setUpClass(cls):
        # If the kernel supports RDMA, libibverbs queries it by netlink and ignores the files.
        found = subprocess.run(["ibv_devices"], capture_output=True, text=True, timeout=60).stdout
        if FAKE not in found:
            raise unittest.SkipTest("the fake does not deceive the real library here, so nothing would be shown")

    def listed(self, options):
        return shown("ibv_devices", options=options)[5::2]  # after the heading: names and GUIDs

    def test_the_list(self):
        for options, order in self.ORDERS.items():
            self.assertEqual(self.listed(options), order, options)

    def test_the_files(self):
        for options, order in self.ORDERS.items():
            self.assertEqual(shown("ls", "/sys/class/infiniband", options=options), sorted(order), options)
            names = shown("ls", "/sys/class/infiniband_verbs", options=options)
            owners = [shown("cat", f"/sys/class/infiniband_verbs/{name}/ibdev", options=options) for name in names if name.startswith("uverbs")]
            self.assertEqual(sorted(owners), sorted([name] for name in order), options)

    def test_the_connection_manager(self):
        """librdmacm opens the listed devices, which fails for the fake. Ours is listed, and first."""
        for options in self.ORDERS:
            names = shown(sys.executable, "-c", BY_CONNECTION_MANAGER, options=options)
            self.assertEqual(names, ["rrdma0"], options)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    try:
        make_kernel_device()
    except (PermissionError, subprocess.CalledProcessError) as error:
        print(f"no device nodes can be made here: {error}")
        sys.exit(surroundings.SKIPPED)
    command.main()
