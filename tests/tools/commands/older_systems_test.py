# Checks that the products load on Ubuntu 22.04: no symbol version is newer than that system's libraries. Arguments:
# the command; rrdmad and the library are beside it. With the headers of glibc 2.38 and newer, strtoul() itself is a
# newer symbol, so a build on such a system (Debian 13) makes no promise.
import os
import re
import subprocess
import unittest

import command
from command import RRDMA

# Ubuntu 22.04: glibc 2.35, libstdc++ and libgcc of GCC 12. Ubuntu 24.04 and Debian 12 are newer.
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
GLIBC = tuple(map(int, re.findall(r"\d+", os.confstr("CS_GNU_LIBC_VERSION"))))
FOLDER = os.path.dirname(os.path.dirname(RRDMA))
PRODUCTS = ("bin/rrdma", "bin/rrdmad", "lib/librrdma.so.1", "lib/librrdma-memory.so.1")


def needed_versions(path):
    """The versions of symbols that a file imports, by family."""
    listed = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        if "*UND*" not in line:
            continue
        for family, number in re.findall(r"\b(GLIBCXX|GLIBC|CXXABI|GCC)_([0-9.]+)", line):
            found.setdefault(family, set()).add(tuple(map(int, number.split("."))))
    return found


class OlderSystems(unittest.TestCase):
    @unittest.skipIf(GLIBC >= (2, 38), "built with headers of glibc 2.38 or newer")
    def test_symbol_versions(self):
        for product in PRODUCTS:
            found = needed_versions(os.path.join(FOLDER, product))
            self.assertIn("GLIBC", found, product)
            for family, versions in found.items():
                self.assertLessEqual(max(versions), NEWEST[family], f"{product} needs {family}_{'.'.join(map(str, max(versions)))}")

    def test_a_newer_one_is_found(self):
        self.assertGreater((2, 36), NEWEST["GLIBC"])
        self.assertGreater((3, 4, 31), NEWEST["GLIBCXX"])


if __name__ == "__main__":
    command.main()
