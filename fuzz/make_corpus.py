#!/usr/bin/env python3
"""make_corpus.py CAPTURES: writes the seed corpora of the wire targets into fuzz/corpus/ from a folder of
pcap files: for each network and opcode the smallest packet as a frame, as transport bytes, as an IP packet;
for each CM message its MAD; and small capture files. Files are named by what they hold, so running it again
on the same captures changes nothing."""
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent / "corpus"
FRAME_MAX = 400


def packets(path):
    octets = path.read_bytes()
    at = 24
    while at + 16 <= len(octets):
        captured = struct.unpack_from("<I", octets, at + 8)[0]
        yield octets[at + 16 : at + 16 + captured]
        at += 16 + captured


def save(target, name, octets):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(octets)


def pcapng_of(frames):
    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack("<HH4sHHB3x", 2, 4, b"rxe0", 9, 1, 9) + bytes(4)
    out += block(1, struct.pack("<HHI", 1, 0, 0) + options)
    for number, frame in enumerate(frames):
        padded = frame + bytes(-len(frame) % 4)
        comment = struct.pack("<HH4s", 1, 2, b"hi") + bytes(4)
        out += block(6, struct.pack("<IIIII", 0, 0, number, len(frame), len(frame)) + padded + comment)
    return out + block(3, struct.pack("<I", len(frames[0])) + frames[0] + bytes(-len(frames[0]) % 4))


def pcap_of(frames, order, magic):
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    for frame in frames:
        out += struct.pack(order + "IIII", 1, 2, len(frame), len(frame)) + frame
    return out


def main():
    smallest = {}
    mads = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pcap")):
        for frame in packets(path):
            version = 4 if frame[12:14] == b"\x08\x00" else 6
            bth = 14 + (20 if version == 4 else 40) + 8
            key = (version, frame[bth])
            if key not in smallest or len(frame) < len(smallest[key]):
                smallest[key] = frame
            if int.from_bytes(frame[bth + 5 : bth + 8], "big") == 1:
                mad = frame[bth + 20 : bth + 276]
                mads.setdefault(mad[16:18].hex(), mad)
    frames = []
    for (version, opcode), frame in sorted(smallest.items()):
        bth = 14 + (20 if version == 4 else 40) + 8
        name = f"v{version}_{opcode:02x}"
        transport = frame[bth:-4]
        if version == 4:
            # Headers only where the payload is long: the pad and length rules are what matters.
            save("transport", name, transport[:60] if len(transport) <= 60 else transport[: 12 + 16 + 4])
            save("icrc", name, frame[18:20] + frame[29:30] + frame[33:36] + frame[bth:][:FRAME_MAX])
        if len(frame) <= FRAME_MAX:
            save("frame", name, frame)
            frames.append(frame)
    for version in (4, 6):
        frame = next(f for (v, _), f in sorted(smallest.items()) if v == version and len(f) <= FRAME_MAX)
        ip = 20 if version == 4 else 40
        save("network_headers", f"ethernet_v{version}", frame[:14])
        save("network_headers", f"vlan_v{version}", frame[:12] + b"\x81\x00\x60\x07" + frame[12:14])
        save("network_headers", f"ip_v{version}", frame[14:])
        save("network_headers", f"udp_v{version}", frame[14 + ip :])
        save("frame", f"raw_v{version}", frame[14:])
        save("frame", f"vlan_v{version}", frame[:12] + b"\x81\x00\x60\x07" + frame[12:])
    # RoCE v1: the IPv6 header of the same packet as a GRH, whose next header is a BTH and length without UDP.
    frame = smallest[(6, 0x11)]
    grh = bytearray(frame[14:54])
    grh[4:6] = struct.pack(">H", len(frame) - 14 - 40 - 8)
    grh[6] = 0x1B
    save("network_headers", "grh", bytes(grh) + frame[62:])
    save("frame", "roce_v1", frame[:12] + b"\x89\x15" + bytes(grh) + frame[62:])
    for attribute, mad in sorted(mads.items()):
        save("cm_mad", f"attribute_{attribute}", mad)
        if attribute == "0010":
            save("cm_mad", "ip_cm_header", mad[24 + 140 : 24 + 140 + 36])
    some = [frame for frame in frames if len(frame) < 100][:3]
    save("capture", "pcapng_little", pcapng_of(some))
    for name, order, magic in (("us", "<", 0xA1B2C3D4), ("ns", "<", 0xA1B23C4D), ("big", ">", 0xA1B2C3D4)):
        save("capture", f"pcap_{name}", pcap_of(some, order, magic))
    empty = struct.pack(">IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    save("capture", "pcapng_big_empty", empty)
    save("capture", "pcapng_two_sections", pcapng_of(some[:1]) + empty + pcapng_of(some[1:2]))


main()
