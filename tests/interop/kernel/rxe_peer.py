"""The stage `rxe`: programs and users of the kernel between our device and the kernel's rxe in a second guest, both ways."""

import time
from pathlib import Path

STAGES = Path(__file__).resolve().parent / "stages"

PEER4, PEER6 = "10.77.0.3", "fd77::3"
OUR4 = "10.77.0.2"
PROGRAM_SECONDS = 120
USER_SECONDS = 600

# Name, server, client; {peer} is the server's address.
PAIRS = [
    ("ibv_rc_pingpong", "ibv_rc_pingpong -g 1 -n 50 -c -e", "ibv_rc_pingpong -g 1 -n 50 -c -e {peer}"),
    ("ibv_ud_pingpong", "ibv_ud_pingpong -g 1 -n 50", "ibv_ud_pingpong -g 1 -n 50 {peer}"),
    ("ib_write_bw", "ib_write_bw -x 1 -n 50 -F", "ib_write_bw -x 1 -n 50 -F {peer}"),
    ("ib_read_bw", "ib_read_bw -x 1 -n 50 -F", "ib_read_bw -x 1 -n 50 -F {peer}"),
    ("rping", "rping -s -a {peer} -C 10 -V", "rping -c -a {peer} -C 10 -V"),
    ("ucmatose", "ucmatose", "ucmatose -s {peer}"),
]

# Functions of stages/far.sh.
USERS = ["nvme", "nfs", "iser"]


def call(guest, address, function):
    """Runs a function of stages/far.sh. Returns what went wrong; empty: nothing."""
    text = "".join((STAGES / name).read_text() for name in ("lib.sh", "far.sh"))
    request = guest.start_script(f"{text}ADDRESS={address}\n{function}\ncode=$?\n[ $code -eq 0 ] || dmesg | tail -n 5\nexit $code")
    code = request.wait(USER_SECONDS)
    return "" if code == 0 else f"{function}: {code}\n{request.output[-600:]}\n"


def run_user(server_guest, client_guest, address, user):
    """Returns what went wrong; empty: nothing."""
    wrong = call(server_guest, address, f"serve_{user}")
    if not wrong:
        wrong = call(client_guest, address, f"use_{user}")
    return wrong + call(server_guest, address, f"end_{user}")


def run_pair(server_guest, client_guest, address, server, client):
    """Returns what went wrong; empty: nothing."""
    serving = server_guest.start_program(server.format(peer=address), PROGRAM_SECONDS)
    time.sleep(3)
    asking = client_guest.start_program(client.format(peer=address), PROGRAM_SECONDS)
    codes = asking.wait(PROGRAM_SECONDS + 10), serving.wait(PROGRAM_SECONDS + 10)
    if codes == (0, 0):
        return ""
    return f"client {codes[0]}, server {codes[1]}\n{asking.output[-300:]}\n{serving.output[-300:]}"


def run(ours, make_peer):
    """Returns the lines that are not ok."""
    peer = make_peer(ours.image, ours.folder.parent / "peer", "none", PEER4, PEER6, ours.mtu)
    failed = []
    try:
        peer.start()
        tests = [(name, run_pair, (server, client)) for name, server, client in PAIRS]
        tests += [(name, run_user, (name,)) for name in USERS]
        for name, test, words in tests:
            for to, near, far, address in (("to rxe", ours, peer, PEER4), ("from rxe", peer, ours, OUR4)):
                wrong = test(far, near, address, *words)
                line = f"{'FAILED' if wrong else 'ok'} {name} {to}"
                print(f"  {line}\n{wrong}".rstrip(), flush=True)
                if wrong:
                    failed.append(line)
    finally:
        peer.stop()
    return failed
