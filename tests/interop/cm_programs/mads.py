"""Hand-made management datagrams of the connection manager, as bytes for packets.Sender: valid ones to flood
a daemon with, and invalid ones."""

import ipaddress
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))

from packets import PORT, Sender, bth, mutated  # noqa: E402

REQ, ATTRIBUTES = 0x0010, range(0x0010, 0x001C)
TCP_SERVICE = 0x01060000
UD_SEND_ONLY, GENERAL_SERVICES_QKEY = 0x64, 0x80010000


def gid(address):
    return bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(address).packed


def mad(attribute, body, transaction=1):
    header = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0)
    return header + body.ljust(232, b"\0")[:232]


def frame(content, psn=0):
    """Builds the packet from the BTH to the pad, for QP1."""
    return bth(UD_SEND_ONLY, 1, psn, ack=False) + struct.pack(">II", GENERAL_SERVICES_QKEY, 1) + content


def req(source, destination, port, number):
    """Builds a REQ for an RC connection to a TCP port space. A different `number` makes it a different call.
    """
    body = bytearray(232)
    struct.pack_into(">I", body, 0, number)
    struct.pack_into(">QQ", body, 8, TCP_SERVICE | port, 0x0200000000000001)
    struct.pack_into(">I", body, 32, (0x800000 | number & 0x7FFFFF) << 8 | 1)
    body[39] = 1
    body[43] = 20 << 3
    struct.pack_into(">I", body, 44, 0x123456 << 8 | 20 << 3 | 7)
    struct.pack_into(">H", body, 48, 0xFFFF)
    body[50], body[51] = 3 << 4 | 7, 15 << 4
    body[56:72], body[72:88] = gid(source), gid(destination)
    body[93], body[95] = 64, 18 << 3
    private = bytes([0, 0x40]) + struct.pack(">H", 1024 + number % 60000) + bytes(12) + \
        ipaddress.IPv4Address(source).packed + bytes(12) + ipaddress.IPv4Address(destination).packed
    body[140:140 + len(private)] = private
    return mad(REQ, bytes(body), number)


def flood_with_calls(source, destination, port, rate, seconds):
    """Makes calls at that rate; returns their number and the time taken."""
    sent, begin = 0, time.monotonic()
    with Sender(source, destination) as sender:
        while (elapsed := time.monotonic() - begin) < seconds:
            due = min(int(rate * elapsed) - sent, 200)
            for _ in range(due):
                sent += 1
                sender.send_right(frame(req(source, destination, port, 0x10000 + sent), sent))
            if due == 0:
                time.sleep(0.001)
    return sent, time.monotonic() - begin


def wrong_mad(chance, source, destination, port):
    """Builds a frame with a correct ICRC and an error inside."""
    content = req(source, destination, port, chance.randrange(1, 1 << 32))
    kind = chance.randrange(5)
    if kind == 0:
        content = mad(chance.choice(list(ATTRIBUTES)), chance.randbytes(232), chance.randrange(1 << 64))
    elif kind == 1:
        content = mutated(chance, content)
    elif kind == 2:
        content = chance.randbytes(256)
    elif kind == 3:
        content = content[:chance.randrange(256)]
    else:
        octets = bytearray(content)
        for _ in range(chance.randrange(1, 8)):
            octets[chance.randrange(256)] = chance.randrange(256)
        content = bytes(octets)
    return frame(content, chance.randrange(1 << 24))


def flood_with_garbage(chance, source, destination, port, count):
    with Sender(source, destination) as sender:
        for i in range(count):
            octets = wrong_mad(chance, source, destination, port)
            if chance.random() < 0.1:
                sender.send(octets + b"icrc")
            else:
                sender.send_right(octets + bytes(-len(octets) % 4))
            if i % 50 == 49:
                time.sleep(0.002)
    return count
