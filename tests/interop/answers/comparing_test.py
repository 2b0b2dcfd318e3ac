"""That the comparison of answers can fail (comparing.py), that the recorded answers are of one set of questions, and that each
row of docs/conformance.md names what it rests on."""

import fnmatch
import re
import unittest

import comparing

TEXT = f"""{comparing.HEADING}

| question | RRDMA | rxe 6.1 | rxe 6.12 | reason |
|---|---|---|---|---|
| `b` | ok | EINVAL | EINVAL | clause |

## Next
| `c` | x | y | z | not of this table |
"""
THEIRS = {"6.1": {"a": "ok", "b": "EINVAL"}, "6.12": {"a": "ok", "b": "EINVAL"}}


# A clause, a source line, a manual page, a decision.
BASES = (r"IBTA \d+(\.\d+)+|\b[Co]\d+-\d+(\.\d+)*", r"\b[a-z0-9_/]+\.[ch]:\d+ `\w+`", r"\b[a-z_]+\(\d\)", r"\(adr/\d{4}-[a-z0-9-]+\.md\)")
QUESTION = re.compile(r"`(\.?[a-z0-9_]+(?:\.[a-z0-9_*-]+)*)`")


def rows_of(text):
    """(case, {column: cell}) of the tables before HEADING."""
    columns = []
    for line in text.split(comparing.HEADING)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| case |"):
            columns = cells
        elif line.startswith("| "):
            yield cells[0], dict(zip(columns, cells, strict=True))


def questions_in(basis, known):
    """The patterns of questions that a cell names; `.name` continues the one before. Words without a dot count if they are asked."""
    found, prefix = [], ""
    for name in QUESTION.findall(basis):
        if name.startswith("."):
            found.append(prefix + name)
        elif "." in name or name in known:
            found.append(name)
            prefix = name.split(".")[0]
    return found


def unfounded(text, known):
    """Each mistake in the bases of the tables."""
    for case, row in rows_of(text):
        basis = next(cell for column, cell in row.items() if "basis" in column)
        questions = questions_in(basis, known)
        if not questions and not any(re.search(kind, basis) for kind in BASES):
            yield f"{case}: rests on nothing: {basis}"
        for question in questions:
            if not fnmatch.filter(known, question):
                yield f"{case}: nobody asks {question}"
        for file in re.findall(r"\b[a-z0-9_/]+\.[ch]\b(?!:\d+ `)", basis):
            yield f"{case}: {file} without line and function"
        for column, cell in row.items():
            if column != "mlx5" and "unknown" in cell:
                yield f"{case}: {column} is unknown"
    if "as far as known" in text.lower():
        yield "as far as known"


class Bases(unittest.TestCase):
    ROW = "| case | RRDMA | rxe | mlx5 | reason and basis | test |\n|---|---|---|---|---|---|\n| a | b | c | unknown | {} | |\n"

    def complaints(self, basis):
        return list(unfounded(self.ROW.format(basis), {"x.y", "x.z", "one"}))

    def test_what_a_row_may_rest_on(self):
        for basis in ("IBTA 9.9.3", "C9-88", "o10-37.2.30", "core/umem.c:164 `ib_umem_get`", "`x.y`, `.z`", "`x.*`", "`one`", "ibv_close(3)",
                      "[0019](adr/0019-the-name.md)"):
            self.assertEqual(self.complaints(basis), [], basis)

    def test_what_is_no_basis(self):
        for basis in ("programs want it", "core/umem.c: `ib_umem_get`", "`x.nothing`", "`x.y`, `.nothing`", "the IBTA specification"):
            self.assertNotEqual(self.complaints(basis), [], basis)

    def test_unknown_answers_of_rxe(self):
        self.assertIn("rxe is unknown", list(unfounded(self.ROW.format("C9-88").replace("| c |", "| unknown |"), set()))[0])

    def test_the_document(self):
        text = comparing.DOCUMENT.read_text()
        self.assertGreater(len(list(rows_of(text))), 50)
        self.assertEqual(list(unfounded(text, set(comparing.recorded("6.12")))), [])


class Comparing(unittest.TestCase):
    def test_a_documented_difference_is_no_trouble(self):
        self.assertEqual(comparing.troubles({"a": "ok", "b": "ok"}, THEIRS, TEXT), [])

    def test_a_difference_without_a_row(self):
        self.assertIn("no row", comparing.troubles({"a": "ENOENT", "b": "ok"}, THEIRS, TEXT)[0])

    def test_a_row_without_a_difference(self):
        self.assertIn("has a row", comparing.troubles({"a": "ok", "b": "EINVAL"}, THEIRS, TEXT)[0])

    def test_a_row_that_says_something_else(self):
        self.assertIn("the row says", comparing.troubles({"a": "ok", "b": "ENOMEM"}, THEIRS, TEXT)[0])

    def test_a_row_without_a_reason(self):
        self.assertIn("reason", comparing.troubles({"a": "ok", "b": "ok"}, THEIRS, TEXT.replace("clause", " "))[0])

    def test_questions_that_only_one_was_asked(self):
        self.assertIn("not asked", comparing.troubles({"a": "ok"}, THEIRS, TEXT)[0])
        self.assertIn("nobody asks", comparing.troubles({}, {}, TEXT)[0])

    def test_the_recorded_answers_are_to_the_same_questions(self):
        sets = [set(comparing.recorded(kernel)) for kernel in comparing.KERNELS]
        self.assertEqual(sets[0], sets[1])
        self.assertGreater(len(sets[0]), 100)


if __name__ == "__main__":
    unittest.main()
