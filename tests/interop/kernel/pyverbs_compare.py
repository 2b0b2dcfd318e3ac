"""Compares two outputs of pyverbs_runner.py: no test may go wrong on the first device that does not go wrong on the second.

  pyverbs_compare.py OURS THEIRS
"""
import sys

EXPECTED_AT_LEAST = 60
WRONG = ("failed", "error", "never ended")


def read(name):
    """By test: what became of it, and why."""
    results = {}
    with open(name, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            what, *rest = line.rstrip("\n").split("\t")
            if what in ("started", "passed", "skipped", "failed", "error") and len(rest) == 2:
                results[rest[0]] = ("never ended" if what == "started" else what, rest[1])
    return results


def main():
    ours, theirs = map(read, sys.argv[1:])
    count = lambda results, what: sum(outcome == what for outcome, _ in results.values())
    worse = 0
    for name, (what, why) in ours.items():
        other = theirs.get(name, ("absent", ""))[0]
        if what in WRONG and other not in WRONG:
            worse += 1
            print(f"{what} here, {other} there: {name}: {why}")
        elif what == "skipped" and other == "passed":
            print(f"skipped here, passed there: {name}: {why}")
    passed = count(ours, "passed")
    print(f"pyverbs: {passed} passed, {sum(count(ours, what) for what in WRONG)} went wrong, {worse} of them only here; "
          f"rxe: {count(theirs, 'passed')} passed, {sum(count(theirs, what) for what in WRONG)} went wrong")
    return 1 if worse or passed < EXPECTED_AT_LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
