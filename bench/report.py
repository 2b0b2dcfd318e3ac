"""The output of a run: the table as text and Markdown, the charts, the JSON, and the progress bar."""

import json
import shutil
import sys
import time

import bars
import budget
import charts
from bars import MISSED, OK, shown
from contestants import BANDWIDTH, LATENCY, LIMITS, RATE

TITLES = ("measurement", "RRDMA", "range", "target", "compared with", "ratio", "verdict")
# The limits in each chart, with short names.
CHART_LIMITS = {LATENCY: {"cache_line_us": "limit: cache line", "process_vm_us": "limit: process_vm_writev", "udp_us": "limit: bare UDP sockets"},
                BANDWIDTH: {"memcpy_1m": "limit: memcpy", "process_vm_1m": "limit: process_vm_writev", "udp_gso": "limit: bare UDP sockets with GSO"}}
CHARTS = (("latency", LATENCY, "Latency by size", "µs, half a round trip; less is better"),
          ("bandwidth", BANDWIDTH, "Bandwidth by size", "GB/s; more is better"),
          ("message-rate", RATE, "Messages of 8 bytes for each second", "millions for each second; more is better"))


def spread_text(results, key, kind):
    spread = results.spread(key)
    if spread is None:
        return "-"
    low, high = (shown(value, kind).split(" ")[0] for value in spread)
    return f"{low} … {high}"


def rows_of(plan):
    """The rows whose own figure is measured in this run."""
    keys = {one.key for one in plan}
    return [row for row in bars.rows() if row.ours in keys]


def bar_cells(results, plan):
    for row in rows_of(plan):
        ratio = row.ratio(results)
        yield (row.what, shown(row.figure(results), row.kind), spread_text(results, row.ours, row.kind), row.bar_text(),
               shown(row.reference(results), row.kind) if row.against else "-", "-" if ratio is None else f"{ratio:.2f}", row.verdict(results))


def limit_cells(results, plan):
    for name, (what, kind) in LIMITS.items():
        key = f"limit/{name}"
        if key not in {one.key for one in plan}:
            continue
        yield (f"limit: {what}", shown(results.median(key), kind), spread_text(results, key, kind), "-", "-", "-", "-")


def cells(results, plan):
    return [*bar_cells(results, plan), *limit_cells(results, plan)]


def text_table(rows, titles=TITLES):
    """Columns as wide as their widest cell."""
    rows = [titles, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]]) + "\n"


def markdown_table(rows, titles=TITLES):
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for row in rows:
        mark = f"**{row[-1]}**" if row[-1] == MISSED else row[-1]
        lines.append("| " + " | ".join([cell.replace("|", "\\|") for cell in row[:-1]] + [mark]) + " |")
    return "\n".join(lines) + "\n"


def summary(results, plan):
    verdicts = [row.verdict(results) for row in rows_of(plan)]
    return f"{verdicts.count(OK)} targets are met, {verdicts.count(MISSED)} are missed, {verdicts.count(bars.NOT_MEASURED)} were not measured"


def machine_text(machine):
    text = (f"{machine['cpu']}, Linux {machine['kernel']}; the client on core {machine['near_core']}, the server on core {machine['far_core']}; "
            f"{rounds_text(machine)}; socket buffers up to {machine['rmem_max'] >> 10} KiB; load before the run {machine['load']:.2f}")
    if machine["load"] > 0.5 * machine["cores"] or machine["near_core"] == machine["far_core"]:
        text += ". **The machine was busy or has one core: the figures mean little**"
    return text


def series_of(results, plan, kind):
    """One series for each contestant, ours first."""
    factor = 1e6 if kind == RATE else 1
    found = {}
    for one in plan:
        value = results.median(one.key)
        if one.kind != kind or not one.chart or not value:
            continue
        series = found.setdefault(one.who, charts.Series(one.who, [], one.who.startswith("RRDMA")))
        series.points.append((one.size, value / factor, *(end / factor for end in results.spread(one.key))))
    return sorted(found.values(), key=lambda one: not one.ours)


