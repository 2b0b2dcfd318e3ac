#!/usr/bin/env python3
"""Makes LICENSES.md: every package that package-lock.json brings, with its version and licence. With --check: fails unless
the committed list is what the lock file gives, and all licences are among those that we take."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE / "LICENSES.md"
TAKEN = {"MIT", "Apache-2.0", "BSD-3-Clause", "ISC"}
HEAD = """# Licences of what builds and tests the page

Made by `licences.py` from `package-lock.json`. Packages "in the page" are part of `dist/inspector.html` and so of `rrdma`; the others
build and test it and are distributed by nobody here.

| package | version | licence | where |
|---|---|---|---|
"""


def packages(lock):
    """(name, version, licence, whether it is in the page) of each, once."""
    found = set()
    for path, entry in lock["packages"].items():
        if path:
            name = path.rpartition("node_modules/")[2]
            found.add((name, entry["version"], entry.get("license", "unknown"), not entry.get("dev", False)))
    return sorted(found)


def text_of(found):
    return HEAD + "".join(f"| {name} | {version} | {licence} | {'in the page' if inside else 'tools'} |\n" for name, version, licence, inside in found)


def main():
    found = packages(json.loads((HERE / "package-lock.json").read_text()))
    strange = [f"{name}: {licence}" for name, _, licence, _ in found if licence not in TAKEN]
    if strange:
        sys.exit("licences that nobody has looked at: " + ", ".join(strange))
    copyright_file = (HERE.parent / "packaging/debian/copyright").read_text()
    unnamed = [name for name, _, _, inside in found if inside and name not in copyright_file]
    if unnamed:
        sys.exit("in the page, and not in packaging/debian/copyright: " + ", ".join(unnamed))
    if "--check" not in sys.argv:
        TARGET.write_text(text_of(found))
    elif not TARGET.exists() or TARGET.read_text() != text_of(found):
        missing = [name for name, version, *_ in found if f"| {name} | {version} |" not in (TARGET.read_text() if TARGET.exists() else "")]
        sys.exit(f"LICENSES.md is not what package-lock.json gives ({', '.join(missing) or 'too much is in it'}): run python3 inspector/licences.py and commit it")


if __name__ == "__main__":
    main()
