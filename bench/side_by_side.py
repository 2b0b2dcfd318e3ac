#!/usr/bin/env python3
"""Measures RRDMA and its alternatives in turn on the same two cores, and compares the figures with the bars of the
project (bars.py). Each of several rounds measures everything once. Writes to the output folder: table.txt, table.md,
results.json, latency.svg, bandwidth.svg, message-rate.svg."""

import argparse
import os
import platform
import re
import signal
import sys
import time
from pathlib import Path

import bars
import contestants
import report
import stage

QUICK_SECONDS = 280  # no new measurement starts after this


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build folder with bin/rrdma, bin/limits, bin/many_qps")
    parser.add_argument("--output", default="build/bench", type=Path)
    parser.add_argument("--quick", action="store_true", help="within five minutes")
    parser.add_argument("--tiny", action="store_true", help="one round with counts that only show that everything runs")
    parser.add_argument("--rounds", type=int, help="default 5, quick 3")
    parser.add_argument("--only", default="", help="regular expression over the keys of the measurements, such as ^shm/")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a measurement never gave a figure")
    parser.add_argument("--list", action="store_true", help="print the keys and end")
    return parser.parse_args()


def cpu_name():
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*: (.+)", text)
    if found:
        return found.group(1)
    part = re.search(r"CPU part\s*: (\S+)", text)
    names = {"0xd0c": "Neoverse N1", "0xd40": "Neoverse V1", "0xd49": "Neoverse N2", "0xd4f": "Neoverse V2"}
    return names.get(part.group(1), platform.machine()) if part else platform.machine()


def describe_machine(arena, rounds, quick):
    try:
        rmem_max = int(Path("/proc/sys/net/core/rmem_max").read_text())
    except OSError:  # older kernels do not show it in a network namespace
        rmem_max = int(os.environ.get("RRDMA_BENCH_RMEM_MAX", "0"))
    return {"cpu": cpu_name(), "architecture": platform.machine(), "kernel": platform.release(), "cores": len(os.sched_getaffinity(0)),
            "near_core": arena.near_core, "far_core": arena.far_core, "rounds": rounds, "quick": quick, "rmem_max": rmem_max,
            "load": float(os.environ.get("RRDMA_BENCH_LOAD", os.getloadavg()[0])), "time": time.strftime("%Y-%m-%d %H:%M:%S %Z")}


def measure_round(arena, plan, effort, results, progress, deadline):
    """Returns False if time ran out before the round was complete."""
    for one in plan:
        if time.monotonic() > deadline:
            return False
        progress.show(one.key)
        try:
            value = one.measure(arena, effort)
            if not value > 0:
                raise ValueError(f"not a figure: {value}")
            results.add(one.key, value)
            progress.step(f"{one.key}: {bars.shown(value, one.kind)}")
        except (stage.Trouble, ValueError, OSError) as trouble:
            results.add_trouble(one.key, str(trouble))
            progress.step(f"{one.key}: no figure")
    return True


def main():
    arguments = read_arguments()
    plan = [one for one in contestants.plan() if re.search(arguments.only, one.key)]
    if arguments.list:
        print("\n".join(one.key for one in plan))
        return 0
    os.environ.setdefault("RRDMA_BENCH_LOAD", str(os.getloadavg()[0]))
    if os.path.exists("/proc/sys/net/core/rmem_max"):
        os.environ.setdefault("RRDMA_BENCH_RMEM_MAX", Path("/proc/sys/net/core/rmem_max").read_text().strip())
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(128 + signal.SIGTERM))  # leaves through the stage, which
                                                                                   # cleans up
    stage.enter_namespace()
    effort = contestants.TINY if arguments.tiny else contestants.QUICK if arguments.quick else contestants.FULL
    rounds = arguments.rounds or (1 if arguments.tiny else 3 if arguments.quick else 5)
    deadline = time.monotonic() + (QUICK_SECONDS if arguments.quick else float("inf"))
    results, completed = bars.Results(), 0
    with stage.Stage(arguments.build, limit_seconds=15 if arguments.quick or arguments.tiny else 60, programs=contestants.PROGRAMS) as arena:
        arena.find_device()
        # If time is short, measure chart-only figures once, after the bars have had two rounds.
        schedule = [[one for one in plan if one.needed or not arguments.quick or turn == min(1, rounds - 1)] for turn in range(rounds)]
        progress = report.Progress(sum(map(len, schedule)))
        for turn, chosen in enumerate(schedule):
            complete = measure_round(arena, chosen, effort, results, progress, deadline)
            completed += complete
            progress.say(f"round {turn + 1} of {rounds}{'' if complete else ' cut short: no time left'}, {time.monotonic() - progress.begin:.0f} s")
            if not complete:
                break
        machine = describe_machine(arena, completed, arguments.quick)
    report.write(arguments.output, results, plan, machine)
    sys.stdout.write((arguments.output / "table.txt").read_text())
    print(f"\nTable, charts and JSON: {arguments.output}/")
    return 1 if arguments.strict and any(one.key not in results.values for one in plan) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: nothing was written")
    except stage.Trouble as trouble:
        sys.exit(f"cannot measure here: {trouble}")
