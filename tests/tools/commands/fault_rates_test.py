# Tests the rates of network faults: the counters of `rrdma stat` agree with a capture in tshark to the packet, and
# with the requested rate within the statistical error. Arguments: the command, a program that sends datagrams
# (datagrams.cc), which are not retransmitted.
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import command
import surroundings
from command import RRDMA, run_json

COUNT = 5_000
SIGMAS = 4  # one run in 16,000 is outside
PSN_OCTETS, ICRC_OCTETS = slice(9, 12), 4  # of the UDP payload; everything else is equal in all datagrams
# Dropped packets have a comment and were not sent.
OUTBOUND = 'frame.packet_flags_direction == 2 and not frame.comment contains "fault: drop"'
INJECTED_AS_IT_ARRIVED = 'frame.packet_flags_direction == 1 and frame.comment contains "fault: "'
FIELDS = ("infiniband.bth.psn", "ip.dsfield.ecn", "ipv6.tclass.ecn", "udp.payload")


class Sent:
    """The packets that one program sent under a fault: its own counters, and its capture as tshark shows it."""

    def __init__(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            capture = pathlib.Path(folder, "sent.pcapng")
            program = subprocess.Popen([RRDMA, "run", "--link", "udp", "--pcap", capture, *options, "--", sys.argv[2], "rrdma0", str(COUNT)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            program.stdout.readline()  # it has sent them
            (process,) = surroundings.wait_for(lambda: self.settled(), 20)
            self.counters = process["counters"]
            program.communicate(timeout=30)
            fields = [word for field in FIELDS for word in ("-e", field)]
            self.frames = [line.split("\t") for line in self.tshark(capture, OUTBOUND, *fields)]
            self.injected = len(self.tshark(capture, INJECTED_AS_IT_ARRIVED, "-e", "frame.number"))

    @staticmethod
    def tshark(capture, wanted, *fields):
        return subprocess.run(["tshark", "-r", capture, "-Y", wanted, "-T", "fields", *fields], capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def settled(self):
        """Waits for the counters, which programs publish periodically."""
        processes = run_json("stat", "--json")["processes"]
        return processes if processes and processes[0]["counters"].get("messages_sent", 0) == COUNT else None

    def faults(self, name):
        return self.counters["faults_" + name]

    def psns(self):
        return [int(frame[0]) for frame in self.frames if frame[0]]


def spread(chance, trials=COUNT):
    return SIGMAS * math.sqrt(trials * chance * (1 - chance))


class Rates(unittest.TestCase):
    def near(self, count, chance, trials=COUNT):
        self.assertAlmostEqual(count, trials * chance, delta=spread(chance, trials))

    def test_drop(self):
        for options in (("--fault", "drop=5%"), ("--faults", "net=drop=5%")):
            sent = Sent(*options)
            self.near(sent.faults("dropped"), 0.05)
            self.assertEqual(len(sent.frames), COUNT - sent.faults("dropped"))

    def test_duplicate(self):
        sent = Sent("--faults", "net=dup=3%")
        self.near(sent.faults("duplicated"), 0.03)
        self.assertEqual(len(sent.frames), COUNT + sent.faults("duplicated"))
        self.assertEqual(len(sent.psns()) - len(set(sent.psns())), sent.faults("duplicated"))

    def test_reorder(self):
        sent = Sent("--faults", "net=reorder=2%")
        self.near(sent.faults("reordered"), 0.02)
        self.assertEqual(sorted(sent.psns()), list(range(COUNT)))
        highest, late = -1, 0
        for psn in sent.psns():
            late += psn < highest
            highest = max(highest, psn)
        # A reordered packet is not overtaken if the next one is reordered too, or if it is the last one.
        self.assertAlmostEqual(late, sent.faults("reordered"), delta=1 + 0.1 * sent.faults("reordered"))

    def test_corrupt(self):
        sent = Sent("--faults", "net=corrupt=4%")
        self.near(sent.faults("corrupted"), 0.04)
        payloads = [bytearray.fromhex(frame[3]) for frame in sent.frames]
        usual = {}
        for octets in payloads:
            octets[PSN_OCTETS] = b"\0\0\0"
            del octets[-ICRC_OCTETS:]
            usual[bytes(octets)] = usual.get(bytes(octets), 0) + 1
        changed = COUNT - max(usual.values())
        # A bit may change in the bytes that were removed.
        unseen = sent.faults("corrupted") * (3 + ICRC_OCTETS) / (len(payloads[0]) + ICRC_OCTETS)
        self.assertAlmostEqual(changed, sent.faults("corrupted") - unseen, delta=SIGMAS * math.sqrt(unseen) + 1)

    def test_ecn(self):
        sent = Sent("--faults", "net=ecn=30%")
        self.near(sent.faults("marked"), 0.3)
        self.assertEqual(sum("3" in frame[1:3] for frame in sent.frames), sent.faults("marked"))

    def test_what_arrives(self):
        """The same for received packets; each fault is marked in the capture."""
        for spec, name, chance in (("drop=5%", "dropped", 0.05), ("dup=3%", "duplicated", 0.03), ("corrupt=4%", "corrupted", 0.04),
                                   ("ecn=30%", "marked", 0.3), ("reorder=2%", "reordered", 0.02)):
            sent = Sent("--faults", f"net={spec} direction=in")
            self.near(sent.faults(name), chance)
            self.assertEqual(sent.injected, sent.faults(name), name)
            self.assertEqual(len(sent.frames), COUNT)  # sent packets are unchanged

    def test_burst(self):
        """The Gilbert-Elliott model: the requested loss rate, in runs of the requested mean length."""
        chance, length = 0.1, 5
        sent = Sent("--faults", "net=drop=10%,burst=5")
        dropped = sent.faults("dropped")
        self.assertEqual(len(sent.frames), COUNT - dropped)
        memory = 1 - 1 / length - chance / (1 - chance) / length  # the correlation of successive states of the chain
        inflation = math.sqrt((1 + memory) / (1 - memory))
        self.assertAlmostEqual(dropped, COUNT * chance, delta=spread(chance) * inflation)
        lost = set(range(COUNT)) - set(sent.psns())
        runs = sum(psn - 1 not in lost for psn in lost)
        self.assertAlmostEqual(dropped / runs, length, delta=SIGMAS * math.sqrt(length * (length - 1) / runs))


if __name__ == "__main__":
    if shutil.which("tshark") is None:
        raise SystemExit(surroundings.SKIPPED)
    surroundings.enter()
    command.main()
