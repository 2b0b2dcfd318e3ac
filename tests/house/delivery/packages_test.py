#!/usr/bin/env python3
"""scripts/packages.txt has a name, or an explicit "-", for each package on each system, and scripts/install-packages
reads it: the names of a system, the choice of the tool, and the command that a user without root is told."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "scripts"
SYSTEMS = ("debian12", "debian13", "ubuntu22.04", "ubuntu24.04", "fedora", "rocky9", "arch")
NAME = re.compile(r"[a-z0-9][a-z0-9.+_-]+$")
# Packages of core and build that a system lacks; docs/install.md names them.
LACKS = {"ubuntu22.04": {"libtomlplusplus-dev", "prometheus-cpp-dev"}}


def table():
    """Rows as (group, words), references to groups left out."""
    group, rows = None, []
    for line in (SCRIPTS / "packages.txt").read_text().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif line and line[0] not in "#@":
            rows.append((group, line.split()))
    return rows


def names(system, *groups):
    done = subprocess.run([SCRIPTS / "install-packages", "--for", system, *groups], capture_output=True, text=True, check=True)
    return done.stdout.split()


class Table(unittest.TestCase):
    def test_every_row_is_complete(self):
        for group, words in table():
            self.assertGreaterEqual(len(words), 3, f"[{group}] {words[0]}: a name for apt, dnf and pacman")
            for word in words[:3]:
                self.assertTrue(word == "-" or NAME.match(word), f"[{group}] {word}")
            for word in words[3:]:
                system, _, name = word.partition(":")
                self.assertIn(system, SYSTEMS, f"[{group}] {word}")
                self.assertTrue(name == "-" or NAME.match(name), f"[{group}] {word}")

    def test_a_package_has_the_same_names_in_every_group(self):
        seen = {}
        for group, words in table():
            self.assertEqual(seen.setdefault(words[0], words), words, f"[{group}]")

    def test_groups_that_everybody_needs_lack_nothing(self):
        columns = {"fedora": 1, "rocky9": 1, "arch": 2}
        for group, words in table():
            if group not in ("core", "build"):
                continue
            for system in SYSTEMS:
                name = dict(word.split(":") for word in words[3:]).get(system, words[columns.get(system, 0)])
                self.assertEqual(name == "-", words[0] in LACKS.get(system, ()), f"{system} {words[0]}")

    def test_makefile_groups_exist(self):
        groups = {group for group, _ in table()}
        for line in (SCRIPTS.parent / "Makefile").read_text().splitlines():
            if used := re.match(r"\t@\$\(need\) (.*)", line):
                for word in used[1].replace("$(HOST_ARCH)", "amd64").split():
                    self.assertTrue(word[0] in ":$" or word in groups, word)


class Script(unittest.TestCase):
    def test_names_by_system(self):
        self.assertIn("libfmt-dev", names("debian12", "core"))
        self.assertIn("fmt-devel", names("fedora", "core"))
        self.assertIn("fmt", names("arch", "core"))
        self.assertIn("gcc-toolset-12-gcc-c++", names("rocky9", "core"))
        self.assertNotIn("-", names("arch", "core", "build", "test", "deb"))
        self.assertIn("libclang-rt-19-dev", names("debian13", "sanitize"))
        self.assertIn("fmt-devel", names("fedora", "build"), "@core is part of build")

    def tell(self, release, *tools):
        """The message to a user without root on a system with these tools, none of whose packages is installed."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "os-release").write_text(release)
        for tool, text in {"dpkg-query": "exit 1", "rpm": "exit 1", "pacman": 'shift; printf "%s\\n" "$@"; exit 127', "apt-get": "exit 1", "dnf": "exit 1",
                           "id": "echo 1000", "sudo": "exit 1"}.items():
            if tool in ("id", "sudo", *tools):
                (folder / tool).write_text(f"#!/bin/sh\n{text}\n")
                (folder / tool).chmod(0o755)
        for tool in ("bash", "awk", "sed", "sort", "grep", "dirname", "env", "cat"):
            (folder / tool).symlink_to(shutil.which(tool))
        return subprocess.run([SCRIPTS / "install-packages", "core"], capture_output=True, text=True,
                              env={"PATH": str(folder), "RRDMA_OS_RELEASE": str(folder / "os-release"), "HOME": os.environ.get("HOME", "/")})

    def test_the_command_for_each_tool(self):
        for release, tools, words in (("ID=debian\nVERSION_ID=12\n", ("apt-get", "dpkg-query"), ("apt-get install", "libfmt-dev")),
                                      ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", ("apt-get", "dpkg-query"), ("apt-get install", "libfmt-dev")),
                                      ("ID=fedora\nVERSION_ID=42\n", ("dnf", "rpm"), ("dnf install", "fmt-devel")),
                                      ("ID=rocky\nVERSION_ID=9.4\n", ("dnf", "rpm"), ("dnf install", "gcc-toolset-12-gcc")),
                                      ("ID=arch\n", ("pacman",), ("pacman -S", "nlohmann-json"))):
            done = self.tell(release, *tools)
            self.assertEqual(done.returncode, 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr, release)

    def test_another_system_is_left_to_the_user(self):
        done = self.tell("ID=gentoo\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no package list for this system (gentoo)", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
