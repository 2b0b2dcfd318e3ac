# Writes a pcap of a million RoCE packets (or as many as said): one busy RC connection with some loss, a few quiet
# ones. Argument: the file, how many.
import functools
import random
import struct
import sys


@functools.lru_cache(maxsize=None)
def ip_header(length, source, destination):
    words = [0x4500, length, 0, 0x4000, 64 << 8 | 17, 10 << 8, source, 10 << 8, destination]
    total = sum(words)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return struct.pack(">10H", *words[:5], checksum, *words[5:])


def main(path, wanted):
    prng = random.Random(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        now, written = 1_700_000_000_000_000_000, 0
        psns = {}

        def packet(source, destination, qp, opcode, psn, extra=b"", payload=0, ack=False):
            nonlocal now, written
            now += prng.randrange(300, 4000)
            bth = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, qp, (0x80000000 if ack else 0) | psn & 0xFFFFFF)
            transport = bth + extra + bytes(payload) + b"\0\0\0\0"
            udp = struct.pack(">HHHH", 49152, 4791, 8 + len(transport), 0)
            ip = ip_header(28 + len(transport), source, destination)
            frame = bytes(12) + b"\x08\x00" + ip + udp + transport
            # Cut behind the headers, as `tcpdump -s 96` does: no ICRC to be checked, and a smaller file.
            kept = frame[:96]
            file.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(kept), len(frame)) + kept)
            written += 1

        while written < wanted:
            peer = 2 if prng.random() < 0.97 else prng.randrange(3, 12)
            psn = psns.get(peer, 1000)
            burst = prng.randrange(4, 32)
            lost = prng.random() < 0.02
            for i in range(burst):
                packet(1, peer, 0x200 + peer, 7 if i < burst - 1 else 8, psn + i, payload=1024, ack=i == burst - 1)
            if lost:
                hole = psn + prng.randrange(burst)
                packet(peer, 1, 0x100 + peer, 17, hole, struct.pack(">I", 0x60000000))
                for i in range(hole, psn + burst):
                    packet(1, peer, 0x200 + peer, 7 if i < psn + burst - 1 else 8, i, payload=1024, ack=i == psn + burst - 1)
            packet(peer, 1, 0x100 + peer, 17, psn + burst - 1, struct.pack(">I", 0x1F000000))
            psns[peer] = psn + burst


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
