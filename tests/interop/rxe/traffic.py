"""Judges a capture of both ends: checks every ICRC (with a second implementation, a few lines on zlib), finds
the requests that our end retransmitted, and which of these the peer asked for. `rrdma decode` and tshark
read the same files."""

import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field

RC_REQUESTS = set(range(0x00, 0x0d)) | {0x13, 0x14, 0x16, 0x17}
READ_REQUEST = 0x0c
ACKNOWLEDGE = 0x11
WITH_AETH = {0x0d, 0x0f, 0x10, 0x11, 0x12}
SEQUENCE_NAK, RNR_FIRST, RNR_LAST = 0x60, 0x20, 0x3f
MANUFACTURERS_FIRST = 0xc0
PSN_MASK = 0xffffff
# A probe follows at least half a millisecond without an answer (EngineConfig::probe_min), minus the clock
# difference.
PROBE_SECONDS = 0.0004
# These programs set code 14 by default, which is 67.1 ms. The transport must retransmit after that time.
ACK_TIMEOUT_SECONDS = 0.066
ROCE_PORT = 4791


def packets(path):
    """Yields (seconds, bytes of the frame, whether it was captured whole) of a pcap file in the host's byte
    order."""
    data = memoryview(path.read_bytes())
    (magic,) = struct.unpack_from("<I", data)
    scale = {0xa1b2c3d4: 1e-6, 0xa1b23c4d: 1e-9}[magic]
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, kept, length = struct.unpack_from("<IIII", data, at)
        if at + 16 + kept > len(data):
            return  # tcpdump was stopped in the middle of a record
        yield seconds + fraction * scale, data[at + 16:at + 16 + kept], kept == length
        at += 16 + kept


@dataclass
class Packet:
    seconds: float
    source: bytes
    opcode: int
    destination_qp: int
    psn: int
    syndrome: int
    read_octets: int
    ack_request: bool
    icrc_right: bool
    octets: int


def dissect(seconds, frame):
    """Returns None if it is not RoCE v2."""
    kind = bytes(frame[12:14])
    if kind == b"\x08\x00":
        start, length = 14, struct.unpack_from(">H", frame, 16)[0]
        header = (frame[14] & 15) * 4
        masked = bytearray(frame[start:start + length])
        source = bytes(masked[12:16])
        masked[1] = masked[8] = 0xff
        masked[10:12] = b"\xff\xff"
    elif kind == b"\x86\xdd":
        start, length = 14, 40 + struct.unpack_from(">H", frame, 18)[0]
        header = 40
        masked = bytearray(frame[start:start + length])
        source = bytes(masked[8:24])
        masked[0] |= 0x0f
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xff
    else:
        return None
    if struct.unpack_from(">H", masked, header + 2)[0] != ROCE_PORT:
        return None
    masked[header + 6:header + 8] = b"\xff\xff"
    bth = header + 8
    masked[bth + 4] = 0xff
    (carried,) = struct.unpack_from("<I", masked, length - 4)
    right = zlib.crc32(b"\xff" * 8 + masked[:-4]) == carried
    opcode = masked[bth]
    syndrome = masked[bth + 12] if opcode in WITH_AETH else 0
    read_octets = struct.unpack_from(">I", masked, bth + 24)[0] if opcode == READ_REQUEST else 0
    return Packet(seconds, source, opcode, int.from_bytes(masked[bth + 5:bth + 8], "big"), int.from_bytes(masked[bth + 9:bth + 12], "big"),
                  syndrome, read_octets, bool(masked[bth + 8] & 0x80), right, length)


@dataclass
class Verdict:
    packets: int = 0
    ours: int = 0
    theirs: int = 0
    bad_icrc: int = 0
    cut: int = 0
    own_dialect: int = 0     # our packets that only RRDMA understands
    resent: int = 0          # requests that our end retransmitted
    asked: int = 0           # of these, requested by a NAK of the peer
    probes: int = 0          # of these, single packets that probe the progress of a silent peer
    repaired: int = 0        # of these, missing according to the answer to a probe or to a later request
    timed_out: int = 0       # of these, after a silence of a whole ack timeout (code 14)
    resent_theirs: int = 0   # requests that the peer retransmitted
    opcodes: Counter = field(default_factory=Counter)
    # (number, seconds since the last transmission) of requests retransmitted without cause.
    examples: list = field(default_factory=list)


class Flow:
    """Requests of one end to one queue pair."""

    def __init__(self):
        self.last = {}  # PSN: time of the last transmission
        self.repeating = False  # packets that follow a requested retransmission are retransmitted with it: go back N
        self.probed = None  # time of the last probe

    def add(self, packet, mtu):
        """Returns the time when this PSN was sent before; None if it is new."""
        before = self.last.get(packet.psn)
        count = max(1, -(-packet.read_octets // mtu)) if packet.opcode == READ_REQUEST else 1
        for i in range(count):
            self.last[(packet.psn + i) & PSN_MASK] = packet.seconds
        return before


def shown_missing(flow, packet, before, heard):
    """After the last transmission of this PSN, the peer answered a probe or named a later PSN: the packet or
    its response was lost."""
    if heard is None or heard[0] < before:
        return False
    later = 0 < ((heard[1] - packet.psn) & PSN_MASK) < 1 << 23
    return later or (flow.probed is not None and flow.probed >= before and heard[0] >= flow.probed)


def is_probe(packet, before, heard):
    """Whether this is one packet that requests an answer, after a time in which the peer was silent and this
    packet was not sent."""
    since = max(before, heard[0] if heard else before)
    return packet.ack_request and packet.seconds - since >= PROBE_SECONDS


def judge(path, our_addresses, mtu):
    verdict = Verdict()
    flows = {}
    naks = []  # (seconds, PSN) of the peer
    heard = None  # (seconds, PSN) of the peer's last answer
    for number, (seconds, frame, whole) in enumerate(packets(path), 1):
        packet = dissect(seconds, frame)
        if packet is None:
            continue
        verdict.packets += 1
        ours = packet.source in our_addresses
        verdict.ours += ours
        verdict.theirs += not ours
        verdict.cut += not whole
        verdict.bad_icrc += whole and not packet.icrc_right
        verdict.opcodes[packet.opcode] += 1
        verdict.own_dialect += ours and packet.opcode >= MANUFACTURERS_FIRST
        if packet.opcode == ACKNOWLEDGE and not ours and (packet.syndrome == SEQUENCE_NAK or RNR_FIRST <= packet.syndrome <= RNR_LAST):
            naks.append((seconds, packet.psn))
        if packet.opcode in WITH_AETH and not ours:
            heard = (seconds, packet.psn)
        if packet.opcode not in RC_REQUESTS:
            continue
        flow = flows.setdefault((packet.source, packet.destination_qp), Flow())
        before = flow.add(packet, mtu)
        if before is None:
            flow.repeating = False
            continue
        if not ours:
            verdict.resent_theirs += 1
            continue
        verdict.resent += 1
        if flow.repeating or any(before <= when <= seconds and ((packet.psn - psn) & PSN_MASK) < 1 << 23 for when, psn in reversed(naks[-64:])):
            verdict.asked += 1
            flow.repeating = True
        elif seconds - before > ACK_TIMEOUT_SECONDS:
            verdict.timed_out += 1
        elif shown_missing(flow, packet, before, heard):
            verdict.repaired += 1
        elif is_probe(packet, before, heard):
            verdict.probes += 1
            flow.probed = seconds
        elif len(verdict.examples) < 5:
            verdict.examples.append((number, round(seconds - before, 4)))
    return verdict
