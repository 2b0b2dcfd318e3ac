"""The recorded performance of commits. Each line of history/ARCHITECTURE.jsonl is a run of the quick set (make
bench-history). It stores the speed of RRDMA relative to the references of the same run, so that runs on similar
machines can be compared.

history.py add RESULTS     adds results.json of a run, and redraws the chart
history.py check RESULTS   fails if a ratio is more than 15 % below the last line's, in the median and in every round
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import charts
from contestants import LATENCY

FOLDER = Path(__file__).parent / "history"
LOSS_MAX = 0.15
# Figures without a bar that refers to another figure, and the equivalent figure of another program.
BESIDE = (("udp/ib_write_lat/8", "limit/udp_us", "UDP: ib_write_lat, 8 B", "bare UDP sockets"),
          ("udp/pingpong", "limit/udp_us", "UDP: ibv_rc_pingpong", "bare UDP sockets"),
          ("shm/pingpong", "limit/cache_line_us", "shm: ibv_rc_pingpong", "a cache line"))


def speed(kind, ours, theirs):
    """The relative speed; None if one of them was not measured."""
    if not ours or not theirs:
        return None
    return theirs / ours if kind == LATENCY else ours / theirs


def pairs_of(data):
    """The comparisons: [(name, ours, theirs)], each a measurement."""
    measured = {one["key"]: one for one in data["measurements"]}
    pairs = [(f"{row['what']} / {row['against']}", row["ours"], row["against"]) for row in data["rows"] if row["against"]]
    pairs += [(f"{what} / {name}", ours, theirs) for ours, theirs, what, name in BESIDE]
    return [(name, measured[ours], measured[theirs]) for name, ours, theirs in pairs if ours in measured and theirs in measured]


def ratios_of(data):
    found = {name: speed(ours["kind"], ours["median"], theirs["median"]) for name, ours, theirs in pairs_of(data)}
    return {name: round(ratio, 3) for name, ratio in found.items() if ratio is not None}


def best_ratios_of(data):
    """The ratios of the round that was best for us, because a reference program may have a good or a bad round."""
    found = {name: [speed(ours["kind"], *pair) for pair in zip(ours["values"], theirs["values"])] for name, ours, theirs in pairs_of(data)}
    return {name: max(ratios) for name, rounds in found.items() if (ratios := [ratio for ratio in rounds if ratio is not None])}


def lines_of(architecture, folder=FOLDER):
    path = folder / f"{architecture}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def losses(before, now, best):
    """Ratios that dropped too far, in the median and in every round: [(name, before, now)]. Skips those not measured
    this time."""
    return [(name, ratio, now[name]) for name, ratio in before.items()
            if name in now and max(now[name], best.get(name, 0)) < ratio * (1 - LOSS_MAX)]


def chart(architecture, lines):
    """Each ratio by commit, relative to its first figure. A falling line has become slower."""
    first, series = {}, {}
    for place, line in enumerate(lines, 1):
        for name, ratio in line["ratios"].items():
            first.setdefault(name, ratio)
            series.setdefault(name, charts.Series(name, [])).points.append((place, ratio / first[name]))
    latest = lines[-1] if lines else {"commit": "-", "cpu": "-"}
    return charts.history_chart(f"Speed by commit, {architecture}", f"{latest['cpu']}; beside others in the same run, the first figure of each is 1",
                                [line["commit"] for line in lines], list(series.values()))


def commit_of(folder):
    return subprocess.run(["git", "-C", folder, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def add(data, commit, folder=FOLDER):
    machine = data["machine"]
    lines = [line for line in lines_of(machine["architecture"], folder) if line["commit"] != commit]
    lines.append({"commit": commit, "time": machine["time"], "cpu": machine["cpu"], "cores": machine["cores"], "rounds": machine["rounds"],
                  "load": round(machine["load"], 2), "ratios": ratios_of(data)})
    folder.mkdir(exist_ok=True)
    (folder / f"{machine['architecture']}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / f"{machine['architecture']}.svg").write_text(chart(machine["architecture"], lines))
    return lines[-1]


def check(data, folder=FOLDER):
    """Returns (text to print, whether all bars hold)."""
    lines = lines_of(data["machine"]["architecture"], folder)
    if not lines:
        return f"no history for {data['machine']['architecture']} yet: make bench-history begins one", True
    last, now = lines[-1], ratios_of(data)
    found = losses(last["ratios"], now, best_ratios_of(data))
    if not found:
        return f"{len(now)} ratios, none more than {LOSS_MAX:.0%} below those of {last['commit']}", True
    told = "\n".join(f"  {name}: {before:.2f} -> {ratio:.2f} ({ratio / before - 1:+.0%})" for name, before, ratio in found)
    return f"slower than {last['commit']} by more than {LOSS_MAX:.0%}, beside the same programs:\n{told}", False


def reason_to_refuse(data):
    """Rejects full runs: programs run longer in them, and some references get faster, so they cannot be compared with
    the quick set."""
    return "" if data["machine"].get("quick") else "is not of the quick set, whose runs can be compared: run `make bench QUICK=1` first"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("order", choices=("add", "check"))
    parser.add_argument("results", type=Path, help="results.json of a run")
    arguments = parser.parse_args()
    if not arguments.results.exists():
        sys.exit(f"there is no {arguments.results}: run `make bench QUICK=1` first")
    data = json.loads(arguments.results.read_text())
    if reason := reason_to_refuse(data):
        sys.exit(f"{arguments.results} {reason}")
    if arguments.order == "add":
        line = add(data, commit_of(FOLDER.parent))
        print(f"{len(line['ratios'])} ratios of {line['commit']} in {FOLDER}/{data['machine']['architecture']}.jsonl, chart beside it")
        return 0
    text, holds = check(data)
    print(text)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
