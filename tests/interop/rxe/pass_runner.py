"""Runs rows against one guest, one after the other, each with a capture, and judges them."""

import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import host
import traffic
from guest import GRACE_SECONDS, GuestDied
from rows import CLIENT, SERVER

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/decode"))
import tshark  # noqa: E402  (the module that `rrdma decode` is compared with)

LINK_MTU = {1024: 1500, 4096: 4500}
SERVER_SECONDS = 30        # to start
REST_SECONDS = 2
USUAL_BOOT_SECONDS = 5     # on an idle machine; a slower one gets proportionally longer limits
PATIENCE_MOST = 3.0
PARTING_TRIES = 4
STARVED_TRIES = 3
LEFT_TRIES = 6
# Printed by our end only: rxe at retry count 7 never gives up.
GAVE_UP = re.compile("transport retry counter exceeded|[Ss]tatus:? 12\\b")
QUIET_TRIES = 4
COUNTERS = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
OUR_ADDRESSES = {socket.inet_pton(socket.AF_INET, host.ADDRESS4), socket.inet_pton(socket.AF_INET6, host.ADDRESS6)}
KERNEL_TROUBLE = re.compile(r"(BUG:|WARNING:|Oops|Call trace:|general protection|Unable to handle).*")
# The last one is rstream, whose error code 8 is the reject reason: no listener on that port.
REFUSED = re.compile("REJECTED[;,] error:? 8|Unexpected CM event bl blka 8|Connection refused|UNREACHABLE, error: 1|rpoll: Operation now in progress")
GROUP = {4: "239.77.0.1", 6: "ff0e::77:1"}


@dataclass
class Result:
    row: object
    loss: str
    kernel: str
    failures: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    seconds: float = 0
    verdict: object = None
    counters: dict = field(default_factory=dict)
    client_output: str = ""
    server_output: str = ""
    server_ended_well: bool = False
    capture: Path = None
    unasked: str = ""  # our end retransmitted requests although nothing was lost

    @property
    def passed(self):
        return not self.failures


