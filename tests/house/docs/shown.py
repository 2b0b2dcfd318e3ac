# Compares the output of a command with the output that a page shows. Both must be equal, numbers included, except for
# the values in VARIES: these differ between machines and runs, so only their form is compared.
import re

ANYTHING = "…"  # a line that stands for any number of lines
DECIMAL = r"\d+(?:\.\d+)?"

# Each pattern includes the words around the value, so that the same number elsewhere is compared exactly.
VARIES = (
    r"Linux \S+ on \S+",
    r"(?<![\d.])(?!127\.)\d+\.\d+\.\d+\.\d+(?![\d.])",  # addresses of the machine; loopback is the same everywhere
    r"GUID [0-9a-f]{16}",
    r"QP 0x[0-9a-f]{6}",
    r"qp 0x[0-9a-f]{6}",
    r"Queue pair (?:\(QP\) )?0x[0-9a-f]{6}",
    r"[lr]key 0x[0-9a-f]{8}",
    r"R_Key 0x[0-9a-f]{8}",
    r"address 0x[0-9a-f]{16}",
    r"psn \d+",
    rf"^\d+ {DECIMAL} (?=.* > )",  # number and time of a packet
    r"msn \d+ len \d+",  # of an acknowledgement: it depends on the packet that was lost
    rf"{DECIMAL} (?:us|seconds|usec/iter|MB/s|messages/s)(?!\w)",
    r"pid \d+, up \d+s",
    r"process \d+$",  # a PID at the end of a note
    r"^\d+ (?=rdma_server )",  # a PID
)
ANY_OF_THEM = re.compile("|".join(f"({value})" for value in VARIES))


def normal(line):
    """Without the blanks that align columns."""
    return " ".join(line.split())


def pattern(line):
    """A line of the page as a pattern for the output."""
    text, end = "", 0
    for found in ANY_OF_THEM.finditer(line):
        text += re.escape(line[end:found.start()]) + VARIES[found.lastindex - 1]
        end = found.end()
    return re.compile(text + re.escape(line[end:]))


def fits(expected, lines):
    """Whether the lines are those of the page, in their order."""
    if not expected:
        return not lines
    if expected[0] == ANYTHING:
        return any(fits(expected[1:], lines[i:]) for i in range(len(lines) + 1))
    return bool(lines) and bool(pattern(normal(expected[0])).fullmatch(normal(lines[0]))) and fits(expected[1:], lines[1:])
