"""The measurements. Each Measurement names a program, ours or another's, and can run it once on a stage. `plan()`
lists them in the order of a round, so that our programs run close in time to their references. Measurements with
`needed` are used by a bar or a row; the others only appear in the charts."""

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import figures

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/harness"))
from programs import ucx_perftest  # noqa: E402

PROGRAMS = ("bin/limits", "bin/many_qps", "bin/verbs_rates")  # ours, in a build folder
LATENCY, BANDWIDTH, RATE, MEMORY = "latency", "bandwidth", "rate", "memory"
UNITS = {LATENCY: "µs", BANDWIDTH: "GB/s", RATE: "M/s", MEMORY: "MiB"}
LATENCY_SIZES = (8, 64, 512, 4096, 65536)
BANDWIDTH_SIZES = (4096, 16384, 65536, 1 << 20)
MTU = 4096
UDP_OCTETS_MAX = 65507
SMALL_BUFFER = 212992  # the limit of most systems for an ordinary user
LOSS = "drop=1%,seed=7"

SHM, UDP = "RRDMA shm", "RRDMA UDP"
UCX_SM, UCX_TCP = "UCX shared memory", "UCX tcp"
FABRIC_SHM, FABRIC_TCP = "libfabric shm", "libfabric tcp"
SOCKPERF, IPERF, QPERF = "UDP sockets (sockperf)", "TCP (iperf3)", "TCP (qperf)"


@dataclass
class Effort:
    """The effort of a run: messages of a latency test, bytes and messages of a stream, seconds, milliseconds."""
    trips: int
    octets: int
    messages: int
    seconds: int
    milliseconds: int


QUICK = Effort(trips=10000, octets=512 << 20, messages=200000, seconds=1, milliseconds=100)
FULL = Effort(trips=50000, octets=2 << 30, messages=1000000, seconds=2, milliseconds=300)
TINY = Effort(trips=200, octets=4 << 20, messages=2000, seconds=1, milliseconds=30)


@dataclass
class Measurement:
    key: str
    who: str
    kind: str
    measure: Callable  # (stage, effort) -> float
    size: int = 0
    program: str = ""
    needed: bool = False
    chart: bool = True


# perftest requests a completion for every hundredth message and counts each as a hundred messages, even the last one
# of a QP. With several QPs and another count, it believes that it is done while some QPs still wait to post, and
# spins forever.
CQ_MODERATION = 100


