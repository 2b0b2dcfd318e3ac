#!/usr/bin/env python3
"""Measures rrdma::rpc, gRPC, Cap'n Proto, Asio over TCP, UCX active messages and bare verbs, in turn on the same two
cores, and compares the figures with the bars of the framework. Arguments: the build folder; --rounds, --quick. Writes
a table and charts."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comm"))
import charts
import comm
import contestants
import stage
from contestants import BANDWIDTH, LATENCY

MIB = 1 << 20
LINKS = ("shm", "udp")
WAITS = ("poll", "event")
PRODUCTS = ("bin/comm_bench", "bin/rpc_bench", "lib/librrdma-comm.so.0", "lib/librrdma-rpc.so.0")
# Each twice the one before; the last leaves room for the tags of a message below the limit of 64 MiB.
SWEEP = (*(1 << power for power in range(3, 26)), (64 << 20) - 64)
STREAMED = (64, 4096, 64 << 10, MIB)
SECURED = (16, 4096, 64 << 10, MIB)
OTHERS = ("grpc_bench", "capnp_bench")


def own(arena, program, link, wait, count, size=0, secure=False):
    """Runs rpc_bench over a link. Returns the client's output."""
    port = arena.next_port()
    words = [arena.program("rrdma"), "run", "--", arena.program("rpc_bench")]
    environment = {"RRDMA_LINK": link, "RPC_BENCH_WAIT": wait} | secured(arena, secure)
    at = f"127.0.0.1:{port}"
    return comm.lines(arena.pair([*words, "serve", at], [*words, program, at, str(count), str(size)], port, environment, server_ends=False))


def secured(arena, secure):
    """The environment of encrypted connections: a folder with a new key and its certificate, which gRPC needs."""
    if not secure:
        return {}
    folder = Path(arena.work) / "keys"
    if not folder.exists():
        folder.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
        (folder / "key.pem").chmod(0o644)  # the programs run as another user
    return {"RPC_BENCH_SECURE": str(folder)}


def other(arena, framework, program, link, count, size=0, secure=False):
    """gRPC or Cap'n Proto over TCP or a Unix socket."""
    port = arena.next_port()
    at = f"127.0.0.1:{port}"
    protocol = "tcp"
    if link == "unix":
        at, protocol = f"unix:{arena.work}/{port}", "unix"
    words = [arena.program(framework)]
    server, client = [*words, "serve", at], [*words, program, at, str(count), str(size)]
    if protocol == "tcp":
        return comm.lines(arena.pair(server, client, port, secured(arena, secure), server_ends=False))
    return comm.lines(unix_pair(arena, server, client, Path(arena.work) / str(port)))


def unix_pair(arena, server, client, path):
    """Like Stage.pair, for a server that is ready when its socket appears in a folder."""
    import time
    far = arena.start(server, {}, arena.far_core)
    try:
        deadline = time.monotonic() + 20
        while not path.exists():
            if far.poll() is not None or time.monotonic() > deadline:
                raise stage.Trouble("the server does not listen")
            time.sleep(0.005)
        status, output = arena.finish(arena.start(client, {}, arena.near_core), arena.limit_seconds)
    finally:
        arena.finish(far, 0)
    if status != 0:
        raise stage.Trouble(f"{stage.describe(status)}: {stage.reason(output)}")
    return output


