# Reads a Perfetto trace by its schema and validates it, for tests.
import collections
import os
import re
import subprocess

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "perfetto_trace.proto")

Slice = collections.namedtuple("Slice", "track name begin end")
Packet = collections.namedtuple("Packet", "track name time arguments")


def messages(octets):
    """The fields of a protobuf message in order: (number, value). Length-delimited values are bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            octet = octets[at]
            at += 1
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return value

    while at < len(octets):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, int.from_bytes(octets[at:at + 8], "little")
            at += 8
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, octets[at:at + length]
            at += length
        else:
            raise AssertionError(f"wire type {key & 7}")


def dict_of(octets):
    found = collections.defaultdict(list)
    for number, value in messages(octets):
        found[number].append(value)
    return found


def unknown_fields(path):
    """Fields that protoc does not find in the schema, or finds with another type."""
    with open(path, "rb") as file:
        words = ["protoc", f"--proto_path={os.path.dirname(SCHEMA)}", "--decode=Trace", SCHEMA]
        text = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in text.splitlines() if re.match(r"\s*\d", line)]


class Trace:
    """`slices` and packets (`sent`) with the name of their queue pair, flows, and `faults`: sentences about errors.
    """

    def __init__(self, path):
        with open(path, "rb") as file:
            packets = [dict_of(message) for number, message in messages(file.read()) if number == 1]
        self.faults, self.slices, self.sent = [], [], []
        self.flows, ended = collections.Counter(), collections.Counter()
        self.tracks = {one[1][0]: one for one in (dict_of(packet[60][0]) for packet in packets if 60 in packet)}
        for track in self.tracks.values():
            self.expect(not track[5] or track[5][0] in self.tracks, "a parent that is no track")
        under_way, last = {}, 0
        for packet in packets:
            if 11 not in packet:
                continue
            event, time = dict_of(packet[11][0]), packet[8][0]
            self.expect(time >= last, "events are not by time")
            last = time
            kind, track = event[9][0], event[11][0]
            self.expect(track in self.tracks, "an event on no track")
            if kind == 1:
                self.expect(track not in under_way, "slices of one track overlap")
                under_way[track] = (event[23][0].decode(), time)
            elif kind == 2:
                self.expect(track in under_way, "an end without a begin")
                name, begin = under_way.pop(track, ("", time))
                self.slices.append(Slice(self.queue_pair(track), name, begin, time))
            else:
                self.flows.update(event[47])
                ended.update(event[48])
                name = event[23][0].decode()
                if not name.endswith(" arrives"):
                    arguments = {one[10][0].decode(): (one[3] or one[6])[0] for one in map(dict_of, event[4])}
                    self.sent.append(Packet(self.queue_pair(track), name, time, arguments))
        self.expect(not under_way, "a begin without an end")
        self.expect(self.flows == ended, "a flow that does not end, or not begin")
        self.expect(set(self.flows.values()) <= {1}, "a flow has two packets")

    def expect(self, holds, sentence):
        if not holds and sentence not in self.faults:
            self.faults.append(sentence)

    def queue_pair(self, uuid):
        track = self.tracks.get(uuid)
        while track and not track[2][0].decode().startswith(("RC ", "UC ", "UD ", "XRC ", "QP")) and track[5]:
            track = self.tracks.get(track[5][0])
        return track[2][0].decode() if track else ""
