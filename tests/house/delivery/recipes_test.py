#!/usr/bin/env python3
"""The recipes in packaging/ and the workflows: every one names the version of CMakeLists.txt and the dependencies of the
build, and its syntax is right as far as a program of this machine can tell."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PACKAGING = SOURCE / "packaging"
VERSION = re.search(r"project\(rrdma VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
VERSIONED = {
    "debian/changelog": rf"^rrdma \({re.escape(VERSION)}\)",
    "pytest/pyproject.toml": rf'^version = "{re.escape(VERSION)}"',
    "rpm/rrdma.spec": rf"^Version:\s+{re.escape(VERSION)}$",
    "nix/default.nix": rf'version = "{re.escape(VERSION)}";',
    "conda/meta.yaml": rf"^  version: {re.escape(VERSION)}$",
    "vcpkg/vcpkg.json": rf'"version-semver": "{re.escape(VERSION)}"',
    "../python/pyproject.toml": rf'^version = "{re.escape(VERSION)}"',
    "../python/rrdma/__init__.py": rf'^__version__ = "{re.escape(VERSION)}"',
    "conan/conanfile.py": rf'^    version = "{re.escape(VERSION)}"',
}
# Dependencies of the device and of the libraries, by a pattern that every recipe of a whole build must match.
WHOLE = ("cli11", "fmt", "isa-l", "json", "libevent", "libnl", "liburing", "openssl", "prometheus-cpp", "protobuf", "rdma-core", "tomlplusplus", "zlib")
LIBRARIES = ("cli11", "openssl", "prometheus-cpp", "protobuf")


def dnf_names():
    listed = subprocess.run([SOURCE / "scripts/install-packages", "--for", "fedora", "build"], capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split() if name.endswith("-devel") and name not in ("gtest-devel", "google-benchmark-devel")}


class Recipes(unittest.TestCase):
    def test_version(self):
        for path, pattern in VERSIONED.items():
            self.assertRegex((PACKAGING / path).read_text(), re.compile(pattern, re.M), path)

    def test_changelog_has_the_version_with_its_date(self):
        text = (SOURCE / "CHANGELOG.md").read_text()
        self.assertRegex(text, re.compile(rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", re.M))

    def test_dependencies(self):
        for path, names in (("nix/default.nix", WHOLE), ("conda/meta.yaml", WHOLE), ("vcpkg/vcpkg.json", LIBRARIES), ("conan/conanfile.py", LIBRARIES)):
            text = (PACKAGING / path).read_text()
            for name in names:
                self.assertIn(name, text, path)
        required = set(re.findall(r"^BuildRequires:\s+(\S+)", (PACKAGING / "rpm/rrdma.spec").read_text(), re.M))
        self.assertLessEqual(dnf_names(), required)

    def test_conan_exports_the_files_that_the_build_reads(self):
        text = (PACKAGING / "conan/conanfile.py").read_text()
        for folder in ("lib", "include", "cmake"):
            self.assertIn(f'"{folder}/*"', text)

    def test_json_and_python(self):
        json.loads((PACKAGING / "vcpkg/vcpkg.json").read_text())
        compile((PACKAGING / "conan/conanfile.py").read_text(), "conanfile.py", "exec")

    def check(self, program, *words, status=0):
        if shutil.which(program) is None:
            self.skipTest(f"no {program}")
        done = subprocess.run([program, *words], cwd=SOURCE, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_rpmlint(self):
        self.check("rpmlint", "-c", "packaging/rpm/rpmlint.toml", "packaging/rpm/rrdma.spec")

    def test_yamllint(self):
        rules = "{extends: default, rules: {line-length: {max: 160}, truthy: disable, document-start: disable, comments: disable, braces: disable}}"
        files = ["action.yml", *map(str, sorted((SOURCE / ".github/workflows").glob("*.yml")))]
        self.check("yamllint", "-s", "-d", rules, *files)

    def test_conda_is_yaml_once_its_templates_are_filled_in(self):
        if shutil.which("yamllint") is None:
            self.skipTest("no yamllint")
        text = re.sub(r"\{\{.*?\}\}", "x", (PACKAGING / "conda/meta.yaml").read_text())
        done = subprocess.run(["yamllint", "-d", "{extends: relaxed, rules: {line-length: disable}}", "-"], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_vcpkg_names_options_that_exist(self):
        cmake = (SOURCE / "CMakeLists.txt").read_text()
        for path in ("vcpkg/portfile.cmake", "conan/conanfile.py", "conda/meta.yaml", "nix/default.nix", "rpm/rrdma.spec"):
            for option in re.findall(r"RRDMA_[A-Z]+\b(?!_)", (PACKAGING / path).read_text()):
                self.assertIn(f"option({option} ", cmake, path)


if __name__ == "__main__":
    sys.exit(unittest.main())
