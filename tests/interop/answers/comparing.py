"""Two sets of answers side by side: RRDMA's, and those of the kernel's rxe, recorded in rxe-VERSION.txt or fresh from a guest.
docs/conformance.md has a row for each question that they answer differently, with the reason; this is the proof of it."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[2] / "docs/conformance.md"
KERNELS = ("6.1", "6.12")
HEADING = "## Measured beside rxe"


def parse(text):
    """{question: answer} of the lines `question: answer`; others are ignored."""
    return dict(re.findall(r"^([a-z0-9_.-]+): (.+?)\s*$", text, re.M))


def recorded(kernel):
    return parse((HERE / f"rxe-{kernel}.txt").read_text())


def documented(text):
    """{question: (cells)} of the table under HEADING: | `question` | RRDMA | rxe 6.1 | rxe 6.12 | reason |"""
    section = text.split(HEADING, 1)[1] if HEADING in text else ""
    section = re.split(r"^## ", section, maxsplit=1, flags=re.M)[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        found = re.fullmatch(r"`([^`]+)`", cells[0]) if cells else None
        if found:
            rows[found.group(1)] = cells[1:]
    return rows


def troubles(ours, theirs, text):
    """The mistakes of the document's table, given RRDMA's answers and {kernel: rxe's answers}. Empty: nothing."""
    rows, found = documented(text), []
    for question, answer in ours.items():
        others = [theirs[kernel].get(question, "not asked") for kernel in theirs]
        differs = any(other != answer for other in others)
        row = rows.pop(question, None)
        if differs and row is None:
            found.append(f"{question}: RRDMA: {answer}; rxe: {' / '.join(others)}: no row of docs/conformance.md says so")
        elif row is not None and not differs:
            found.append(f"{question}: all answer {answer}, but docs/conformance.md has a row of a difference")
        elif row is not None and (row[:-1] != [answer, *others] or not row[-1]):
            found.append(f"{question}: the row says {row}; the answers are {[answer, *others]}, and a reason")
    missing = {question for answers in theirs.values() for question in answers} - set(ours)
    return found + [f"{question}: RRDMA was not asked" for question in sorted(missing)] + [f"{question}: nobody asks that" for question in rows]


def table(ours, theirs):
    """Every question, RRDMA beside rxe, the differences marked."""
    yield "| question | RRDMA | " + " | ".join(f"rxe {kernel}" for kernel in theirs) + " | |"
    yield "|---|---|" + "---|" * len(theirs) + "---|"
    for question, answer in ours.items():
        others = [answers.get(question, "not asked") for answers in theirs.values()]
        yield f"| `{question}` | {answer} | {' | '.join(others)} | {'**differs**' if any(other != answer for other in others) else ''} |"
