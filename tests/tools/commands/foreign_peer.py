# A peer that is not RRDMA and follows orders, in its own network namespace at the far end of the cable. Lines of its
# input: "reject REASON" (answers every connection request with it from now on), "respond QPN" (answers the first READ
# of that queue pair with 32 bytes). Run by failures_test.py. Arguments: the interface, its address, the address of
# the caller.
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "interop/cm_programs"))

import mads  # noqa: E402

REJ = 0x0012
READ_RESPONSE_ONLY, FIRST_PSN = 0x10, 100
MAD_AT = 12 + 8  # after BTH and DETH
BODY_AT = MAD_AT + 24


def rejection(request, reason):
    """The REJ for a REQ, from its BTH on."""
    transaction = struct.unpack_from(">Q", request, MAD_AT + 8)[0]
    body = bytearray(232)
    body[4:8] = request[BODY_AT:BODY_AT + 4]  # the caller's communication ID
    struct.pack_into(">H", body, 10, reason)
    return mads.frame(mads.mad(REJ, bytes(body), transaction))


def main(interface, address, caller):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    while subprocess.run(["ip", "link", "set", interface, "up"], capture_output=True).returncode != 0:
        time.sleep(0.01)  # until it was moved here
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", interface], check=True)
    arrivals = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    arrivals.bind((address, mads.PORT))
    print("ready", flush=True)
    reason = 0
    with mads.Sender(address, caller) as sender:
        while True:
            ready, _, _ = select.select([arrivals, sys.stdin], [], [])
            if sys.stdin in ready:
                line = sys.stdin.readline()
                if not line:
                    # Move the cable back: it would be deleted with this namespace.
                    subprocess.run(["ip", "link", "set", interface, "netns", str(os.getppid())], check=True)
                    return
                order, number = line.split()
                if order == "reject":
                    reason = int(number)
                else:
                    sender.send_right(mads.bth(READ_RESPONSE_ONLY, int(number), FIRST_PSN, ack=False) + bytes([0x1F, 0, 0, 1]) + bytes(32))
                print("understood", flush=True)
            if arrivals in ready:
                request = arrivals.recv(4096)
                is_req = len(request) >= BODY_AT + 232 and struct.unpack_from(">H", request, MAD_AT + 16)[0] == mads.REQ
                if is_req:
                    sender.send_right(rejection(request, reason))


if __name__ == "__main__":
    main(*sys.argv[1:])
