#!/usr/bin/env python3
"""Tests plant.py: a patch fits the code exactly or is reported."""

import unittest

import plant

SOURCE = {"a.cc": "one\ntwo\nthree\nfour\nfive\nsix\n"}


def patch(old, new, path="a.cc"):
    """A patch that replaces the lines `old` by `new` (lists of marked lines are made from both)."""
    lines = [" " + line for line in old[:1]] + ["-" + line for line in old[1:2]] + ["+" + line for line in new] + [" " + line for line in old[2:]]
    counts = (sum(line[0] in " -" for line in lines), sum(line[0] in " +" for line in lines))
    return f"Does this.\n--- a/{path}\n+++ b/{path}\n@@ -1,{counts[0]} +1,{counts[1]} @@\n" + "\n".join(lines) + "\n"


def guarded(name):
    return f"if (planted(PlantedBug::{plant.enumerator(name)}))"


class Plant(unittest.TestCase):
    def problem(self, text, source=None):
        sources = source or SOURCE
        mutated, problems = plant.plant({"bug": text}, sources)
        if problems["bug"]:
            self.assertEqual(mutated, sources)  # left out as a whole
        return problems["bug"]

    def test_patches_are_applied_together(self):
        first, second = guarded("first_bug"), guarded("second_bug")
        mutated, problems = plant.plant({"first_bug": patch(["one", "two", "three"], [first]),
                                         "second_bug": patch(["two", "three", "four"], [second])}, SOURCE)
        self.assertEqual(problems, {"first_bug": "", "second_bug": ""})
        self.assertEqual(mutated["a.cc"], f"one\n{first}\n{second}\nfour\nfive\nsix\n")

    def test_line_numbers_may_drift(self):
        self.assertEqual(self.problem(patch(["four", "five", "six"], [guarded("bug")])), "")

    def test_changed_code_is_reported(self):
        self.assertIn("0 places", self.problem(patch(["one", "2", "three"], [guarded("bug")])))

    def test_two_places_are_reported(self):
        twice = {"a.cc": SOURCE["a.cc"] * 2}
        self.assertIn("2 places", self.problem(patch(["one", "two", "three"], [guarded("bug")]), twice))

    def test_an_unknown_file_is_reported(self):
        self.assertIn("b.cc", self.problem(patch(["one", "two", "three"], [guarded("bug")], path="b.cc")))

    def test_a_patch_without_its_switch_is_reported(self):
        self.assertIn("kBug", self.problem(patch(["one", "two", "three"], [guarded("other")])))

    def test_a_truncated_patch_is_reported(self):
        self.assertIn("incomplete", self.problem(patch(["one", "two", "three"], [guarded("bug")]).replace(" three\n", "")))

    def test_two_patches_of_one_line_are_reported(self):
        _, problems = plant.plant({name: patch(["one", "two", "three"], [guarded(name)]) for name in ("one_bug", "two_bug")}, SOURCE)
        self.assertEqual(problems["one_bug"], "")
        self.assertIn("same line", problems["two_bug"])

    def test_the_header_names_every_patch(self):
        text = plant.header({"lose_completion": "", "forget_fence": 'fits at 0 places: f("x")'})
        self.assertIn("{ kNone, kLoseCompletion, kForgetFence }", text)
        self.assertIn('{PlantedBug::kForgetFence, "forget_fence", "fits at 0 places: f(\\"x\\")"},', text)


if __name__ == "__main__":
    unittest.main()