class PassRunner:
    def __init__(self, guest, rrdma, folder, kernel, loss="", keep=False, say=print):
        self.guest, self.rrdma, self.folder, self.kernel = guest, rrdma, Path(folder), kernel
        self.patience = min(PATIENCE_MOST, max(1.0, guest.boot_seconds / USUAL_BOOT_SECONDS))
        self.loss, self.keep, self.say = loss, keep, say
        self.link_mtu = None  # unknown until it is set
        self.port = 18600
        self.trouble_seen = 0
        self.our_device, self.our_gids = rrdma.gids()
        self.guest_gids = self.read_guest_gids()
        self.counters = self.read_counters()

    # --- properties of the ends ------------------------------------------------------------------------

    def read_guest_gids(self):
        indices = {}
        for line in self.guest.run("cd /sys/class/infiniband/rxe0/ports/1/gids; grep -v 0000:0000:0000:0000:0000:0000:0000:0000 *").splitlines():
            index, _, gid = line.partition(":")
            value = socket.inet_pton(socket.AF_INET6, gid)
            if value.endswith(socket.inet_pton(socket.AF_INET, host.GUEST4)):
                indices[4] = int(index)
            if value == socket.inet_pton(socket.AF_INET6, host.GUEST6):
                indices[6] = int(index)
        return indices

    def read_counters(self):
        text = self.guest.run(f"cd {COUNTERS}; grep . *")
        return {name: int(value) for name, _, value in (line.partition(":") for line in text.splitlines())}

    def set_link_mtu(self, mtu):
        if self.link_mtu == mtu:
            return
        host.set_mtu(mtu)
        self.guest.run(f"ip link set eth0 mtu {mtu}")
        self.link_mtu = mtu
        time.sleep(0.5)

    # --- command lines --------------------------------------------------------------------------------

    def words(self, row, end):
        """Returns the command of one end of a row."""
        ours = row.rrdma == end
        device, gids = (self.our_device, self.our_gids) if ours else ("rxe0", self.guest_gids)
        own = (host.ADDRESS4, host.ADDRESS6) if ours else (host.GUEST4, host.GUEST6)
        peer = (host.GUEST4, host.GUEST6) if ours else (host.ADDRESS4, host.ADDRESS6)
        v6 = row.family == 6
        own_address, peer_address, peer4 = own[v6], peer[v6], peer[0]
        words = [row.program, *row.arguments, *(row.client_arguments if end == CLIENT else row.server_arguments)]
        words += row.own_arguments if ours else row.guest_arguments
        if row.style == "proof":
            words += [f"--device={device}"]
            words += [f"--connect={peer4},{self.port}"] if end == CLIENT else [f"--listen={self.port}"]
            return words
        if row.style == "verbs":
            words += ["-d", device, "-p", str(self.port)]
            words += ["-g", str(gids[row.family])] if row.program.endswith("_pingpong") else ["-x", str(gids[row.family]), "-F"]
            return words + ([peer4] if end == CLIENT else [])
        # Connect through the connection manager.
        if row.program.startswith("ib_"):
            words += ["-d", device, "-F", "-p", str(self.port)] + (["--ipv6"] if v6 else [])
            return words + ([peer_address] if end == CLIENT else [])
        if row.program == "rping":
            return words + ["-a", peer_address if end == CLIENT else own_address]
        if row.program == "mckey":
            return words + ["-m", GROUP[row.family], "-b", own_address] + (["-s"] if end == CLIENT else [])
        if row.program == "rdma_client":
            words[0] = "rdma_client" if end == CLIENT else "rdma_server"
            return words + ["-s", peer_address if end == CLIENT else own_address]
        return words + (["-s", peer_address, "-b", own_address] if end == CLIENT else ["-b", own_address])

    def tcp_port(self, row):
        return self.port if row.style != "cm" or row.program.startswith("ib_") and "-R" not in row.arguments else None

    def options(self, row):
        options = list(row.options)
        if self.loss:
            options += ["--fault", f"{self.loss},seed={self.port}"]
        return options

    def limit(self, row):
        return round(row.seconds * self.patience)

    # --- one row --------------------------------------------------------------------------------------

    def start_end(self, row, end):
        words = self.words(row, end)
        seconds = self.limit(row) + SERVER_SECONDS
        if row.rrdma == end:
            if row.style == "proof":
                words[0] = str(self.rrdma.stage / "bin" / words[0])
            command = ["timeout", "-k", "2", str(seconds), *self.rrdma.run(words, self.options(row))]
            return host.Program(command, self.folder / f"{end}.out")
        if row.style == "proof":
            words[0] = "/share/" + words[0]
        if end == SERVER:
            return self.guest.start_server(" ".join(words), seconds, self.tcp_port(row))
        return self.guest.start_program(" ".join(words), seconds)

    def await_server(self, row, server):
        port = self.tcp_port(row)
        # A server may show no sign that it listens and never be idle either (rsockets poll): wait for a
        # while.
        end = time.monotonic() + (REST_SECONDS if port is None else SERVER_SECONDS)
        while time.monotonic() < end:
            if server.exit_code() is not None:
                return True  # the client will print the reason
            if row.rrdma == CLIENT:
                if server.is_up():
                    return True
            elif host.tcp_listens(port) if port is not None else server.rests():
                return True
            time.sleep(0.03)
        return port is None

    def stop_end(self, row, end, program):
        if row.rrdma == end:
            program.stop()
        elif end == SERVER:
            self.guest.stop_server(program)

    def run_ends(self, row, result):
        server = client = None
        try:
            if row.server_runs:
                server = self.start_end(row, SERVER)
                if not self.await_server(row, server):
                    result.failures.append("the server did not come up")
            client = self.start_end(row, CLIENT)
            code = client.wait(self.limit(row))
            result.client_output = client.output
            if code is None:
                result.failures.append(f"client: no end within {self.limit(row)} s")
            elif row.expect_failure:
                if code == 0 or row.expect_failure not in client.output:
                    result.failures.append(f"client: should have failed with {row.expect_failure}, exit code {code}")
            elif code != 0:
                result.failures.append(f"client: exit code {code}")
            if server is not None:
                # A failed client leaves its server waiting.
                code = server.wait(GRACE_SECONDS * (self.patience if not self.loss else 1) if result.passed and row.server_ends else 0.3)
                result.server_output = server.output
                result.server_ended_well = row.server_ends and code == 0
                if code is None and row.server_ends and result.passed:
                    result.failures.append("server: does not end")
                elif code not in (None, 0) and row.server_ends and result.passed:
                    result.failures.append(f"server: exit code {code}")
        finally:
            for end, program in ((SERVER, server), (CLIENT, client)):
                if program is not None and program.exit_code() is None:
                    self.stop_end(row, end, program)

    def check_decode(self, result):
        done = subprocess.run([self.rrdma.command, "decode", "--color", "never", str(result.capture)], capture_output=True, text=True,
                              timeout=60, check=False)
        lines = done.stdout.splitlines()
        good = sum(line.rstrip().endswith("icrc ok") for line in lines)
        if good != result.verdict.packets:
            bad = next((line for line in lines if not line.rstrip().endswith("icrc ok")), done.stderr)
            result.failures.append(f"rrdma decode: {good} of {result.verdict.packets} packets right; {bad}")

    def check_traffic(self, row, result, missed, dropped, overflowed):
        verdict = result.verdict = traffic.judge(result.capture, OUR_ADDRESSES, row.mtu)
        if missed or verdict.cut:
            result.failures.append(f"the capture is not whole: {missed} missed, {verdict.cut} cut")
        if verdict.bad_icrc:
            result.failures.append(f"{verdict.bad_icrc} ICRCs wrong")
        if verdict.packets == 0:
            result.failures.append("no packet was seen")
        self.check_decode(result)
        if dropped or overflowed:
            result.notes.append(f"lost on the way: {dropped} at the tap, {overflowed} at our sockets")
        if verdict.timed_out:
            result.notes.append(f"{verdict.timed_out} requests sent again after the peer had been silent for 66 ms or more")
        if verdict.own_dialect:
            result.failures.append(f"{verdict.own_dialect} packets to a stranger that only RRDMA understands")
        if verdict.probes or verdict.repaired:
            result.notes.append(f"{verdict.probes} probes, {verdict.repaired} requests repaired after an answer had shown them missing")
        unasked = verdict.resent - verdict.asked - verdict.timed_out - verdict.probes - verdict.repaired
        if unasked and not self.loss:
            text = f"{unasked} requests sent again unasked, first {verdict.examples}"
            lost = dropped or overflowed or result.counters.get("rcvd_pkts", 0) < verdict.ours
            if lost:
                result.notes.append(text)
            else:
                result.unasked = text

    def check_kernel(self, result):
        log = (self.guest.folder / "console.log").read_text(errors="replace")
        found = KERNEL_TROUBLE.findall(log[self.trouble_seen:])
        if found:
            result.notes.append("kernel: " + KERNEL_TROUBLE.search(log[self.trouble_seen:]).group(0))
        self.trouble_seen = len(log)

    def lost_in_parting(self, result):
        """One end had all its data and exited, so it can no longer repeat an acknowledgment that was lost.
        The other end then waits in vain, whichever NIC it has. Another seed may avoid this."""
        waiting = ("server: ", *(["client: no end"] if result.server_ended_well else []))
        return bool(self.loss) and bool(result.failures) and all(text.startswith(waiting) for text in result.failures)

    def guest_was_starved(self, row, result):
        """Our end gave up because the guest got no processor for longer than the retries last. A protocol
        error would fail every time."""
        ours = result.client_output if row.rrdma == CLIENT else result.server_output
        return bool(result.failures) and result.verdict.timed_out > 0 and GAVE_UP.search(ours) is not None

    def run_row(self, row, number):
        """A guest that got no processor for a while may cause a needless retransmission; a protocol error
        would cause it every time. So a retransmission fails a row only if it happens again."""
        repeats, refused, parted, starved, left = [], 0, 0, 0, 0
        for _ in range(QUIET_TRIES):
            result = self.run_row_once(row, number)
            while True:
                if result.failures and row.server_runs and refused + 1 < row.tries and REFUSED.search(result.client_output):
                    refused += 1
                elif self.lost_in_parting(result) and parted + 1 < PARTING_TRIES:
                    parted += 1
                elif result.failures and result.verdict.theirs < row.least_theirs and left + 1 < LEFT_TRIES:
                    left += 1
                elif self.guest_was_starved(row, result) and starved + 1 < STARVED_TRIES:
                    starved += 1
                else:
                    break
                result = self.run_row_once(row, number)
            if result.failures or not result.unasked:
                break
            repeats.append(result.unasked)
        if parted:
            result.notes.append(f"{parted} times before, one end was gone when its last acknowledgement was lost")
        if left:
            result.notes.append(f"{left} times before, the kernel's end was gone before all was sent")
        if starved:
            result.notes.append(f"{starved} times before, the guest did not answer within eight timeouts")
        if refused:
            result.notes.append(f"refused {refused} times before: its server did not listen yet")
        if result.unasked:
            result.failures.append(f"in each of {QUIET_TRIES} runs: {result.unasked}")
        elif repeats:
            result.notes.append(f"clean in run {len(repeats) + 1}; before: {'; '.join(repeats)}")
        return result

    def run_row_once(self, row, number):
        self.set_link_mtu(LINK_MTU[row.mtu])
        self.port += 1
        result = Result(row, self.loss, self.kernel)
        result.capture = self.folder / f"{number:03}.pcap"
        before = host.interface_counter("tx_dropped"), host.socket_overflows()
        capture = host.Capture(result.capture)
        begin = time.monotonic()
        try:
            self.run_ends(row, result)
        finally:
            result.seconds = time.monotonic() - begin
            missed = capture.stop()
        counters = self.read_counters()
        result.counters = {name: value - self.counters.get(name, 0) for name, value in counters.items() if value != self.counters.get(name, 0)}
        self.counters = counters
        self.check_traffic(row, result, missed, host.interface_counter("tx_dropped") - before[0], host.socket_overflows() - before[1])
        self.check_kernel(result)
        return result

    # --- all rows -------------------------------------------------------------------------------------

    def check_with_tshark(self, results):
        """Checks all captures in one run: tshark takes longer to start than to read them."""
        joined = self.folder / "joined.pcap"
        with open(joined, "wb") as out:
            for i, result in enumerate(results):
                data = result.capture.read_bytes()
                out.write(data if i == 0 else data[24:])
        names = ["frame.protocols", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message", "infiniband.bth.opcode"]
        frames = iter(tshark_columns(joined, names))
        joined.unlink()
        for result in results:
            for number in range(1, result.verdict.packets + 1):
                complaint = complain(next(frames, None))
                if complaint:
                    result.failures.append(f"tshark: packet {number}: {complaint}")
                    break
        return sum(result.verdict.packets for result in results)

    def run(self, rows, shown=0, total=None):
        results = []
        total = total or len(rows)
        for row in sorted(rows, key=lambda row: -row.mtu):
            number = len(results) + 1
            try:
                result = self.run_row(row, number)
            except GuestDied as died:
                result = Result(row, self.loss, self.kernel, [str(died)], verdict=traffic.Verdict())
                self.say(f"[{shown + number:3}/{total}] FAIL {row.key}: the guest died")
                results.append(result)
                break
            except RuntimeError as trouble:
                result = Result(row, self.loss, self.kernel, [str(trouble)], verdict=traffic.Verdict())
            mark = "pass" if result.passed else "FAIL"
            self.say(f"[{shown + number:3}/{total}] {mark} {row.key}  {result.seconds:.1f} s, {result.verdict.packets} packets"
                     + "".join(f"\n          {text}" for text in result.failures + result.notes))
            results.append(result)
        captured = [result for result in results if result.capture and result.capture.exists()]
        if captured:
            self.check_with_tshark(captured)
        for result in captured:
            if result.passed and not self.keep:
                result.capture.unlink()
        return results


def tshark_columns(capture, names):
    disabled = list(tshark.HEURISTICS)
    while True:
        command = ["tshark", "-n", "-r", str(capture), "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-T", "fields", "-E", "separator=/t"]
        for name in disabled:
            command += ["--disable-heuristic", name]
        for name in names:
            command += ["-e", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        unknown = set(re.findall(r"No such protocol (\S+), can't disable", done.stderr)) & set(disabled)
        if not unknown:
            return [dict(zip(names, line.split("\t"))) for line in done.stdout.splitlines()]
        disabled = [name for name in disabled if name not in unknown]


def complain(columns):
    """Says why this frame is no clean InfiniBand packet to tshark; None if it is one."""
    if columns is None:
        return "not seen at all"
    if "infiniband" not in columns["frame.protocols"].split(":"):
        return "not dissected as InfiniBand: " + columns["frame.protocols"]
    if columns["_ws.malformed"]:
        return "malformed"
    severe = [word for word in columns["_ws.expert.severity"].split(",") if word and int(word) >= tshark.EXPERT_ERROR]
    return "expert error: " + columns["_ws.expert.message"] if severe else None
