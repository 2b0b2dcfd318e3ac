# Waits until a server is ready for its clients. A port of the kernel is visible in /proc. A librdmacm server listens
# inside RRDMA; it has the device open shortly before it listens.
import pathlib
import time

from command import run_json
from surroundings import wait_for

TCP_LISTEN = "0A"
UDP_BOUND = "07"
ROCE_PORT = 4791  # held by the daemon, not by a program
SOURCE_PORTS = 0xC000  # from here on: source ports of the device
CM_SERVERS = ("rping", "rdma_cm_server")
CM_EXAMPLES = ("build/examples/comm/", "build/examples/rpc/")  # all of them
CM_SECONDS = 1  # from opening the device to listening, on a busy machine
START_SECONDS = 30


def open_ports(pid="self"):
    """Ports of TCP listeners and UDP sockets in the network namespace of a process."""
    ports = set()
    for name, state in (("tcp", TCP_LISTEN), ("tcp6", TCP_LISTEN), ("udp", UDP_BOUND), ("udp6", UDP_BOUND)):
        for line in pathlib.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            port = int(words[1].split(":")[1], 16)
            if words[3] == state and port != ROCE_PORT and (state == TCP_LISTEN or port < SOURCE_PORTS):
                ports.add((name[:3], port))
    return ports


def _has_device(pid):
    return any(process["pid"] == pid for process in run_json("stat", "--json")["processes"])


def await_server(process, before, words=()):
    """Waits until the server has opened a port that is not in `before`, or, for a librdmacm server, the device. Fails
    if the server ends instead."""
    by_cm = any(word in CM_SERVERS or word.startswith(CM_EXAMPLES) for word in words)

    def ready():
        if process.poll() is not None:
            raise AssertionError(f"the server ended with status {process.returncode} before it had a client: {' '.join(words)}")
        if by_cm:
            return _has_device(process.pid)
        try:
            return open_ports(process.pid) - before
        except FileNotFoundError:  # it is ending
            return False

    wait_for(ready, START_SECONDS)
    if by_cm:
        time.sleep(CM_SECONDS)
