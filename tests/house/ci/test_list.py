#!/usr/bin/env python3
"""Compares the tests of a build with tests/house/ci/tests.txt, the list of those that CI has. A missing one is a failure: its
reason is in left-out.txt of the build. test_list.py BUILD --write writes the list anew."""

import json
import pathlib
import subprocess
import sys

LIST = pathlib.Path(__file__).with_name("tests.txt")
build = pathlib.Path(sys.argv[1])
shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
names = sorted(test["name"] for test in json.loads(shown)["tests"])
if "--write" in sys.argv:
    LIST.write_text("\n".join(names) + "\n")
    sys.exit(0)
known = LIST.read_text().split()
missing, unknown = sorted(set(known) - set(names)), sorted(set(names) - set(known))
for name in missing:
    print(f"{name} is missing from this build")
for name in unknown:
    print(f"{name} is not in tests/house/ci/tests.txt: run tests/house/ci/test_list.py BUILD --write")
reasons = build / "left-out.txt"
if missing and reasons.exists():
    print(reasons.read_text(), end="")
sys.exit(1 if missing or unknown else 0)
