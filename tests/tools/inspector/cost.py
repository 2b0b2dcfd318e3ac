# Measures the cost of watching programs: `make bench-inspector`. Runs ib_write_bw and ib_send_lat with and
# without the page of `rrdma inspect` open in a browser, in turn, in one run. Reports the medians of the
# ratios of neighboring runs, so that other load on the machine affects both. "Without" means that the page
# and the server are stopped (SIGSTOP).
#
# With fewer than four processors, two polling programs occupy them all: a browser of the same priority would
# take its share whatever the page does. In that case the programs run at the highest priority and the browser
# at the lowest, so the result is the cost to the programs themselves. Arguments: the command, the number of
# rounds.
#
# The last line is the verdict: OK, WORSE (beyond a limit), or NOISY (equal runs differ too much for a
# verdict). The exit status is 0, 1, or 2.
import os
import re
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/tools/commands"))

import servers  # noqa: E402
import surroundings  # noqa: E402
from command import RRDMA  # noqa: E402
from inspecting import Inspector  # noqa: E402

PAGES = os.path.join(ROOT, "inspector", "test", "page.mjs")
CROWDED = len(os.sched_getaffinity(0)) < 4
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
NOISE_MAX = 0.1  # between equal runs: other load on the machine
# The tool, its arguments, the reader of its last line, and the largest allowed slowdown.
MEASURES = (
    ("ib_write_bw", ("-x", "1", "-n", "20000", "-F"), lambda fields: 1 / float(fields[3]), 0.03),
    ("ib_send_lat", ("-x", "1", "-n", "100000", "-F"), lambda fields: float(fields[4]), 0.05),
)


def family_of(pid):
    """Returns a process and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except (OSError, ValueError):
            continue
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def tell_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def processor_seconds(pids):
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(tool, words, read, port):
    """Returns a figure of which smaller is better."""
    command = [*(["nice", "-n", "-20"] if CROWDED else []), RRDMA, "run", "--", tool, *words, "-p", str(port)]
    before = servers.open_ports()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    servers.await_server(server, before, command)
    done = subprocess.run(command + ["localhost"], capture_output=True, text=True, timeout=120)
    server.wait(60)
    rows = re.findall(r"^\s*\d+(?:\s+[\d.]+){3,}\s*$", done.stdout, re.M)
    if done.returncode != 0 or not rows:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return read(rows[-1].split())


def machine():
    """Describes the machine and its other load: a figure of a busy machine means little."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"(?m)^(?:model name|CPU part)\s*:\s*(.*)$", file.read())
    return f"{os.uname().machine}, {len(os.sched_getaffinity(0))} processors ({model[1] if model else 'unknown'}), Linux {os.uname().release}, load {os.getloadavg()[0]:.1f} before"


def summary(tool, ratios, alone, bar):
    """Returns the median of the ratios with the spread of the middle half: (line, verdict)."""
    middle = statistics.median(ratios)
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 2 else [middle] * 3
    # Standard error of a median, by the quartiles.
    error = (quarters[2] - quarters[0]) / 2 / len(ratios) ** 0.5 * 1.86
    noise = statistics.median(abs(one / statistics.median(alone) - 1) for one in alone)
    within, beyond = middle <= 1 + bar and error <= bar, middle - error > 1 + bar
    verdict = "NOISY" if noise > NOISE_MAX else "OK" if within else "WORSE" if beyond else "NOISY"
    return (f"{tool}: {(middle - 1) * 100:+.1f} % ± {error * 100:.1f} with the page open (bar {bar * 100:.0f} %), {len(ratios)} rounds, "
            f"runs of the same differ by {noise * 100:.1f} %: {verdict}"), verdict


def main():
    print(machine(), flush=True)
    rank = ["nice", "-n", "19"] if CROWDED else []
    verdicts = []
    with Inspector() as inspector:
        page = subprocess.Popen([*rank, "node", PAGES, "watch", inspector.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if page.stdout.readline().strip() != "ready":
            raise SystemExit("the page did not open")
        try:
            for tool, words, read, bar in MEASURES:
                server, browser = [inspector.process.pid], family_of(page.pid)
                ratios, alone, used = [], [], [0, 0, 0]
                for number in range(ROUNDS):
                    found = {}
                    # The order alternates, because the machine's speed may drift.
                    for watched in (False, True) if number % 2 else (True, False):
                        tell_all(server + browser, signal.SIGCONT if watched else signal.SIGSTOP)
                        time.sleep(0.5)
                        before = (processor_seconds(server), processor_seconds(browser), time.monotonic())
                        found[watched] = measure(tool, words, read, 18740)
                        if watched:
                            used = [sum + now - then for sum, now, then in zip(used, (processor_seconds(server), processor_seconds(browser), time.monotonic()), before)]
                    ratios.append(found[True] / found[False])
                    alone.append(found[False])
                line, verdict = summary(tool, ratios, alone, bar)
                print(line, flush=True)
                print(f"  of a processor: rrdma inspect {used[0] / used[2] * 100:.1f} %, the browser {used[1] / used[2] * 100:.1f} %", flush=True)
                verdicts.append(verdict)
        finally:
            tell_all(family_of(page.pid) + [inspector.process.pid], signal.SIGCONT)
            page.stdin.close()
            page.wait(30)
            page.stdout.close()
    verdict = max(verdicts, key=("OK", "NOISY", "WORSE").index)
    print(f"bench-inspector: {verdict} (load {os.getloadavg()[0]:.1f} at the end)")
    return {"OK": 0, "WORSE": 1, "NOISY": 2}[verdict]


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    sys.exit(main())
