"""Measures the cost of losses towards the kernel's rxe, which knows nothing of arrival maps. Our end drops 1
% of the packets in both directions. `rrdma run --strict` is the transport without probes and repair. It
runs in turn with the current transport in the same guest, and every capture is judged by the rules of the
matrix."""

import statistics
from dataclasses import dataclass, field

from rows import CLIENT, perftest

NOW, BEFORE, WHOLE = "now", "strict", "no loss"
ROUNDS = 3
LOSS = "drop=1%"
MTU = 4096
WORK = [(program, size, count) for size, count in ((65536, 160), (1 << 20, 12)) for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw")]


@dataclass
class Gain:
    program: str
    size: int
    goodput: dict = field(default_factory=lambda: {NOW: [], BEFORE: [], WHOLE: []})  # MB/s of each run
    troubles: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.program} -s {self.size}"

    def figure(self, how):
        return statistics.median(self.goodput[how]) if self.goodput[how] else None

    def factor(self):
        now, before = self.figure(NOW), self.figure(BEFORE)
        return now / before if now and before and self.figure(WHOLE) else None

    @property
    def passed(self):
        return not self.troubles and self.factor() is not None

    def as_data(self, kernel):
        return {"kernel": kernel, "program": self.program, "size": self.size, "loss": LOSS, "unit": "MB/s", **{how: self.figure(how) for how in (WHOLE, NOW, BEFORE)},
                "factor": self.factor(), "troubles": self.troubles}


def average(output, size):
    """Returns MB/s from the table that perftest prints; None if there is none."""
    lines = [line.split() for line in output.splitlines()]
    numbers = [words for words in lines if len(words) >= 4 and words[0] == str(size) and words[1].isdigit()]
    return float(numbers[-1][3]) * (1 << 20) / 1e6 if numbers else None


def row_of(program, size, count, how):
    row = perftest(program, "RC", size, count, CLIENT, 4, MTU)
    row.note = f"({how})"
    row.seconds = 90
    row.options = ["--strict"] if how == BEFORE else []
    return row


def run(runner, say, only=lambda key: True, rounds=ROUNDS):
    """Runs with a PassRunner that drops packets. Returns the gains and the results of all rows."""
    gains, results = [], []
    for program, size, count in WORK:
        gain = Gain(program, size)
        if not only(gain.name):
            continue
        for _ in range(rounds):
            for how in (WHOLE, NOW, BEFORE):
                runner.loss = "" if how == WHOLE else LOSS
                (result,) = runner.run([row_of(program, size, count, how)], len(results), 3 * rounds * len(WORK))
                results.append(result)
                if result.capture and result.capture.exists():  # kept on request or on failure
                    result.capture = result.capture.rename(result.capture.with_name(f"{len(results):03}.pcap"))
                value = average(result.client_output, size)
                if result.passed and value:
                    gain.goodput[how].append(value)
                else:
                    gain.troubles += result.failures or [f"{how}: no figure: {result.client_output[-300:]}"]
        gains.append(gain)
        say(f"{gain.name}: {describe(gain)}")
    return gains, results


def whole(gains):
    """Returns the overall gain: the geometric mean."""
    factors = [gain.factor() for gain in gains if gain.factor()]
    return statistics.geometric_mean(factors) if factors else None


def describe(gain):
    if gain.factor() is None:
        return "not measured"
    return f"{gain.figure(WHOLE):.3g} MB/s without loss, {gain.figure(BEFORE):.3g} MB/s strict, {gain.figure(NOW):.3g} MB/s now, {gain.factor():.1f} times"


def table(gains):
    yield "| work | no loss | strict | now | gain |"
    yield "|---|---|---|---|---|"
    for gain in gains:
        if gain.factor() is None:
            yield f"| `{gain.name}` | not measured | | | |"
        else:
            yield f"| `{gain.name}` | {gain.figure(WHOLE):.3g} MB/s | {gain.figure(BEFORE):.3g} MB/s | {gain.figure(NOW):.3g} MB/s | {gain.factor():.1f} |"
