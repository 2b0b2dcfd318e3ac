# Each promise of SECURITY.md names tests that exist: ctest names (tests/house/ci/tests.txt), files, test classes in files,
# rules of tidy and targets of make. Each attacker has a group of promises in the table. Argument: the source tree.
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
PAGE = (SOURCE / "SECURITY.md").read_text(encoding="utf-8")
KNOWN = set((SOURCE / "tests/house/ci/tests.txt").read_text(encoding="utf-8").split())
ROW = re.compile(r"^\| (.+?) \| (.*?) ?\|$", re.M)
# A reference, with the classes or cases that it names in parentheses.
REFERENCE = re.compile(r"`([^`]+)`(?: \(((?:`[^`]+`(?:, )?)+)\))?")
# The sources of tests by ctest name.
FILES = {"hostile": "tests/programs/hostile/hostile_test.py", "process.unmapped": "tests/programs/process/unmapped_test.py"}
RULES = (SOURCE / "tests/house/tidy/rules.toml").read_text(encoding="utf-8")


def table():
    """[(group, promise, tests)]"""
    part = PAGE.split("## Tests\n", 1)[1]
    rows, group = [], ""
    for promise, tests in ROW.findall(part):
        if promise.startswith("**"):
            group = promise.strip("*")
        elif promise != "promise" and not promise.startswith("---"):
            rows.append((group, promise, tests))
    return rows


def files_of(name):
    """The sources that a reference names; None if it names none."""
    if name in FILES:
        return [SOURCE / FILES[name]]
    if "/" in name:
        return [path for path in SOURCE.glob(name.rstrip("/")) if path.is_file() or path.is_dir()]
    return None


def exists(name):
    if name.startswith("make "):
        return re.search(rf"^{name[5:]}:", (SOURCE / "Makefile").read_text(encoding="utf-8"), re.M) is not None
    files = files_of(name)
    if files is not None:
        return bool(files)
    if name.endswith(".*"):
        return any(known.startswith(name[:-1]) for known in KNOWN)
    return name in KNOWN or (name.startswith(".") and f"fuzz.replay{name}" in KNOWN)


def missing(tests):
    """The names in a cell that the tree does not have."""
    for rule in re.findall(r"the rule `(\w+)` of `tidy`", tests):
        if rule not in RULES:
            yield rule
    tests = re.sub(r"the rule `\w+` of `tidy`", "", tests)
    for name, inside in REFERENCE.findall(tests):
        if not exists(name):
            yield name
            continue
        texts = [path.read_text(encoding="utf-8") for path in files_of(name) or [] if path.is_file()]
        for part in re.findall(r"`([^`]+)`", inside):
            if not any(re.search(rf"\b{part}\b", text) for text in texts):
                yield f"{part} in {name}"


class Security(unittest.TestCase):
    def test_each_promise_has_tests_that_exist(self):
        rows = table()
        self.assertGreater(len(rows), 30)
        for group, promise, tests in rows:
            with self.subTest(group=group, promise=promise):
                self.assertRegex(tests, "`[^`]+`", "a promise without a test")
                self.assertEqual(list(missing(tests)), [])

    def test_each_attacker_has_promises(self):
        groups = {group for group, _, _ in table()}
        attackers = PAGE.split("## Attackers\n", 1)[1].split("\n## ", 1)[0]
        for part in attackers.split("\n### ")[1:]:
            name, _, text = part.partition("\n")
            promised = re.split(r"\n+Not promised:", text)[0].count("\n- ")
            if "Promised:" in text:
                rows = [row for row in table() if row[0] == name.strip()]
                self.assertGreaterEqual(len(rows), min(promised, 4), name)  # some rows hold several promises
        self.assertGreaterEqual(len(groups), 4)

    def test_each_hostile_test_holds_a_promise(self):
        told = PAGE.split("## Tests\n", 1)[1]
        for name in sorted(KNOWN):
            if name.startswith("hostile.") and name != "hostile.soak":
                self.assertIn(f"`{name}`", told, name)

    def test_it_can_fail(self):
        self.assertEqual(list(missing("`hostile.nothing`, `src/none_test.cc`, `hostile` (`Nobody`)")),
                         ["hostile.nothing", "src/none_test.cc", "Nobody in hostile"])


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