def count_for(effort, size):
    return max(200, min(effort.messages, effort.octets // size))


def perftest(program, size, link, kind, environment=None, options=(), share=1, through=()):
    def measure(stage, effort):
        port = stage.next_port()
        count = effort.trips if kind == LATENCY else max(count_for(effort, size) // share, 128)
        if share > 1:
            count = -(-count // CQ_MODERATION) * CQ_MODERATION
        words = [stage.program("rrdma"), "run", *through, "--", program, "-d", stage.device, "-x", str(stage.gid_index), "-m", str(MTU), "-F",
                 "-p", str(port), "-s", str(size), "-n", str(count), *options]
        text = stage.pair(words, [*words, "127.0.0.1"], port, {"RRDMA_LINK": link, **(environment or {})})
        read = {LATENCY: figures.perftest_latency, BANDWIDTH: figures.perftest_bandwidth, RATE: figures.perftest_rate}[kind]
        return read(text, size)
    return measure


def pingpong(link):
    def measure(stage, effort):
        port = stage.next_port()
        words = [stage.program("rrdma"), "run", "--", "ibv_rc_pingpong", "-d", stage.device, "-g", str(stage.gid_index), "-p", str(port)]
        return figures.pingpong_iteration(stage.pair(words, [*words, "127.0.0.1"], port, {"RRDMA_LINK": link}))
    return measure


def unpinned(measure):
    """The same without pinning: the kernel chooses the cores, as it does for a user."""
    def loose(stage, effort):
        cores = stage.near_core, stage.far_core
        stage.near_core = stage.far_core = None
        try:
            return measure(stage, effort)
        finally:
            stage.near_core, stage.far_core = cores
    return loose


class Series:
    """Many runs of one kind in a round. Each figure of them is a separate measurement; the first one in the plan runs
    them all."""

    def __init__(self, measure, times):
        self.measure, self.times, self.values = measure, times, []

    def first(self, choose):
        def run(stage, effort):
            self.values = [self.measure(stage, effort) for _ in range(self.times if effort is not TINY else 2)]
            return choose(self.values)
        return run

    def later(self, choose):
        return lambda stage, effort: choose(self.values)


def beside_two(measure):
    """Measures while two programs compute, one on each of our cores."""
    def beside(stage, effort):
        busy = [stage.start([sys.executable, "-c", "while True: pass"], None, core) for core in (stage.near_core, stage.far_core)]
        try:
            return unpinned(measure)(stage, effort)
        finally:
            for program in busy:
                stage.finish(program, 0)
    return beside


def relayed(measure):
    """The same through the relay of a system daemon."""
    def through(stage, effort):
        with stage.system_daemon():
            return measure(stage, effort)
    return through


def many_qps(link):
    def measure(stage, effort):
        own = figures.resident_mib(stage.run([stage.program("many_qps"), "0"]))
        text = stage.run([stage.program("rrdma"), "run", "--", stage.program("many_qps"), "1000"], {"RRDMA_LINK": link})
        return figures.resident_mib(text) - own
    return measure


def threads(link, count):
    def measure(stage, effort):
        words = [stage.program("rrdma"), "run", "--", stage.program("verbs_rates"), "threads", str(count), str(effort.milliseconds * 5e-3)]
        return figures.verbs_rate(stage.run(words, {"RRDMA_LINK": link}), "messages")
    return measure


def qp_rate(link):
    def measure(stage, effort):
        words = [stage.program("rrdma"), "run", "--", stage.program("verbs_rates"), "qps", str(effort.milliseconds * 5e-3)]
        return figures.verbs_rate(stage.run(words, {"RRDMA_LINK": link}), "qps")
    return measure


def ucx(kind, size, transports):
    test = "tag_lat" if kind == LATENCY else "tag_bw"

    def measure(stage, effort):
        port = stage.next_port()
        environment = {"UCX_TLS": transports, "UCX_NET_DEVICES": "lo", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        count = effort.trips if kind == LATENCY else count_for(effort, size)
        server = [*ucx_perftest(), "-p", str(port)]
        client = [*ucx_perftest(), "127.0.0.1", "-p", str(port), "-t", test, "-s", str(size), "-n", str(count), "-w", str(max(10, count // 10))]
        text = stage.pair(server, client, port, environment, server_ends=False)
        return {LATENCY: figures.ucx_latency, BANDWIDTH: figures.ucx_bandwidth, RATE: figures.ucx_rate}[kind](text)
    return measure


def fabric(size, provider):
    def measure(stage, effort):
        port = stage.next_port()
        words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", str(size), "-I", str(max(effort.trips // 5, 100))]
        # Otherwise the control connection would use the interface of the default route.
        text = stage.pair([*words, "-B", str(port)], [*words, "-P", str(port), "127.0.0.1"], port, {"FI_TCP_IFACE": "lo"}, server_ends=False)
        return figures.fabric_latency(text, size)
    return measure


def sockperf(size):
    def measure(stage, effort):
        port = stage.next_port()
        where = ["-i", "127.0.0.1", "-p", str(port), "--nonblocked"]
        # 14 bytes is its minimum. Both sides poll, as ours do.
        client = ["sockperf", "ping-pong", *where, "-m", str(max(size, 14)), "-t", str(effort.seconds)]
        text = stage.pair(["sockperf", "server", *where], client, port, protocol="udp", server_ends=False)
        return figures.sockperf_latency(text)
    return measure


def iperf(size):
    def measure(stage, effort):
        port = stage.next_port()
        client = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(effort.seconds), "-J"]
        return figures.iperf_bandwidth(stage.pair(["iperf3", "-s", "-1", "-p", str(port)], [*client, *(["-l", str(size)] if size else [])], port))
    return measure


def qperf(size, test, kind):
    def measure(stage, effort):
        port = stage.next_port()
        client = ["qperf", "-lp", str(port), "-t", str(effort.seconds), "-m", str(size), "127.0.0.1", test]
        text = stage.pair(["qperf", "-lp", str(port)], client, port, server_ends=False)
        if kind == LATENCY:
            return figures.qperf_value(text, "latency")
        bandwidth = figures.qperf_value(text, "bw")
        return bandwidth * figures.GB / size if kind == RATE else bandwidth
    return measure


def limit(name):
    def measure(stage, effort):
        words = [stage.program("limits"), f"--cores={stage.near_core},{stage.far_core}", f"--milliseconds={effort.milliseconds}", name]
        return figures.limits(stage.run(words))[name]
    return measure


# The figures of bench/limits.cc, with their names in the report.
LIMITS = {
    "cache_line_us": ("cache line between two cores, half round trip", LATENCY),
    "process_vm_us": ("process_vm_writev of 8 bytes, half round trip", LATENCY),
    "udp_us": ("bare UDP sockets, 8 bytes, both polling, half round trip", LATENCY),
    "process_vm_64k": ("process_vm_writev of 64 KiB", BANDWIDTH),
    "process_vm_1m": ("process_vm_writev of 1 MiB", BANDWIDTH),
    "memcpy_64k": ("memcpy of 64 KiB, in the cache", BANDWIDTH),
    "memcpy_1m": ("memcpy of 1 MiB", BANDWIDTH),
    "memcpy_64m": ("memcpy of 64 MiB, from memory", BANDWIDTH),
    "udp_gso": ("bare UDP sockets, 4 KiB datagrams with GSO and GRO", BANDWIDTH),
    "crc_64": ("CRC-32 of 64 bytes", BANDWIDTH),
    "crc_4k": ("CRC-32 of 4 KiB", BANDWIDTH),
}


def limit_plan():
    return [Measurement(f"limit/{name}", what, kind, limit(name), needed=True, chart=False) for name, (what, kind) in LIMITS.items()]


def latency_plan(size):
    bar = size == 8
    yield Measurement(f"shm/ib_write_lat/{size}", SHM + ", WRITE", LATENCY, perftest("ib_write_lat", size, "shm", LATENCY), size, "ib_write_lat", bar)
    yield Measurement(f"shm/ib_send_lat/{size}", SHM + ", SEND", LATENCY, perftest("ib_send_lat", size, "shm", LATENCY), size, "ib_send_lat", bar)
    yield Measurement(f"ucx_sm/tag_lat/{size}", UCX_SM, LATENCY, ucx(LATENCY, size, "sm,self"), size, "ucx_perftest tag_lat", bar)
    yield Measurement(f"fabric_shm/{size}", FABRIC_SHM, LATENCY, fabric(size, "shm"), size, "fi_pingpong")
    yield Measurement(f"udp/ib_send_lat/{size}", UDP + ", SEND", LATENCY, perftest("ib_send_lat", size, "udp", LATENCY), size, "ib_send_lat", bar)
    if size <= UDP_OCTETS_MAX:
        yield Measurement(f"sockperf/{size}", SOCKPERF, LATENCY, sockperf(size), size, "sockperf ping-pong", bar)
    yield Measurement(f"ucx_tcp/tag_lat/{size}", UCX_TCP, LATENCY, ucx(LATENCY, size, "tcp,self"), size, "ucx_perftest tag_lat", bar)
    yield Measurement(f"fabric_tcp/{size}", FABRIC_TCP, LATENCY, fabric(size, "tcp"), size, "fi_pingpong", bar)
    yield Measurement(f"udp/ib_write_lat/{size}", UDP + ", WRITE", LATENCY, perftest("ib_write_lat", size, "udp", LATENCY), size, "ib_write_lat", bar)
    yield Measurement(f"qperf/tcp_lat/{size}", QPERF, LATENCY, qperf(size, "tcp_lat", LATENCY), size, "qperf tcp_lat")


def bandwidth_plan(size):
    bar = size in (65536, 1 << 20)
    for link, who in (("shm", SHM), ("udp", UDP)):
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            verb = program.split("_")[1].upper()
            yield Measurement(f"{link}/{program}/{size}", f"{who}, {verb}", BANDWIDTH, perftest(program, size, link, BANDWIDTH), size, program,
                              (bar and not (link == "shm" and verb == "SEND")) or (link, program, size) == ("udp", "ib_write_bw", 4096))
        peer, transports = (UCX_SM, "sm,self") if link == "shm" else (UCX_TCP, "tcp,self")
        yield Measurement(f"ucx_{'sm' if link == 'shm' else 'tcp'}/tag_bw/{size}", peer, BANDWIDTH, ucx(BANDWIDTH, size, transports), size,
                          "ucx_perftest tag_bw", bar)
    yield Measurement(f"iperf/{size}", IPERF, BANDWIDTH, iperf(size), size, f"iperf3 -l {size}")


def rate_plan():
    inline = ("-I", "8")
    yield Measurement("shm/rate", SHM + ", SEND", RATE, perftest("ib_send_bw", 8, "shm", RATE, options=inline), 8, "ib_send_bw -s 8 -I 8", True)
    yield Measurement("ucx_sm/rate", UCX_SM, RATE, ucx(RATE, 8, "sm,self"), 8, "ucx_perftest tag_bw -s 8", True)
    yield Measurement("udp/rate", UDP + ", SEND", RATE, perftest("ib_send_bw", 8, "udp", RATE, options=inline), 8, "ib_send_bw -s 8 -I 8", True)
    yield Measurement("ucx_tcp/rate", UCX_TCP, RATE, ucx(RATE, 8, "tcp,self"), 8, "ucx_perftest tag_bw -s 8", True)
    yield Measurement("shm/write_rate", SHM + ", WRITE", RATE, perftest("ib_write_bw", 8, "shm", RATE, options=inline), 8, "ib_write_bw -s 8 -I 8")
    yield Measurement("udp/write_rate", UDP + ", WRITE", RATE, perftest("ib_write_bw", 8, "udp", RATE, options=inline), 8, "ib_write_bw -s 8 -I 8")
    yield Measurement("qperf/rate", QPERF, RATE, qperf(8, "tcp_bw", RATE), 8, "qperf tcp_bw -m 8")


def many_plan():
    for link in ("shm", "udp"):
        for qps in (1, 256):
            # With perftest, each QP sends -n messages.
            yield Measurement(f"{link}/qps/{qps}", f"{qps} QPs", BANDWIDTH,
                              perftest("ib_write_bw", 4096, link, BANDWIDTH, options=("-q", str(qps)), share=qps),
                              4096, f"ib_write_bw -q {qps}", True, chart=False)
        yield Measurement(f"{link}/memory", "1,000 QPs", MEMORY, many_qps(link), program="many_qps", needed=True, chart=False)
        yield Measurement(f"{link}/pingpong", "ibv_rc_pingpong", LATENCY, pingpong(link), 4096, "ibv_rc_pingpong", True, chart=False)


FIRST_RUNS = 20


def company_plan():
    """Measurements on shared cores, without pinning."""
    for link in ("shm", "udp"):
        runs = Series(unpinned(pingpong(link)), FIRST_RUNS)
        for name, measure in (("median", runs.first(statistics.median)), ("worst", runs.later(max))):
            yield Measurement(f"{link}/first_runs/{name}", "first runs, not pinned", LATENCY, measure, 4096, "ibv_rc_pingpong", True, chart=False)
    yield Measurement("busy/ib_write_bw/65536", "two others compute", BANDWIDTH, beside_two(perftest("ib_write_bw", 65536, "udp", BANDWIDTH)), 65536,
                      "ib_write_bw", True, chart=False)
    yield Measurement("busy/iperf", "two others compute", BANDWIDTH, beside_two(iperf(0)), 0, "iperf3", True, chart=False)


THREADS = (2, 4, 8, 16)


def thread_plan():
    for link in ("shm", "udp"):
        for count in (1, *THREADS):
            yield Measurement(f"{link}/threads/{count}", f"{count} threads", RATE, threads(link, count), 8, "verbs_rates threads", True, chart=False)
        yield Measurement(f"{link}/qp_rate", "QPs to RTS", RATE, qp_rate(link), program="verbs_rates qps", needed=True, chart=False)


def loss_plan():
    yield Measurement("loss/ib_write_bw/1048576", "1 % loss", BANDWIDTH,
                      perftest("ib_write_bw", 1 << 20, "udp", BANDWIDTH, {"RRDMA_FAULT": LOSS}, share=4), 1 << 20, "ib_write_bw", True, chart=False)


SMALL_ROWS = (("ib_send_lat", 8), ("ib_write_lat", 8), ("ib_send_bw", 65536), ("ib_write_bw", 65536), ("ib_send_bw", 1 << 20),
              ("ib_write_bw", 1 << 20), ("ib_read_bw", 1 << 20))


def small_buffer_plan():
    for program, size in SMALL_ROWS:
        kind = LATENCY if program.endswith("_lat") else BANDWIDTH
        yield Measurement(f"small/{program}/{size}", "208 KiB socket buffers", kind,
                          perftest(program, size, "udp", kind, {"RRDMA_RCVBUF": str(SMALL_BUFFER)}), size, program, True, chart=False)


SHARED_ROWS = (("ib_write_lat", 8), ("ib_write_bw", 65536), ("ib_write_bw", 1 << 20), ("ib_read_bw", 65536), ("ib_read_bw", 1 << 20))


RELAY_ROWS = (("ib_send_lat", 8), ("ib_write_bw", 4096), ("ib_write_bw", 65536))


def relay_plan():
    for program, size in RELAY_ROWS:
        kind = LATENCY if program.endswith("_lat") else BANDWIDTH
        yield Measurement(f"relay/{program}/{size}", "system daemon", kind, relayed(perftest(program, size, "udp", kind)), size,
                          f"rrdmad --system, {program}", True, chart=False)


def shared_memory_plan():
    for program, size in SHARED_ROWS:
        kind = LATENCY if program.endswith("_lat") else BANDWIDTH
        yield Measurement(f"shared/{program}/{size}", "memory shared", kind, perftest(program, size, "shm", kind, through=("--share-memory",)), size,
                          f"rrdma run --share-memory, {program}", True, chart=False)


def plan():
    """All measurements, those with a row first."""
    everything = limit_plan()
    for size in LATENCY_SIZES:
        everything += latency_plan(size)
    everything.append(Measurement("iperf/default", IPERF, BANDWIDTH, iperf(0), 0, "iperf3", True, chart=False))
    for size in reversed(BANDWIDTH_SIZES):
        everything += bandwidth_plan(size)
    everything += [*rate_plan(), *many_plan(), *thread_plan(), *loss_plan(), *small_buffer_plan(), *shared_memory_plan(), *relay_plan(), *company_plan()]
    return sorted(everything, key=lambda one: not one.needed)
