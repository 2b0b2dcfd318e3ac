"""Libraries between programs and verbs, as an unprivileged user in a network namespace with only lo: UCX
(`ucx_perftest`, reliable and datagram transports) and libfabric (`fi_pingpong`). Also `ibv_asyncwatch`, which must
see events of the interface.

  middleware_test.py --rrdma FILE --daemon FILE --library FILE --link shm|udp --group NAME
"""
import argparse
import os
import re
import select
import shutil
import subprocess
import sys
import time

from arena import Arena, enter_namespace, skip
from programs import ucx_perftest

FIRST_PORT = 19500
ITERATIONS = ["-n", "100", "-w", "10"]

# UCT uses one transport. UCP chooses protocols on top of it, so every kind of call ends in packets of that transport.
# UCT's swap is no InfiniBand operation, and for the datagram transport only active messages are measured.
UCT_RELIABLE = [
    "am_lat", "am_bw -D bcopy -s 4000", "am_bw -D zcopy -s 4000", "put_lat", "put_bw -D bcopy -s 8000", "put_bw -D zcopy -s 65536",
    "get -D bcopy -s 64", "get -D zcopy -s 65536", "add_lat", "add_mr", "fadd", "cswap",
]
UCT_DATAGRAM = ["am_lat", "am_bw -D bcopy -s 4000", "am_bw -D zcopy -s 4000"]
UCP = [
    "tag_lat", "tag_bw -s 65536", "tag_sync_lat", "ucp_put_lat", "ucp_put_bw -s 65536", "ucp_get -s 65536", "ucp_add", "ucp_fadd",
    "ucp_swap", "ucp_cswap", "stream_lat", "stream_bw -s 65536", "ucp_am_lat", "ucp_am_bw -s 65536",
]
GROUPS = {
    "ucx_reliable": ("rc", [f"{test} -x rc_verbs -d rrdma0:1" for test in UCT_RELIABLE] + UCP),
    "ucx_datagram": ("ud", [f"{test} -x ud_verbs -d rrdma0:1" for test in UCT_DATAGRAM] + UCP),
    "fabric": (None, []),
    "events": (None, []),
}


def report(name, start, why, *outputs):
    print(f"{'ok  ' if why is None else 'FAIL'} {time.monotonic() - start:5.1f} s  {name}", flush=True)
    if why is not None:
        print(f"  {why}")
        for output in outputs:
            print("  ---\n" + "\n".join("  " + text for text in output.splitlines()[-25:]))
    return why is None


def both_ended_well(ends, wanted):
    """Returns a sentence if they did not."""
    for name, (status, output) in zip(("server", "client"), ends):
        if status != 0:
            return f"{name}: " + ("still running after the time limit" if status is None else f"exit status {status}")
    return None if re.search(wanted, ends[1][1], re.M) else "client: no result line"


def run_ucx(arena, link, transport, tests):
    environment = {"UCX_TLS": f"{transport}_v,self", "UCX_NET_DEVICES": "rrdma0:1"}
    good = True
    for number, test in enumerate(tests):
        port = FIRST_PORT + number
        start = time.monotonic()
        ends = arena.pair([*ucx_perftest(), "-p", str(port), *ITERATIONS, "-t", *test.split()], port, link=link, extra=environment)
        good &= report(f"{transport}: {test}", start, both_ended_well(ends, r"^Final:\s+100\s"), *(output for _, output in ends))
    return good


def run_fabric(arena, link):
    """The server listens on -B, the client calls -P."""
    start = time.monotonic()
    command = ["fi_pingpong", "-p", "verbs", "-e", "dgram", "-I", "50", "-c"]
    server = arena.start([*command, "-B", str(FIRST_PORT)], link=link)
    arena.wait_for_listener(server, FIRST_PORT)
    client = arena.run([*command, "-P", str(FIRST_PORT), "127.0.0.1"], link=link, timeout=30)
    ends = (arena.finish(server, 10 if client[0] == 0 else 2), client)
    # libfabric asks for devices before our constructors have run; the user must see no message about that.
    words = [line for _, output in ends for line in output.splitlines() if "rrdma[" in line]
    problem = both_ended_well(ends, r"^1k\s+50\s+=50\s") or (f"said without need: {words}" if words else None)
    return report(" ".join(command), start, problem, *(output for _, output in ends))


def run_events(arena, link):
    start = time.monotonic()
    watch = arena.start(["stdbuf", "-oL", "ibv_asyncwatch", "-d", "rrdma0"], link=link)
    output = ""

    def said(word):
        nonlocal output
        end = time.monotonic() + 30
        while word not in output and select.select([watch.stdout], [], [], max(0, end - time.monotonic()))[0]:
            piece = os.read(watch.stdout.fileno(), 4096).decode(errors="replace")
            if not piece:
                break
            output += piece
        return word in output

    changes = ((None, "async event FD"), ("addr add 127.0.0.9/8 dev lo", "IBV_EVENT_GID_CHANGE"),
               ("link set lo down", "IBV_EVENT_PORT_ERR"), ("link set lo up", "IBV_EVENT_PORT_ACTIVE"))
    missing = []
    for change, word in changes:
        if change:
            subprocess.run(["ip", *change.split()], check=True)
        if not said(word):
            missing.append(word)
    arena.finish(watch, 0.1)  # it never exits by itself
    return report("ibv_asyncwatch", start, f"not seen: {missing}" if missing else None, output)


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), required=True)
    parser.add_argument("--group", choices=GROUPS, required=True)
    options = parser.parse_args()
    tool = {"fabric": "fi_pingpong", "events": "ibv_asyncwatch"}.get(options.group, "ucx_perftest")
    for needed in (tool, "ip", "unshare", "stdbuf"):
        if shutil.which(needed) is None:
            skip(f"{needed} is not installed")
    enter_namespace()
    with Arena({"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library}) as arena:
        transport, tests = GROUPS[options.group]
        if transport is not None:
            good = run_ucx(arena, options.link, transport, tests)
        else:
            good = run_fabric(arena, options.link) if options.group == "fabric" else run_events(arena, options.link)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
