"""Runs pairs of existing programs (ibverbs-utils, perftest) as an unprivileged user, in a network namespace with only
lo. Both ends must exit with 0 and use the requested MTU, and nothing may be left behind.

  programs_test.py --rrdma FILE --daemon FILE --library FILE --link shm|udp --group NAME
"""
import argparse
import re
import shutil
import sys
import time

from arena import Arena, enter_namespace, skip

FIRST_PORT = 19000

# The commands of each group; {gid} is the index of the GID of 127.0.0.1.
PINGPONG = ["-d", "rrdma0", "-g", "{gid}"]
PERFTEST = ["-d", "rrdma0", "-x", "{gid}", "-F", "-u", "18"]

GROUPS = {
    "device": [],
    "pingpong": [
        "ibv_rc_pingpong -n 200",
        "ibv_rc_pingpong -n 200 -e -c",
        "ibv_rc_pingpong -n 50 -m 256 -s 65536 -c",
        "ibv_uc_pingpong -n 100",
        "ibv_uc_pingpong -n 100 -e",
        "ibv_ud_pingpong -n 100 -s 1024",
        "ibv_ud_pingpong -n 100 -e -s 1024",
        "ibv_srq_pingpong -n 200 -q 4",
        "ibv_srq_pingpong -n 200 -e",
        "ibv_xsrq_pingpong -n 100",
        "ibv_xsrq_pingpong -n 100 -e",
    ],
    "send": [
        "ib_send_bw -n 20 -s 65536 -m 4096",
        "ib_send_bw -n 20 -s 1 -m 1024",
        "ib_send_bw -n 5 -s 8388608",
        "ib_send_bw -n 20 -e -m 256",
        "ib_send_bw -n 20 -b -m 2048",
        "ib_send_bw -n 20 -q 8 -m 512",
        "ib_send_bw -n 20 -s 64 -I 64",
        "ib_send_bw -n 20 --use-srq",
        "ib_send_bw -n 20 -c UC -s 4096",
        "ib_send_bw -D 1 -c UD -s 1024",
        "ib_send_lat -n 20 -s 8",
        "ib_send_lat -n 20 -e -s 4096",
        "ib_send_lat -n 20 -c UD -s 64",
    ],
    "one_sided": [
        "ib_write_bw -n 20 -s 65536 -m 4096",
        "ib_write_bw -n 5 -s 8388608",
        "ib_write_bw -n 20 -b -q 8 -m 1024",
        "ib_write_bw -n 20 -c UC -s 8192",
        "ib_write_lat -n 20 -s 8",
        "ib_write_lat -n 20 -s 64 -I 64",
        "ib_read_bw -n 5 -s 8388608 -m 2048",
        "ib_read_bw -n 20 -q 8 -b",
        "ib_read_bw -n 20 -e",
        "ib_read_lat -n 20 -s 8",
        "ib_atomic_bw -n 20",
        "ib_atomic_bw -n 20 -A CMP_AND_SWAP -q 8",
        "ib_atomic_lat -n 20",
        "ib_atomic_lat -n 20 -A CMP_AND_SWAP",
    ],
    # Every size takes long, because these programs calibrate the clock again for each one.
    "sweep": [f"{name} -n 20 -a" for name in
              ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat")],
}


def find_gid(arena):
    status, text = arena.run(["ibv_devinfo", "-v", "-d", "rrdma0"])
    found = re.search(r"GID\[\s*(\d+)\]:\s*::ffff:127\.0\.0\.1, RoCE v2", text)
    if status != 0 or not found:
        sys.exit(f"ibv_devinfo -v: exit status {status}, GID of 127.0.0.1 not found\n{text}")
    return found.group(1)


def check_device(arena):
    status, text = arena.run(["ibv_devices"])
    assert status == 0 and "rrdma0" in text, text
    status, text = arena.run(["ibv_devinfo", "-v"])
    assert status == 0, text
    for fact in ("PORT_ACTIVE", "link_layer:\t\tEthernet", "ATOMIC_HCA", "active_mtu:\t\t4096", "GID["):
        assert fact in text, f"ibv_devinfo -v does not say {fact!r}:\n{text}"
    check_files(arena)


def check_files(arena):
    """Checks the files that programs look for in sysfs and /dev, each through another function of the C library."""
    device = "/sys/class/infiniband/rrdma0"
    for command, wanted in (
            (["ls", "-l", "/sys/class/infiniband", "/sys/class/infiniband_verbs/", "/dev/infiniband"], "uverbs0"),
            (["ls", f"{device}/device/net/"], "lo"),
            (["cat", f"{device}/ports/1/gid_attrs/ndevs/0"], "lo"),
            (["sh", "-c", f"read type < {device}/ports/1/gid_attrs/types/0 && echo $type"], "RoCE v2"),
            (["sh", "-c", "test -c /dev/infiniband/uverbs0 -a -r /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0 && echo open"], "open"),
            (["readlink", "-f", device], "/infiniband/rrdma0"),
            (["/usr/bin/python3", "-c", f"import os; print(os.listdir('{device}/ports'), os.path.realpath('{device}'), open('{device}/node_type').read())"], "1: CA"),
            (["ibv_devinfo"], "board_id:\t\t\tRRDMA")):
        status, text = arena.run(command)
        assert status == 0 and wanted in text, f"{command}: exit status {status}, no {wanted!r} in\n{text}"
    status, text = arena.run(["ls", "/sys/class/infiniband/no_such_device"])
    assert status != 0, text
    check_folders(arena)


# A program that changes into the device's folders and looks around from there, as scripts do.
WALK = """
import ctypes, os
libc = ctypes.CDLL(None)
real = "/sys/devices/virtual/infiniband/rrdma0"
def same(a, b):
    assert a == b, (a, b)
os.chdir("/sys/class/infiniband")
same(os.getcwd(), "/sys/class/infiniband")
same(os.listdir(), ["rrdma0"])
same(os.listdir("."), ["rrdma0"])
assert "net" in os.listdir("..") and os.path.exists("../net/lo/mtu"), os.listdir("..")
same(open("rrdma0/node_type").read(), "1: CA\\n")
same(open("../infiniband/./rrdma0/ports/../node_type").read(), "1: CA\\n")
same(os.path.realpath("rrdma0/.."), "/sys/devices/virtual/infiniband")
same(os.path.realpath("."), "/sys/class/infiniband")
same(os.readlink("/proc/self/cwd"), "/sys/class/infiniband")
same(os.readlink("rrdma0"), "../../devices/virtual/infiniband/rrdma0")
same(open("/sys/class/net/../infiniband/rrdma0/node_type").read(), "1: CA\\n")
assert os.path.exists("/sys/class/infiniband/../net/lo") and os.path.exists("/dev/./infiniband/uverbs0")
folder = os.open("rrdma0/ports", os.O_RDONLY)
same(os.listdir(folder), ["1"])
same(os.readlink(f"/proc/self/fd/{folder}"), real + "/ports")
same(os.read(os.open("1/link_layer", os.O_RDONLY, dir_fd=folder), 99), b"Ethernet\\n")
same(os.read(os.open("../node_type", os.O_RDONLY, dir_fd=folder), 99), b"1: CA\\n")
assert os.stat("../../../../../class/net/lo", dir_fd=folder)
os.fchdir(folder)
same(os.getcwd(), real + "/ports")
os.chdir("..")
same(os.getcwd(), real)
room = ctypes.create_string_buffer(8)
libc.getcwd.restype = ctypes.c_char_p
same(libc.getcwd(room, 8), None)
libc.get_current_dir_name.restype = ctypes.c_char_p
same(libc.get_current_dir_name(), real.encode())
class Found(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("rest", ctypes.c_char * 128)]
for pattern, wanted in ((b"/sys/class/infiniband/*/ports/*", b"/sys/class/infiniband/rrdma0/ports/1"), (b"../rrdma?/ports", b"../rrdma0/ports")):
    found = Found()
    same(libc.glob(pattern, 0, None, ctypes.byref(found)), 0)
    same([found.paths[i] for i in range(found.count)], [wanted])
os.chdir("/")
same(os.getcwd(), "/")
same(os.path.exists("node_type"), False)
print("walked")
"""


def check_folders(arena):
    """Checks programs that change into a folder of the device's files, and the working directory that they report."""
    files = "/sys/class/infiniband"
    for command, wanted in (
            (["/usr/bin/python3", "-c", WALK], "walked"),
            (["sh", "-c", f"cd {files} && for name in *; do echo device $name; done"], "device rrdma0"),
            (["bash", "-c", f"cd {files}/rrdma0/ports && cat 1/link_layer && cd .. && pwd"], f"Ethernet\n{files}/rrdma0\n"),
            # A child starts in its parent's working directory.
            (["sh", "-c", f"cd {files}/rrdma0 && /bin/pwd -P && cat ../rrdma0/node_type"], "/sys/devices/virtual/infiniband/rrdma0\n1: CA\n"),
            (["find", f"{files}/rrdma0/", "-maxdepth", "1", "-name", "node_type"], f"{files}/rrdma0/node_type"),
            (["ibstatus"], "Infiniband device 'rrdma0' port 1 status:"),
            (["ibstatus", "rrdma0:1"], "4: ACTIVE")):
        if shutil.which(command[0]) is None:
            sys.exit(f"{command[0]} is missing; scripts/install-packages test")
        status, text = arena.run(command)
        assert status == 0 and wanted in text, f"{command}: exit status {status}, no {wanted!r} in\n{text}"


def asked_mtu(command):
    found = re.search(r"-m (\d+)", command)
    return found.group(1) if found and command.startswith("ib_") else None


def complaint(command, ends):
    for name, (status, output) in zip(("server", "client"), ends):
        if status != 0:
            return f"{name}: " + ("still running after the time limit" if status is None else f"exit status {status}")
        mtu = asked_mtu(command)
        if mtu and not re.search(rf"Mtu\s*:\s*{mtu}\[B\]", output):
            return f"{name}: MTU {mtu} was asked for and is not what it says"
        # The passive end of READ and ATOMIC latency measures nothing.
        if name == "client" and command.startswith("ib_") and not re.search(r"^\s*\d+\s+\d+\s+[\d.]+", output, re.M):
            return f"{name}: no result line"
    return None


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), required=True)
    parser.add_argument("--group", choices=GROUPS, required=True)
    options = parser.parse_args()
    for tool in ("ibv_rc_pingpong", "ib_send_bw", "ip", "unshare"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    enter_namespace()
    failures = 0
    with Arena({"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library}) as arena:
        if options.group == "device":
            check_device(arena)
        gid = find_gid(arena)
        for number, command in enumerate(GROUPS[options.group]):
            port = FIRST_PORT + number
            usual = PINGPONG if command.startswith("ibv_") else PERFTEST
            line = [*command.split(), *(word.format(gid=gid) for word in usual), "-p", str(port)]
            start = time.monotonic()
            ends = arena.pair(line, port, link=options.link, timeout=240 if options.group == "sweep" else 30)
            why = complaint(command, ends)
            print(f"{'ok  ' if why is None else 'FAIL'} {time.monotonic() - start:5.1f} s  {command}", flush=True)
            if why is not None:
                failures += 1
                print(f"  {why}")
                for name, (_, output) in zip(("server", "client"), ends):
                    print(f"  --- {name}\n" + "\n".join("  " + text for text in output.splitlines()[-25:]))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
