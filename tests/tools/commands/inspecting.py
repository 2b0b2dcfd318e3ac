# Controls a running `rrdma inspect` and reads its capture, for tests with and without a browser.
import collections
import http.client
import json
import struct
import subprocess
import time

import servers
from command import RRDMA

NAK = 3  # the upper bits of a syndrome, as tshark shows them


class Inspector:
    """A server of `rrdma inspect FILE…`; `address` is the one that it printed."""

    def __init__(self, *words):
        self.begin = time.monotonic()
        self.words = [RRDMA, "inspect", "--no-browser", *words]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise AssertionError(f"{self.words}: no address")
        self.token = self.address.rstrip("/").rsplit("/", 1)[1]
        self.port = int(self.address.split(":")[2].split("/")[0])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path=None, method="GET", host=None, origin=None, body=None):
        """Status, body and headers of a request; without a path: of the page."""
        authority, _, inside = self.address.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(authority, timeout=30)
        connection.putrequest(method, "/" + inside if path is None else path, skip_host=True)
        connection.putheader("Host", authority if host is None else host)
        if origin:
            connection.putheader("Origin", origin)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body, answer.headers

    def inside(self, name):
        status, body, _ = self.ask(f"/{self.token}/{name}")
        if status != 200:
            raise AssertionError(f"{name}: {status}")
        return body

    def header(self):
        """The JSON before the columns; see src/inspect/capture_image.h."""
        image = self.inside("capture")
        length = struct.unpack_from("<I", image, 8)[0]
        return json.loads(image[12:12 + length])


def lossy_pingpong(path, iterations=400, port=18710, options=("--link", "udp", "--strict")):
    """A capture of both ends of ibv_rc_pingpong with 5 % of the packets dropped. Two RRDMA ends repair single losses
    with their own packets. With --strict they send NAKs, as hardware does."""
    words = [RRDMA, "run", *options, "--pcap", path, "--fault", "drop=5%,seed=7", "--", "ibv_rc_pingpong", "-g", "1", "-n", str(iterations), "-p", str(port)]
    before = servers.open_ports()
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    servers.await_server(server, before, words)
    subprocess.run(words + ["localhost"], stdout=subprocess.DEVNULL, check=True, timeout=120)
    server.wait(60)


def tshark_counts(path):
    """NAKs and retransmissions from tshark's fields. A retransmission is a sent request whose PSN is not higher than
    all before."""
    fields = ("frame.time_epoch", "frame.packet_flags_direction", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.aeth.syndrome.opcode")
    words = ["tshark", "-r", path, "-T", "fields"] + [word for field in fields for word in ("-e", field)]
    rows = [line.split("\t") for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()]
    own = 0xD1  # the opcode of RRDMA's arrival maps, unknown to tshark
    leaving = sorted((row for row in rows if int(row[1], 0) == 2), key=lambda row: tuple(map(int, row[0].split("."))))
    naks = sum(1 for row in leaving if row[5] and int(row[5], 0) == NAK)
    newest, repeats = {}, 0
    for row in leaving:
        if int(row[2]) > 0x0c:
            continue  # a response
        psn, flow = int(row[4]), row[3]
        ahead = (psn - newest.get(flow, psn - 1)) % (1 << 24)
        if 0 < ahead < 1 << 23:
            newest[flow] = psn
        else:
            repeats += 1
    return {"packets": sum(1 for row in leaving if int(row[2]) <= 0x1F or int(row[2]) == own), "naks": naks, "repeats": repeats}


def tshark_marks(path):
    """The number of packets with each fault according to tshark, and the notes about faults that are not packets. The
    comment that names a program is no fault."""
    words = ["tshark", "-r", path, "-T", "fields", "-e", "frame.comment", "-e", "systemd_journal.message"]
    rows = [line.split("\t") for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()]
    marks = collections.Counter()
    for comment in (row[0] for row in rows if row[0] and not row[0].startswith("QP 0x")):
        what = comment.removeprefix("fault: ").partition(" (")[0]
        marks.update(["frames", *what.split(", ")])
    return marks, [row[1] for row in rows if len(row) > 1 and row[1] and not row[1].startswith("explain: ")]


def block(kind, body):
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def roce_frame(transport):
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(transport), 0)
    words = [0x4500, 28 + len(transport), 0, 0x4000, 64 << 8 | 17, 0, 10 << 8, 1, 10 << 8, 2]
    total = sum(words)
    words[5] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ip = struct.pack(">10H", *words)
    return bytes(12) + b"\x08\x00" + ip + udp + transport


def hostile_capture(path):
    """A pcapng in which every text tries to inject a script."""
    words = b"</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    frame = roce_frame(struct.pack(">BBHII", 4, 0x40, 0xFFFF, 0x22, 7) + words + bytes(-len(words) % 4) + b"bad!")
    with open(path, "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option(4, words) + option(0, b"")))
        file.write(block(1, struct.pack("<HHI", 1, 0, 0) + option(2, words) + option(0, b"")))
        packet = struct.pack("<IIIII", 0, 0, 1, len(frame), len(frame)) + frame + bytes(-len(frame) % 4)
        file.write(block(6, packet + option(1, words) + option(1, b"\xff\xfe\x00") + option(0, b"")))


def remarked_capture(path):
    """Three SENDs: a fault dropped the second one, and a port went down before the third. Truncated, so that the ICRC
    is not checked."""
    with open(path, "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0)))
        for psn in (1, 2, 3):
            if psn == 3:
                file.write(block(9, b"__REALTIME_TIMESTAMP=3\nMESSAGE=fault 3: on purpose (port=down): the port is down.\n"))
            frame = roce_frame(struct.pack(">BBHII", 4, 0x40, 0xFFFF, 0x22, psn) + bytes(104))
            packet = struct.pack("<IIIII", 0, 0, psn * 1000, 96, len(frame)) + frame[:96]
            file.write(block(6, packet + (option(1, b"fault: drop (rule 2)") + option(0, b"") if psn == 2 else b"")))
