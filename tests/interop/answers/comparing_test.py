"""That the comparison of answers can fail (comparing.py), and that the recorded answers are of one set of questions."""

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
