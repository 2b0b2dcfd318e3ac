"""Hand-made RoCE v2 packets, correct and incorrect, and a socket that sends them as an ordinary user can: with
identification 0 and don't fragment, so that the IPv4 header under the ICRC is known."""

import ipaddress
import random
import socket
import struct
import zlib

PORT = 4791
IP_MTU_DISCOVER, IP_PMTUDISC_DO, SO_NO_CHECK = 10, 2, 11

# The number of bytes of extension headers behind the BTH, by opcode.
RETH, AETH, ATOMIC, ATOMIC_ACK, IMMEDIATE, INVALIDATE, DETH = 16, 4, 28, 8, 4, 4, 8
SHAPES = {
    0x00: 0, 0x01: 0, 0x02: 0, 0x03: IMMEDIATE, 0x04: 0, 0x05: IMMEDIATE, 0x06: RETH, 0x07: 0, 0x08: 0, 0x09: IMMEDIATE,
    0x0A: RETH, 0x0B: RETH + IMMEDIATE, 0x0C: RETH, 0x0D: AETH, 0x0E: 0, 0x0F: AETH, 0x10: AETH, 0x11: AETH,
    0x12: AETH + ATOMIC_ACK, 0x13: ATOMIC, 0x14: ATOMIC, 0x16: INVALIDATE, 0x17: INVALIDATE,
    0x20: 0, 0x21: 0, 0x22: 0, 0x24: 0, 0x26: RETH, 0x2A: RETH, 0x64: DETH, 0x65: DETH + IMMEDIATE, 0x81: 16,
}


def bth(opcode, qpn, psn, pad=0, ack=True, pkey=0xFFFF):
    return struct.pack(">BBHII", opcode, pad << 4, pkey, qpn & 0xFFFFFF, (0x80000000 if ack else 0) | psn & 0xFFFFFF)


def icrc(transport, source, destination, source_port):
    """Computes the ICRC of an IPv4 packet with identification 0 and DF; `transport` reaches from the BTH to the pad.
    """
    udp_octets = 8 + len(transport) + 4
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + udp_octets, 0, 0x4000, 0xFF, 17, 0xFFFF) + addresses
    udp = struct.pack(">HHHH", source_port, PORT, udp_octets, 0xFFFF)
    masked = transport[:4] + b"\xff" + transport[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + masked))


class Sender:
    """Sends from one address of this host to another."""

    def __init__(self, source="127.0.0.1", destination="127.0.0.1"):
        self.source, self.destination = source, destination
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        for self.port in range(0xC000 + random.randrange(0x2000), 0xFFFF):
            try:
                self.socket.bind((source, self.port))
                return
            except OSError:
                continue

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, datagram):
        try:
            self.socket.sendto(datagram, (self.destination, PORT))
        except OSError:
            pass  # too long, or the port is closed: garbage may be lost

    def send_right(self, transport):
        """Sends with the ICRC that the receiver computes."""
        self.send(transport + icrc(transport, self.source, self.destination, self.port))


def any_transport(chance, qpn):
    """Builds a packet from the BTH to the pad: a known opcode with random contents."""
    opcode = chance.choice(list(SHAPES)) if chance.random() < 0.95 else chance.randrange(256)
    payload = chance.randbytes(chance.choice((0, 0, 4, 8, 64, 256, 1024)))
    header = bth(opcode, qpn, chance.randrange(1 << 24), pad=chance.choice((0, 0, 0, 1, 2, 3)), ack=chance.random() < 0.5,
                 pkey=0xFFFF if chance.random() < 0.95 else chance.randrange(1 << 16))
    return header + chance.randbytes(SHAPES.get(opcode, chance.randrange(32))) + payload


def mutated(chance, packet):
    octets = bytearray(packet)
    for _ in range(chance.randrange(1, 4)):
        kind = chance.randrange(3)
        if kind == 0 and octets:
            octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del octets[chance.randrange(len(octets) + 1):]
        else:
            octets += chance.randbytes(chance.randrange(1, 40))
    return bytes(octets)
