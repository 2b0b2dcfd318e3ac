#!/usr/bin/env python3
"""The cost of loading RRDMA into a program: startup.py PREFIX... measures `true` and `ibv_devinfo` alone, and with the RRDMA of
each PREFIX (bin/rrdma, lib/librrdma.so.1). It prints the medians of wall time and CPU time as a table. Memory is what one
further process has for itself (Private_Dirty): a `sleep` stands for `true`, and `ibv_asyncwatch`, which opens the device and
waits, for `ibv_devinfo`. The daemon runs during the measurement, except in the row that starts it. Restarts itself in a network
namespace of its own."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/harness"))
import namespaces  # noqa: E402

COLD_ROUNDS = 10


def once(words, environment):
    """Wall seconds and CPU seconds of a program."""
    began = time.perf_counter()
    child = os.posix_spawn(shutil.which(words[0]), words, {**os.environ, **environment},
                           file_actions=[(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)])
    _, status, usage = os.wait4(child, 0)
    if status != 0 and words[0] != "ibv_devinfo":  # without RRDMA it finds no device
        sys.exit(f"{' '.join(words)}: wait status {status}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def private_memory(words, environment):
    """KiB that this process wrote and shares with no other."""
    child = subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    text = pathlib.Path(f"/proc/{child.pid}/smaps_rollup").read_text()
    child.kill()
    child.wait()
    return int(re.search(r"^Private_Dirty:\s+(\d+)", text, re.M)[1])


def rows_of(prefix):
    """(name, command, environment, command that waits) of one installation; None: without RRDMA."""
    if prefix is None:
        return [("true", ["true"], {}, ["sleep", "9"]), ("ibv_devinfo", ["ibv_devinfo"], {}, None)]
    run, preload = [f"{prefix}/bin/rrdma", "run", "--"], {"LD_PRELOAD": f"{prefix}/lib/librrdma.so.1"}
    return [("true, library preloaded", ["true"], preload, ["sleep", "9"]), ("rrdma run -- true", [*run, "true"], {}, None),
            ("rrdma run -- ibv_devinfo", [*run, "ibv_devinfo"], {}, [*run, "ibv_asyncwatch"])]


def measure(prefix, rounds):
    """Prints the rows of one installation, measured in turns."""
    rows = rows_of(prefix)
    found = [[] for _ in rows]
    for _ in range(rounds):
        for (_, words, environment, _), results in zip(rows, found):
            results.append(once(words, environment))
    for (name, _, environment, waiting), results in zip(rows, found):
        wall, cpu = (statistics.median(column) * 1e3 for column in zip(*results))
        memory = private_memory(waiting, environment) if waiting else ""
        print(f"{name:34} {wall:9.2f} {cpu:8.2f} {memory:7}", flush=True)


def cold_start(prefix):
    """Seconds of an `ibv_devinfo` that starts the daemon, which ends at once."""
    began = time.perf_counter()
    subprocess.run([f"{prefix}/bin/rrdma", "run", "--", "ibv_devinfo"], stdout=subprocess.DEVNULL, check=True, env={**os.environ, "RRDMA_DAEMON_LINGER": "0"})
    seconds = time.perf_counter() - began
    time.sleep(0.2)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", nargs="+", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=100)
    chosen = parser.parse_args()
    if not namespaces.enter("net", "pid"):
        sys.exit("needs namespaces of its own")
    os.sync()  # pages of files that are not written back yet count as dirty
    print(f"{'':34} {'wall ms':>9} {'CPU ms':>8} {'KiB':>7}")
    measure(None, chosen.rounds)
    for prefix in chosen.prefix:
        print(prefix)
        print(f"{'ibv_devinfo that starts the daemon':34} {statistics.median(cold_start(prefix) for _ in range(COLD_ROUNDS)) * 1e3:9.2f}")
        daemon = subprocess.Popen([f"{prefix}/bin/rrdmad", "--stay"], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        measure(prefix, chosen.rounds)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()


main()
