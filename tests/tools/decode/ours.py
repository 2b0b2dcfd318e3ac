"""Runs `rrdma decode --json` and flattens its packets to the field names of tshark.py."""

import json
import subprocess

# Maps a flat name to its path in the object, and to whether the value is a string "0x…".
PLACES = {
    "opcode": [("bth", "opcode")],
    "solicited": [("bth", "solicited")],
    "migration": [("bth", "migration")],
    "pad": [("bth", "pad")],
    "version": [("bth", "version")],
    "pkey": [("bth", "pkey")],
    "destination_qp": [("bth", "destination_qp")],
    "ack_request": [("bth", "ack_request")],
    "psn": [("bth", "psn")],
    "qkey": [("deth", "qkey")],
    "source_qp": [("deth", "source_qp")],
    "address": [("reth", "address"), ("atomic_eth", "address")],
    "rkey": [("reth", "rkey"), ("atomic_eth", "rkey")],
    "length": [("reth", "length")],
    "swap_or_add": [("atomic_eth", "swap_or_add")],
    "compare": [("atomic_eth", "compare")],
    "syndrome": [("aeth", "syndrome")],
    "msn": [("aeth", "msn")],
    "original": [("atomic_ack_eth", "original")],
    "srq": [("xrceth", "srq")],
    "placement": [("feth", "placement")],
    "selectivity": [("feth", "selectivity")],
    "icrc": [("icrc", "value")],
}


def decode(program, capture, *options):
    """Returns (packets, exit status)."""
    done = subprocess.run([program, "decode", "--json", *options, str(capture)], capture_output=True, text=True,
                          timeout=100, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def flat(packet):
    fields = {}
    for name, places in PLACES.items():
        for group, member in places:
            if group in packet:
                value = packet[group][member]
                fields[name] = int(value, 16) if isinstance(value, str) else value
    for name in ("immediate", "invalidate_rkey"):
        if name in packet:
            fields[name] = packet[name]
    return fields