def as_data(results, plan, machine):
    measured = [{"key": one.key, "who": one.who, "program": one.program, "kind": one.kind, "size": one.size, "median": results.median(one.key),
                 "values": results.values.get(one.key, []), "troubles": results.troubles.get(one.key, [])} for one in plan]
    judged = [{"what": row.what, "ours": row.ours, "figure": row.figure(results), "relation": row.relation, "factor": row.factor,
               "against": row.against, "reference": row.reference(results), "bar": row.bar(results), "ratio": row.ratio(results),
               "verdict": row.verdict(results)} for row in rows_of(plan)]
    return {"machine": machine, "units": {"latency": "us", "bandwidth": "GB/s", "rate": "1/s", "memory": "MiB"}, "measurements": measured, "rows": judged}


def write(folder, results, plan, machine):
    folder.mkdir(parents=True, exist_ok=True)
    rows = cells(results, plan)
    parts = list(budget.cells(results))
    budget_text = f"\nWhere the time goes:\n\n{text_table(parts, budget.TITLES)}" if parts else ""
    (folder / "table.txt").write_text(f"{machine_text(machine)}\n\n{text_table(rows)}\n{summary(results, plan)}\n{budget_text}{trouble_text(results)}")
    pictures = "\n".join(f"![{title}]({name}.svg)" for name, _, title, _ in CHARTS)
    (folder / "table.md").write_text(f"{machine_text(machine)}.\n\n{markdown_table(rows)}\n{summary(results, plan)}.\n\n"
                                     f"Where the time goes:\n\n{markdown_table(parts, budget.TITLES)}\n{pictures}\n")
    (folder / "results.json").write_text(json.dumps(as_data(results, plan, machine), indent=1, ensure_ascii=False) + "\n")
    for name, kind, title, unit in CHARTS:
        subtitle, series = f"{machine['cpu']}, loopback, {rounds_text(machine)}", series_of(results, plan, kind)
        drawn = charts.bar_chart(title, subtitle, unit, series) if kind == RATE else charts.line_chart(title, subtitle, unit, series, chart_limits(results, kind))
        (folder / f"{name}.svg").write_text(drawn)


def rounds_text(machine):
    return "one round" if machine["rounds"] == 1 else f"medians of {machine['rounds']} rounds"


def chart_limits(results, kind):
    found = [(name, results.median(f"limit/{key}")) for key, name in CHART_LIMITS[kind].items()]
    return [(name, value) for name, value in found if value]


def trouble_text(results):
    lines = [f"  {key}: {texts[-1][:200]!r}" + (f" ({len(texts)} times)" if len(texts) > 1 else "") for key, texts in results.troubles.items()]
    return "\n".join(["", "Without a figure at least once:", *lines, ""]) if lines else ""


class Progress:
    """One line that is redrawn on a terminal; otherwise a line for each round."""

    def __init__(self, total, stream=sys.stderr):
        self.total, self.stream, self.done, self.begin = total, stream, 0, time.monotonic()
        self.terminal = stream.isatty()

    def show(self, text):
        if not self.terminal:
            return
        elapsed = time.monotonic() - self.begin
        left = elapsed / self.done * (self.total - self.done) if self.done else 0
        columns = shutil.get_terminal_size().columns
        full = 24 * self.done // max(self.total, 1)
        line = f"[{'█' * full}{'·' * (24 - full)}] {self.done}/{self.total}  {left:3.0f} s left  {text}"
        self.stream.write("\r\033[K" + line[:columns - 1])
        self.stream.flush()

    def step(self, text):
        self.done += 1
        self.show(text)

    def say(self, text):
        self.stream.write(("\r\033[K" if self.terminal else "") + text + "\n")
        self.stream.flush()