def ucx_am(arena, effort, transports, link=None):
    port = arena.next_port()
    environment = {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    run = [*contestants.ucx_perftest(), "-p", str(port)]
    if link:
        environment |= {"UCX_NET_DEVICES": f"{arena.device}:1", "RRDMA_LINK": link}
        run = [arena.program("rrdma"), "run", "--", *run]
    at = run.index("ucx_perftest") + 1
    test = ["-t", "ucp_am_lat", "-s", "8", "-n", str(effort.trips), "-w", str(max(10, effort.trips // 10))]
    text = arena.pair(run, [*run[:at], "127.0.0.1", *run[at:], *test], port, environment, server_ends=False)
    # Half a round trip, in microseconds.
    return {"p50_ns": 2000 * contestants.figures.ucx_latency(text)}


def bare(arena, effort, link):
    """A round trip of bare verbs with polling; comm_bench returns half of it."""
    return {"p50_ns": 2 * comm.own(arena, "bare-serve", "bare-latency", link, effort.trips)["latency_ns"]}


def plan(effort):
    """Yields (key, a function of the stage that returns figures)."""
    large = contestants.count_for(effort, MIB)
    calls = max(effort.messages // 4, 2000)
    for link in LINKS:
        yield f"latency/bare verbs {link}/poll", lambda s, link=link: bare(s, effort, link)
        for wait in WAITS:
            yield f"latency/rrdma plain {link}/{wait}", lambda s, link=link, wait=wait: own(s, "plain-latency", link, wait, effort.trips)
            yield f"latency/rrdma {link}/{wait}", lambda s, link=link, wait=wait: own(s, "latency", link, wait, effort.trips, 16)
    for framework, name in (("grpc_bench", "grpc"), ("capnp_bench", "capnp")):
        for link in ("unix", "tcp"):
            yield f"latency/{name} {link}/event", lambda s, f=framework, link=link: other(s, f, "latency", link, effort.trips // 2, 16)
    yield "latency/asio tcp/event", lambda s: {"p50_ns": 2 * comm.own(s, "tcp-serve", "tcp-latency", None, effort.trips)["latency_ns"]}
    yield "latency/ucx am shm/poll", lambda s: ucx_am(s, effort, "sm,self")
    yield "latency/ucx am rrdma shm/poll", lambda s: ucx_am(s, effort, "rc_v,self", "shm")
    for link in LINKS:
        yield f"rate/rrdma {link}/poll", lambda s, link=link: own(s, "rate", link, "poll", calls * 2, 64)
    for framework, name in (("grpc_bench", "grpc"), ("capnp_bench", "capnp")):
        yield f"rate/{name} unix/event", lambda s, f=framework: other(s, f, "rate", "unix", calls // 4, 64)
    yield "rate/grpc tcp/event", lambda s: other(s, "grpc_bench", "rate", "tcp", calls // 4, 64)
    for link in LINKS:
        yield f"bulk/ib_read_bw {link}/poll", lambda s, link=link: {"bandwidth_gbs": contestants.perftest("ib_read_bw", MIB, link, BANDWIDTH)(s, effort)}
        yield f"bulk/rrdma {link}/poll", lambda s, link=link: own(s, "bulk", link, "poll", large, MIB)
        yield f"bytes/rrdma {link}/poll", lambda s, link=link: own(s, "sink", link, "poll", large, MIB)
        yield f"stream/rrdma {link}/poll", lambda s, link=link: own(s, "stream", link, "poll", calls, 1024)
    for link in ("unix", "tcp"):
        yield f"bytes/grpc {link}/event", lambda s, link=link: other(s, "grpc_bench", "sink", link, large // 2, MIB)
        yield f"stream/grpc {link}/event", lambda s, link=link: other(s, "grpc_bench", "stream", link, calls, 1024)
    yield "bytes/capnp unix/event", lambda s: other(s, "capnp_bench", "sink", "unix", large // 2, MIB)
    yield "idle/rrdma shm/event", lambda s: own(s, "idle", "shm", "event", 1000)
    yield from plan_of_sizes(effort)


def plan_of_sizes(effort):
    """Unary calls and streams of many sizes, in the form of plan()."""
    for size in SWEEP:
        trips = max(10, min(effort.trips, effort.octets // 4 // size))
        for link in LINKS:
            yield f"sweep/rrdma {link}/{size}", lambda s, link=link, size=size, trips=trips: own(s, "latency", link, "poll", trips, size)
        for link in ("unix", "tcp"):
            yield f"sweep/grpc {link}/{size}", lambda s, link=link, size=size, trips=trips: other(s, "grpc_bench", "latency", link, trips, size)
    for size in STREAMED:
        items = max(20, min(effort.messages // 4, effort.octets // 2 // size))
        for way, program in (("down", "stream"), ("up", "stream-up")):
            for link in LINKS:
                yield f"streams/{way} rrdma {link}/{size}", lambda s, link=link, p=program, n=items, size=size: own(s, p, link, "poll", n, size)
            for link in ("unix", "tcp"):
                yield f"streams/{way} grpc {link}/{size}", lambda s, link=link, p=program, n=items, size=size: other(s, "grpc_bench", p, link, n, size)
    yield from plan_of_encryption(effort)


def plan_of_encryption(effort):
    """Calls and streams on encrypted connections, in the form of plan(). Between hosts, that is the default of rrdma::rpc."""
    for kind, program in (("call", "latency"), ("stream", "stream")):
        for size in SECURED:
            count = max(20, min(effort.trips, effort.octets // 8 // size))
            for link in LINKS:
                yield f"encrypted/{kind} rrdma {link}/{size}", lambda s, p=program, link=link, n=count, size=size: own(s, p, link, "poll", n, size, True)
            yield f"encrypted/{kind} grpc/{size}", lambda s, p=program, n=count, size=size: other(s, "grpc_bench", p, "tcp", n, size, True)


def rows(results):
    """The result of each bar: text, figure, bar, and whether it holds (None: no figure)."""
    def each(key, name):
        return [value[name] for value in results.get(key, []) if name in value]

    def ratio(one, other_key, name, less=True):
        """The median over rounds of ratios within the same round."""
        pairs = list(zip(each(one, name), each(other_key, name)))
        return comm.median([b / a if less else a / b for a, b in pairs])

    def row(words, figure, bar, holds):
        return words, figure, bar, None if figure is None else holds(figure)

    def at_least(words, figure, bar):
        return row(words, figure, f">= {bar}", lambda value: value >= bar)

    cost = comm.median([a - b for a, b in zip(each("latency/rrdma plain shm/poll", "p50_ns"), each("latency/bare verbs shm/poll", "p50_ns"))])
    yield row("shm, polling, 8 octets: p50, ns over bare verbs", cost, "<= 400", lambda value: value <= 400)
    yield at_least("shm, polling, from .proto: times faster than gRPC unix", ratio("latency/rrdma shm/poll", "latency/grpc unix/event", "p50_ns"), 15)
    yield at_least("udp, polling, from .proto: times faster than gRPC tcp", ratio("latency/rrdma udp/poll", "latency/grpc tcp/event", "p50_ns"), 4)
    yield at_least("shm, both event-driven: times faster than gRPC unix", ratio("latency/rrdma shm/event", "latency/grpc unix/event", "p50_ns"), 3)
    yield at_least("udp, both event-driven: times faster than gRPC tcp", ratio("latency/rrdma udp/event", "latency/grpc tcp/event", "p50_ns"), 3)
    tail = comm.median([v["p999_ns"] / v["p50_ns"] for v in results.get("latency/rrdma plain shm/poll", [])])
    yield row("shm, polling: p99.9 of p50 (a quiet machine)", tail, "<= 5", lambda value: value <= 5)
    rates = each("rate/rrdma shm/poll", "calls_per_s")
    yield at_least("shm: million calls a second, 32 under way, 64 octets", comm.median(rates) / 1e6 if rates else None, 1)
    yield at_least("shm: the same, of gRPC unix", ratio("rate/rrdma shm/poll", "rate/grpc unix/event", "calls_per_s", False), 10)
    for link in LINKS:
        yield at_least(f"{link}: 1 MiB Bulk, of ib_read_bw", ratio(f"bulk/rrdma {link}/poll", f"bulk/ib_read_bw {link}/poll", "bandwidth_gbs", False), 0.9)
    for link, theirs in (("shm", "unix"), ("udp", "tcp")):
        yield at_least(f"{link}: 1 MiB bytes, of gRPC {theirs}", ratio(f"bytes/rrdma {link}/poll", f"bytes/grpc {theirs}/event", "bandwidth_gbs", False), 2)
        yield at_least(f"{link}: stream of 1 KiB, of gRPC {theirs}", ratio(f"stream/rrdma {link}/poll", f"stream/grpc {theirs}/event", "items_per_s", False), 5)
        pairs = [ratio(f"sweep/rrdma {link}/{size}", f"sweep/grpc {theirs}/{size}", "p50_ns") for size in SWEEP]
        yield at_least(f"{link}: unary, 8 bytes to 64 MiB, the least of gRPC {theirs}", None if None in pairs else min(pairs), 1)
        # Twice the bytes take twice the time at best, so leave room for noise.
        times = [comm.median(each(f"sweep/rrdma {link}/{size}", "p50_ns")) for size in SWEEP]
        step = None if None in times else max(b / a for a, b in zip(times, times[1:]))
        yield row(f"{link}: the largest step between neighbouring sizes", step, "<= 2.2", lambda value: value <= 2.2)
        for way in ("down", "up"):
            for size in STREAMED:
                words = f"{link}: stream {way} of {size} bytes, of gRPC {theirs}"
                yield at_least(words, ratio(f"streams/{way} rrdma {link}/{size}", f"streams/{way} grpc {theirs}/{size}", "items_per_s", False), 2)
        for size in SECURED:
            calls = ratio(f"encrypted/call rrdma {link}/{size}", f"encrypted/call grpc/{size}", "p50_ns")
            yield at_least(f"{link}: encrypted call of {size} bytes, of gRPC with TLS", calls, 1)
            items = ratio(f"encrypted/stream rrdma {link}/{size}", f"encrypted/stream grpc/{size}", "items_per_s", False)
            yield at_least(f"{link}: encrypted stream of {size} bytes, of gRPC with TLS", items, 1)
    memory = comm.median(each("idle/rrdma shm/event", "resident_mib"))
    yield row("MiB of a server for 1,000 idle connections", memory, "<= 64", lambda value: value <= 64)


CHARTS = (("latency", "p50_ns", "Round trip of a unary call, 16 bytes, median", "µs (less is better)", 1e-3),
          ("rate", "calls_per_s", "Unary calls of 64 octets, 32 under way", "thousand calls a second", 1e-3),
          ("bytes", "bandwidth_gbs", "1 MiB of protobuf bytes as an argument", "GB/s", 1),
          ("stream", "items_per_s", "Server stream of items of 1 KiB", "thousand items a second", 1e-3))


def draw(results, folder):
    for kind, name, title, unit, scale in CHARTS:
        series = []
        for key, values in results.items():
            figures = sorted(value[name] * scale for value in values if name in value)
            if key.startswith(kind + "/") and figures:
                who = key.split("/", 1)[1].replace("/", ", ")
                series.append(charts.Series(who, [(0, figures[len(figures) // 2], figures[0], figures[-1])], ours=who.startswith("rrdma")))
        (folder / f"rpc_{kind}.svg").write_text(charts.bar_chart(title, "rrdma::rpc and others on the same two cores, in one run", unit, series))


def table(results, verdicts):
    lines = ["# rrdma::rpc beside others", "", "| what | median of the rounds |", "|---|---|"]
    for key, values in results.items():
        names = values[0].keys()
        words = ", ".join(f"{name} {comm.median([v[name] for v in values if name in v]):,.2f}" for name in names)
        lines.append(f"| {key} | {words} |")
    lines += ["", "| bar | figure | wanted | |", "|---|---|---|---|"]
    for verdict, words, figure, bar in verdicts:
        lines.append(f"| {words} | {'-' if figure is None else f'{figure:.2f}'} | {bar} | {verdict} |")
    return "\n".join(lines) + "\n"


def measure_all(arena, arguments, effort):
    results = {}
    for _ in range(1 if arguments.tiny else arguments.rounds):
        for key, measure in plan(effort):
            if arguments.only not in key:
                continue
            try:
                value = measure(arena)
                results.setdefault(key, []).append(value)
                print(f"  {key:34} {comm.shown(value)}", flush=True)
            except (stage.Trouble, OSError) as trouble:
                print(f"  {key:34} {trouble}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="counts that only show that everything runs")
    parser.add_argument("--only", default="", help="a part of the keys to measure")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    reasons = Path(arguments.build) / "left-out.txt"
    missing = [name for name in OTHERS if not (Path(arguments.build) / "bin" / name).exists()]
    if missing and not arguments.tiny:
        sys.exit(f"not built: {', '.join(missing)}\n{reasons.read_text() if reasons.exists() else ''}")
    others = tuple(f"bin/{name}" for name in OTHERS if (Path(arguments.build) / "bin" / name).exists())
    stage.enter_namespace()
    effort = contestants.TINY if arguments.tiny else contestants.QUICK if arguments.quick else contestants.FULL
    print(f"load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds", flush=True)
    with stage.Stage(arguments.build, 120, PRODUCTS + others) as arena:
        arena.find_device()
        results = measure_all(arena, arguments, effort)
    verdicts = [("no figure" if holds is None else "ok" if holds else "MISSED", words, figure, bar) for words, figure, bar, holds in rows(results)]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "rpc.json").write_text(json.dumps(results, indent=1))
    (arguments.output / "rpc.md").write_text(table(results, verdicts))
    draw(results, arguments.output)
    for verdict, words, figure, bar in verdicts:
        print(f"{verdict:9} {words}: {'-' if figure is None else f'{figure:.2f}'} (bar {bar})")
    print(f"{arguments.output}/rpc.md, rpc_*.svg")
    return 1 if any(verdict != "ok" for verdict, *_ in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
