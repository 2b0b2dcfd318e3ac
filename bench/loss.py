#!/usr/bin/env python3
"""Measures the cost of losses: the bandwidth of RRDMA over UDP with injected faults at both ends, relative to that
without faults in the same round, and the project's bars. The simulated rows need no quiet machine, because they use
virtual time."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import contestants
import stage

PROGRAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
SIZE = 1 << 20
NONE = "no faults"
# condition: (fault specification, least share of the speed without faults)
CONDITIONS = {
    NONE: ("", 1.0),
    "0.1 % lost": ("drop=0.1%", 0.93),
    "1 % lost": ("drop=1%", 0.7),
    "5 % lost": ("drop=5%", 0.3),
    "1 % lost in bursts of 8": ("drop=1%,burst=8", 0.6),
    "5 % reordered by up to 64": ("reorder=5%,depth=64", 0.9),
}
SIMULATED = (("40 Gbit/s, 50 µs, 1 % lost", "drop=1%", 0.75), ("40 Gbit/s, 50 µs, 5 % lost", "drop=5%", 0.0),
             ("40 Gbit/s, 50 µs, bursts of 8", "drop=1%,burst=8", 0.0), ("40 Gbit/s, 50 µs, 5 % reordered by up to 64", "reorder=5%,depth=64", 0.0))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with bin/rrdma")
    parser.add_argument("--output", default="build/bench-loss", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--octets", type=int, default=512, help="MiB that each measurement moves (default 512)")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="only these")
    parser.add_argument("--condition", action="append", choices=[name for name in CONDITIONS if name != NONE], help="only these, beside none")
    parser.add_argument("--simulated", action="store_true", help="only the simulated rows")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE", help="for the programs, such as RRDMA_CC=loss")
    return parser.parse_args()


def measure(arena, program, fault, seed, octets, environment):
    effort = contestants.Effort(trips=0, octets=octets << 20, messages=1 << 30, seconds=0, milliseconds=0)
    wanted = dict(environment)
    if fault:
        wanted["RRDMA_FAULT"] = f"{fault},seed={seed}"
    return contestants.perftest(program, SIZE, "udp", contestants.BANDWIDTH, wanted)(arena, effort)


def run_round(arena, arguments, number, shares):
    """For each program: the speed without faults, then each condition relative to it."""
    environment = dict(pair.split("=", 1) for pair in arguments.environment)
    for program in arguments.program or PROGRAMS:
        whole = None
        for name, (fault, _) in CONDITIONS.items():
            if arguments.condition and name not in (NONE, *arguments.condition):
                continue
            try:
                speed = measure(arena, program, fault, number + 1, arguments.octets, environment)
            except (stage.Trouble, ValueError) as trouble:
                shares.setdefault((program, name), []).append((0.0, 0.0))
                print(f"  {program}, {name}: no figure: {trouble}", file=sys.stderr)
                continue
            whole = speed if whole is None else whole
            shares.setdefault((program, name), []).append((speed / whole, speed))
            print(f"  {program}, {name}: {speed:.3f} GB/s, {speed / whole:.2f}", file=sys.stderr)


def simulate(build, fault):
    command = [str(Path(build) / "bin/rrdma"), "sim", "--workload", "write", "--size", "1048576", "--bandwidth", "40G", "--rtt", "50us", "--seconds", "0.1", "--json"]
    said = subprocess.run([*command, *(["--fault", fault] if fault else [])], capture_output=True, text=True, timeout=300, check=True).stdout
    return json.loads(said)["goodput_gbps"]


def table(shares, simulated):
    lines = [f"{'program':12}  {'condition':44}  {'GB/s':>7}  {'share':>5}  {'bar':>4}"]
    for (program, name), values in shares.items():
        bar = CONDITIONS[name][1]
        share = statistics.median(value[0] for value in values)
        speed = statistics.median(value[1] for value in values)
        lines.append(f"{program:12}  {name:44}  {speed:7.3f}  {share:5.2f}  {bar:4.2f}  {'' if name == NONE else 'holds' if share >= bar else 'BELOW'}")
    for name, share, bar in simulated:
        lines.append(f"{'simulated':12}  {name:44}  {'':7}  {share:5.2f}  {bar:4.2f}  {'' if bar == 0 else 'holds' if share >= bar else 'BELOW'}")
    return "\n".join(lines)


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    whole = simulate(arguments.build, "")
    simulated = [(name, simulate(arguments.build, fault) / whole, bar) for name, fault, bar in SIMULATED]
    shares = {}
    if not arguments.simulated:
        os.environ.setdefault("RRDMA_BENCH_LOAD", str(os.getloadavg()[0]))
        stage.enter_namespace()
        with stage.Stage(arguments.build, 120) as arena:
            arena.find_device()
            for number in range(arguments.rounds):
                print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
                run_round(arena, arguments, number, shares)
    text = table(shares, simulated)
    load = os.environ.get("RRDMA_BENCH_LOAD", "")
    print(text + (f"\nmedian of {arguments.rounds} rounds; load when it began: {load}" if load else ""))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "table.txt").write_text(text + "\n")
    (arguments.output / "results.json").write_text(json.dumps({
        "time": time.strftime("%Y-%m-%d %H:%M:%S %Z"), "simulated": simulated,
        "udp": [{"program": program, "condition": name, "shares": [value[0] for value in values], "gigabytes_per_second": [value[1] for value in values]}
                for (program, name), values in shares.items()]}, indent=1) + "\n")
    below = [name for name, share, bar in simulated if share < bar]
    below += [f"{program}, {name}" for (program, name), values in shares.items() if statistics.median(value[0] for value in values) < CONDITIONS[name][1]]
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
