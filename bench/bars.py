"""The project's own performance bars, as rows: our figure, its reference (another figure of the same run, or a
number), and whether it holds. Rows without a bar are only reported."""

import os
import statistics
from dataclasses import dataclass

import contestants
from contestants import BANDWIDTH, LATENCY, MEMORY, RATE, UNITS

OK, MISSED, REPORTED, NOT_MEASURED = "ok", "missed", "report", "not measured"


class Results:
    """All figures of a run by measurement, and all failures."""

    def __init__(self):
        self.values, self.troubles = {}, {}

    def add(self, key, value):
        self.values.setdefault(key, []).append(value)

    def add_trouble(self, key, text):
        self.troubles.setdefault(key, []).append(text)

    def median(self, key):
        values = self.values.get(key)
        return statistics.median(values) if values else None

    def spread(self, key):
        """Returns (least, greatest)."""
        values = self.values.get(key)
        return (min(values), max(values)) if values else None


@dataclass
class Row:
    what: str
    ours: str            # key of a measurement
    kind: str
    relation: str = ""   # "<=", ">=", "<", ">"; empty: report only
    factor: float = 1.0
    against: str = ""    # key of a measurement; empty: `factor` is the bar itself
    name: str = ""       # name of the reference

    def figure(self, results):
        return results.median(self.ours)

    def reference(self, results):
        return results.median(self.against) if self.against else None

    def bar(self, results):
        """The number that our figure must meet; None if there is none."""
        if not self.relation:
            return None
        if not self.against:
            return self.factor
        reference = self.reference(results)
        return None if reference is None else self.factor * reference

    def ratio(self, results):
        """Our figure relative to its reference."""
        figure, reference = self.figure(results), self.reference(results)
        if figure is None:
            return None
        if self.against:
            return figure / reference if reference else None
        return figure / self.factor if self.relation else None

    def verdict(self, results):
        figure = self.figure(results)
        if figure is None:
            return NOT_MEASURED
        if not self.relation:
            return REPORTED
        bar = self.bar(results)
        if bar is None:
            return NOT_MEASURED
        holds = {"<=": figure <= bar, ">=": figure >= bar, "<": figure < bar, ">": figure > bar}[self.relation]
        return OK if holds else MISSED

    def bar_text(self):
        sign = {"<=": "≤", ">=": "≥", "<": "<", ">": ">", "": ""}[self.relation]
        if not self.relation:
            return f"report (beside {self.name})" if self.against else "report"
        if not self.against:
            return f"{sign} {shown(self.factor, self.kind)}"
        return f"{sign} {self.name}" if self.factor == 1 and self.relation in "<>" else f"{sign} {self.factor:.3g} × {self.name}"


def shown(value, kind):
    """With its unit and three digits."""
    if value is None:
        return "-"
    if kind == RATE and abs(value) < 1e5:
        return f"{value / 1e3:.1f} k/s"
    if kind == RATE:
        value /= 1e6
    digits = 2 if abs(value) < 100 else 0
    return f"{value:.{digits}f} {UNITS[kind]}"


def size_text(size):
    if size >= 1 << 20:
        return f"{size >> 20} MiB"
    return f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def shm_bandwidth_rows():
    for program in ("ib_write_bw", "ib_read_bw"):
        for size in (65536, 1 << 20):
            what = f"shm: {program}, {size_text(size)}"
            yield Row(what, f"shm/{program}/{size}", BANDWIDTH, ">=", 1.0, f"ucx_sm/tag_bw/{size}", "UCX shared memory tag_bw")
            yield Row(what, f"shm/{program}/{size}", BANDWIDTH, ">=", 1.5, "iperf/default", "iperf3 TCP")


def udp_rows():
    send = ("UDP: ib_send_lat, 8 B", "udp/ib_send_lat/8", LATENCY)
    yield Row(*send, "<=", 1.5, "sockperf/8", "sockperf UDP median")
    yield Row(*send, "<", 1, "ucx_tcp/tag_lat/8", "UCX tcp tag_lat")
    yield Row(*send, "<", 1, "fabric_tcp/8", "libfabric tcp")
    for program in ("ib_send_bw", "ib_write_bw"):
        yield Row(f"UDP: {program}, 64 KiB", f"udp/{program}/65536", BANDWIDTH, ">=", 1.3, "ucx_tcp/tag_bw/65536", "UCX tcp tag_bw")
        yield Row(f"UDP: {program}, 1 MiB", f"udp/{program}/1048576", BANDWIDTH, ">=", 0.9, "iperf/default", "iperf3 TCP")
    yield Row("UDP: ib_write_bw, 4 KiB", "udp/ib_write_bw/4096", BANDWIDTH, ">=", 0.6, "udp/ib_write_bw/65536", "our 64 KiB")
    yield Row("UDP: ib_read_bw, 1 MiB", "udp/ib_read_bw/1048576", BANDWIDTH, ">=", 0.8, "udp/ib_write_bw/1048576", "our ib_write_bw")
    yield Row("UDP: ib_write_lat, 8 B", "udp/ib_write_lat/8", LATENCY, "<=", 1.7, "sockperf/8", "sockperf UDP median")
    yield Row("UDP: ib_send_bw, 8 B inline, messages", "udp/rate", RATE, ">=", 1.2e6)
    yield Row("UDP: ib_send_bw, 8 B inline, messages", "udp/rate", RATE, "", 1, "ucx_tcp/rate", "UCX tcp")


