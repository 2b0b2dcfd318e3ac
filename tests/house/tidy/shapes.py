"""The shapes in a C++ source: classes with their bases, functions with their length. It matches braces in code
without comments and literals, and tells from the text before a brace what it opens. It knows no types and expands
no macros; for the layout of this tree that is enough."""

import re
from dataclasses import dataclass

BRACES = re.compile(r"[{}();]")
SCOPE = re.compile(r"^(inline\s+)?namespace\b|^extern\s*$")
CLASS = re.compile(r"^(typedef\s+)?(class|struct|union)\b")
FUNCTION_END = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&|\s)*(->[^()]*)?$")


@dataclass
class Shape:
    kind: str  # "class" or "function"
    name: str
    line: int  # where it begins
    lines: int  # up to its closing brace
    bases: int = 0


def without_preprocessor(code):
    """Directives with their continuations blanked."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: "\n" * match.group(0).count("\n"), code, flags=re.MULTILINE)


def without_angles(text):
    """Removes <...>, from the inside out: templates and their arguments."""
    while (shorter := re.sub(r"<[^<>;{}]*>", "", text)) != text:
        text = shorter
    return text


def bases_of(head):
    """Of `class Name final : public A, private B`: two."""
    parts = re.split(r"(?<!:):(?!:)", without_angles(head), maxsplit=1)
    return parts[1].count(",") + 1 if len(parts) == 2 else 0


def kind_of(head):
    """The kind of thing that a brace after `head` opens: a scope to look into, a class, a function, or something else."""
    bare = re.sub(r"^(template\s*|requires\b[^{}]*?(?=\b(class|struct|union)\b))+", "", without_angles(head).strip())
    bare = re.sub(r"\[\[[^\]]*\]\]", "", bare).strip()
    if SCOPE.match(bare):
        return "scope"
    if CLASS.match(bare) and not FUNCTION_END.search(bare):
        return "class"
    if bare.startswith("enum") or bare.endswith(("=", ",", "(", "return")) or "(" not in bare:
        return "other"
    return "function"


def name_of(head, kind):
    bare = without_angles(head)
    if kind == "class":
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"alignas\s*\([^)]*\)|\bfinal\b", "", re.split(r"(?<!:):(?!:)", bare)[0]))
        return words[-1] if words else "?"
    match = re.search(r"([~\w:]+(?:\s*operator\s*[^\s(]+)?)\s*\(", bare)
    return match.group(1) if match else "?"


def closing(code, opening):
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for match in re.finditer(r"[{}]", code[opening:]):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return opening + match.start()
    return len(code)


def shapes(code):
    """All classes, and all functions that stand at namespace or class scope, of code without comments and literals."""
    code = without_preprocessor(code)
    found = []
    begin, position = 0, 0  # of the head that is being read; of the search
    depth = 0  # of parentheses
    while match := BRACES.search(code, position):
        position = match.end()
        token = match.group(0)
        if token in "()":
            depth = max(0, depth + (1 if token == "(" else -1))
        elif token in ";}" and depth == 0:
            begin = position
        elif token == "{":
            head = re.sub(r"\b(public|private|protected)\s*:(?!:)", lambda m: " " * len(m.group(0)), code[begin:match.start()])
            attached = not head[-1:].isspace()  # a value, such as a member's in `A::A() : b_{1} {`
            kind = "other" if depth or attached else kind_of(head)
            if kind in ("class", "function"):
                start = begin + len(head) - len(head.lstrip())
                line = code.count("\n", 0, start) + 1
                end = closing(code, match.start())
                lines = code.count("\n", 0, end) + 2 - line
                found.append(Shape(kind, name_of(head, kind), line, lines, bases_of(head) if kind == "class" else 0))
            if kind in ("scope", "class"):
                begin = position
            else:
                position = min(len(code), closing(code, match.start()) + 1)
                begin = position if kind == "function" else begin
    return found
