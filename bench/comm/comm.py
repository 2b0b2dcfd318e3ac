#!/usr/bin/env python3
"""Measures rrdma::comm, bare verbs (our own loop, and perftest), UCX and TCP with Asio, in turn on the same two
cores, and compares the figures with the bars of the library. Arguments: the build folder; --rounds, --quick."""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contestants
import stage
from contestants import BANDWIDTH, LATENCY, RATE

MIB = 1 << 20
LINKS = ("shm", "udp")
PRODUCTS = ("bin/comm_bench", "lib/librrdma-comm.so.0")


def lines(text):
    return {words[0]: float(words[1]) for words in map(str.split, text.splitlines()) if len(words) == 2}


def own(stage, serve, program, link, count, size=0):
    """Runs one of comm_bench's programs. Returns the client's output."""
    port = stage.next_port()
    run = [] if link is None else [stage.program("rrdma"), "run", "--"]
    words = [*run, stage.program("comm_bench")]
    return lines(stage.pair([*words, serve, "127.0.0.1", str(port)], [*words, program, "127.0.0.1", str(port), str(count), str(size)], port,
                            {} if link is None else {"RRDMA_LINK": link}, server_ends=False))


def ucx_rc(kind, size, link):
    """UCX over our device; contestants.ucx covers its own shared memory and TCP."""
    def measure(stage, effort):
        port = stage.next_port()
        environment = {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": f"{stage.device}:1", "UCX_WARN_UNUSED_ENV_VARS": "n", "RRDMA_LINK": link}
        run = [stage.program("rrdma"), "run", "--", *contestants.ucx_perftest(), "-p", str(port)]
        count = effort.trips if kind == LATENCY else contestants.count_for(effort, size)
        test = ["-t", "tag_lat" if kind == LATENCY else "tag_bw", "-s", str(size), "-n", str(count), "-w", str(max(10, count // 10))]
        text = stage.pair(run, [*run[:4], "127.0.0.1", *run[4:], *test], port, environment, server_ends=False)
        return {LATENCY: contestants.figures.ucx_latency, RATE: contestants.figures.ucx_rate, BANDWIDTH: contestants.figures.ucx_bandwidth}[kind](text)
    return measure


def plan(effort):
    """Yields (key, a function of the stage that returns one or more figures)."""
    for link in LINKS:
        yield f"{link}/bare", lambda s, link=link: own(s, "bare-serve", "bare-latency", link, effort.trips)
        yield f"{link}/comm", lambda s, link=link: own(s, "serve", "latency", link, effort.trips)
        yield f"{link}/ib_send_lat", lambda s, link=link: 1000 * contestants.perftest("ib_send_lat", 8, link, LATENCY)(s, effort)
        yield f"{link}/ucx rc_v", lambda s, link=link: 1000 * ucx_rc(LATENCY, 8, link)(s, effort)
    yield "ucx shared memory", lambda s: 1000 * contestants.ucx(LATENCY, 8, "sm,self")(s, effort)
    yield "ucx tcp", lambda s: 1000 * contestants.ucx(LATENCY, 8, "tcp,self")(s, effort)
    yield "asio tcp", lambda s: own(s, "tcp-serve", "tcp-latency", None, effort.trips)
    for link in LINKS:
        yield f"{link}/rate/ib_send_bw", lambda s, link=link: contestants.perftest("ib_send_bw", 8, link, RATE)(s, effort)
        yield f"{link}/rate/comm", lambda s, link=link: own(s, "serve", "rate", link, effort.messages)
        yield f"{link}/rate/ucx rc_v", lambda s, link=link: ucx_rc(RATE, 8, link)(s, effort)
        for way in ("read", "write"):
            count = contestants.count_for(effort, MIB)
            yield f"{link}/{way}/perftest", lambda s, link=link, way=way: contestants.perftest(f"ib_{way}_bw", MIB, link, BANDWIDTH)(s, effort)
            yield f"{link}/{way}/comm", lambda s, link=link, way=way, count=count: own(s, "lie-still", way, link, count, MIB)
        yield f"{link}/endpoints", lambda s, link=link: own(s, "serve", "endpoints", link, effort.messages, 1000)


def best(results, key, name=None, most=False):
    values = [value if name is None else value.get(name) for value in results.get(key, [])]
    values = [value for value in values if value is not None]
    return (max if most else min)(values) if values else None


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def rows(results):
    """The result of each bar: text, figure, bar, and whether it holds (None: no figure)."""
    def row(words, figure, bar, holds):
        return words, figure, bar, None if figure is None else holds(figure)

    def both(one, other, calculate):
        """The median over rounds of a value calculated from figures of the same round."""
        values = [calculate(a, b) for a, b in zip(results.get(one, []), results.get(other, []))]
        return median(values)

    for link in LINKS:
        cost = both(f"{link}/comm", f"{link}/bare", lambda a, b: a["latency_ns"] - b["latency_ns"])
        yield row(f"{link}: 8-octet ping-pong, ns a side over bare verbs", cost, "<= 150", lambda v: v <= 150)
        ratio = both(f"{link}/rate/comm", f"{link}/rate/ib_send_bw", lambda a, b: 1e9 / a["message_ns"] / b)
        yield row(f"{link}: one-way 8-octet rate, of ib_send_bw", ratio, ">= 0.8", lambda v: v >= 0.8)
        for way in ("read", "write"):
            ratio = both(f"{link}/{way}/comm", f"{link}/{way}/perftest", lambda a, b: a["bandwidth_gbs"] / b)
            yield row(f"{link}: 1 MiB {way}, of perftest", ratio, ">= 0.95", lambda v: v >= 0.95)
        for kind in ("allocations", "locks"):
            counts = [value[kind] for key in ("comm", "rate/comm") for value in results.get(f"{link}/{key}", [])]
            yield row(f"{link}: {kind} in steady state", max(counts) if counts else None, "0", lambda v: v == 0)
        memory = median([v["resident_mib"] - v["buffers_mib"] for v in results.get(f"{link}/endpoints", [])])
        yield row(f"{link}: MiB of 1,000 endpoints beyond buffers", memory, "<= 64", lambda v: v <= 64)
        share = median([v["one_ns"] / v["many_ns"] for v in results.get(f"{link}/endpoints", [])])
        yield row(f"{link}: their throughput, of one's", share, ">= 0.7", lambda v: v >= 0.7)


def shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} {number:g}" for name, number in value.items())
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="counts that only show that everything runs")
    parser.add_argument("--only", default="", help="a part of the keys to measure")
    parser.add_argument("--output", type=Path, default=Path("build/bench/comm.json"))
    arguments = parser.parse_args()
    stage.enter_namespace()
    effort = contestants.TINY if arguments.tiny else contestants.QUICK if arguments.quick else contestants.FULL
    results = {}
    print(f"load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds", flush=True)
    with stage.Stage(arguments.build, 120, PRODUCTS) as arena:
        arena.find_device()
        for _ in range(1 if arguments.tiny else arguments.rounds):
            for key, measure in plan(effort):
                if arguments.only not in key:
                    continue
                try:
                    value = measure(arena)
                    results.setdefault(key, []).append(value)
                    print(f"  {key:24} {shown(value)}", flush=True)
                except stage.Trouble as trouble:
                    print(f"  {key:24} {trouble}", flush=True)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1))
    bad = 0
    for words, figure, bar, holds in rows(results):
        verdict = "no figure" if holds is None else "ok" if holds else "MISSED"
        bad += holds is not True
        print(f"{verdict:9} {words}: {'-' if figure is None else f'{figure:.2f}'} (bar {bar})")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