def many_rows():
    for link, name, pingpong in (("shm", "shm", 3), ("udp", "UDP", 10)):
        yield Row(f"{name}: ibv_rc_pingpong, 4 KiB, an iteration", f"{link}/pingpong", LATENCY, "<=", pingpong)
        yield Row(f"{name}: ib_write_bw, 4 KiB, 256 QPs", f"{link}/qps/256", BANDWIDTH, ">=", 0.7, f"{link}/qps/1", "one QP")
        yield Row(f"{name}: memory of 1,000 connected QPs", f"{link}/memory", MEMORY, "<=", 64)


def company_rows():
    yield Row("shm: ibv_rc_pingpong, 20 first runs, not pinned: median", "shm/first_runs/median", LATENCY, "<=", 4)
    yield Row("shm: ibv_rc_pingpong, 20 first runs, not pinned: worst", "shm/first_runs/worst", LATENCY, "<=", 12)
    yield Row("UDP: ibv_rc_pingpong, 20 first runs, not pinned: median", "udp/first_runs/median", LATENCY, "<=", 10)
    yield Row("UDP: ibv_rc_pingpong, 20 first runs, not pinned: worst", "udp/first_runs/worst", LATENCY)
    yield Row("UDP: ib_write_bw, 64 KiB, two others compute", "busy/ib_write_bw/65536", BANDWIDTH, ">=", 0.6, "busy/iperf", "iperf3 TCP beside the same")


def thread_rows():
    """One thread for each core must increase the rate; more threads than cores must not reduce it much. The number of
    cores determines the bar."""
    cores = len(os.sched_getaffinity(0))
    for link, name in (("shm", "shm"), ("udp", "UDP")):
        for count in contestants.THREADS:
            share = 0.75 * count if count < cores else 0.9
            yield Row(f"{name}: 8 B SENDs of {count} threads of a process", f"{link}/threads/{count}", RATE, ">=", share, f"{link}/threads/1", "one thread")
        yield Row(f"{name}: QPs created, brought to RTS, destroyed", f"{link}/qp_rate", RATE, ">=", 2e4)


def relay_rows():
    for program, size in contestants.RELAY_ROWS:
        kind = LATENCY if program.endswith("_lat") else BANDWIDTH
        yield Row(f"UDP, relay of a system daemon: {program}, {size_text(size)}", f"relay/{program}/{size}", kind, "", 1, f"udp/{program}/{size}",
                  "the daemon of one user")


def shared_memory_rows():
    for program, size in contestants.SHARED_ROWS:
        name, key = f"shm, --share-memory: {program}, {size_text(size)}", f"shared/{program}/{size}"
        if program.endswith("_lat"):
            yield Row(name, key, LATENCY, "<=", 0.4, "limit/process_vm_us", "process_vm_writev")
        else:
            yield Row(name, key, BANDWIDTH, ">=", 0.85, f"limit/memcpy_{'64k' if size == 65536 else '1m'}", "memcpy")


def rows():
    everything = [
        Row("shm: ib_write_lat, 8 B", "shm/ib_write_lat/8", LATENCY, "<=", 1.5, "limit/process_vm_us", "process_vm_writev"),
        Row("shm: ib_send_lat, 8 B", "shm/ib_send_lat/8", LATENCY, "<=", 1.2, "ucx_sm/tag_lat/8", "UCX shared memory tag_lat"),
        *shm_bandwidth_rows(),
        Row("shm: ib_send_bw, 8 B inline, messages", "shm/rate", RATE, ">=", 8e6),
        Row("shm: ib_send_bw, 8 B inline, messages", "shm/rate", RATE, "", 1, "ucx_sm/rate", "UCX shared memory"),
        *shared_memory_rows(),
        *udp_rows(),
        *relay_rows(),
        *many_rows(),
        *company_rows(),
        *thread_rows(),
        Row("UDP: ib_write_bw, 1 MiB, 1 % loss", "loss/ib_write_bw/1048576", BANDWIDTH, "", 1, "udp/ib_write_bw/1048576", "no loss"),
    ]
    for program, size in contestants.SMALL_ROWS:
        kind = LATENCY if program.endswith("_lat") else BANDWIDTH
        everything.append(Row(f"UDP, 208 KiB buffers: {program}, {size_text(size)}", f"small/{program}/{size}", kind, "<=" if kind == LATENCY else ">=",
                              1 / 0.85 if kind == LATENCY else 0.85, f"udp/{program}/{size}", "large buffers"))
    return everything
