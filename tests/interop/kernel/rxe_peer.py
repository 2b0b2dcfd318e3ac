"""The stage `rxe`: programs between our device and the kernel's rxe in a second guest, both ways."""

import time

PEER4, PEER6 = "10.77.0.3", "fd77::3"
OUR4 = "10.77.0.2"
PROGRAM_SECONDS = 120

# Name, server, client; {peer} is the server's address.
PAIRS = [
    ("ibv_rc_pingpong", "ibv_rc_pingpong -g 1 -n 50 -c -e", "ibv_rc_pingpong -g 1 -n 50 -c -e {peer}"),
    ("ibv_ud_pingpong", "ibv_ud_pingpong -g 1 -n 50", "ibv_ud_pingpong -g 1 -n 50 {peer}"),
    ("ib_write_bw", "ib_write_bw -x 1 -n 50 -F", "ib_write_bw -x 1 -n 50 -F {peer}"),
    ("ib_read_bw", "ib_read_bw -x 1 -n 50 -F", "ib_read_bw -x 1 -n 50 -F {peer}"),
    ("rping", "rping -s -a {peer} -C 10 -V", "rping -c -a {peer} -C 10 -V"),
    ("ucmatose", "ucmatose", "ucmatose -s {peer}"),
]


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
        for name, server, client in PAIRS:
            for to, near, far, address in (("to rxe", ours, peer, PEER4), ("from rxe", peer, ours, OUR4)):
                wrong = run_pair(far, near, address, server, client)
                line = f"{'FAILED' if wrong else 'ok'} {name} {to}"
                print(f"  {line}\n{wrong}".rstrip(), flush=True)
                if wrong:
                    failed.append(line)
    finally:
        peer.stop()
    return failed
