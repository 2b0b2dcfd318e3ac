# Tests the integrations for testers: the pytest plugin, rrdma_add_test() and the inputs of the GitHub Action, each
# with its example. Arguments: the command, the source tree. Skips parts whose program is missing.
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import command
import surroundings
from command import RRDMA

SOURCE = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")


def follow(*words, folder, **environment):
    return subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}", **environment})


def as_github_reads(text):
    """The variables of a GITHUB_ENV file: lines NAME=VALUE, or NAME<<END, lines, END."""
    variables, lines = {}, iter(text.splitlines())
    for line in lines:
        if "<<" in line and "=" not in line.split("<<")[0]:
            name, end = line.split("<<", 1)
            variables[name] = "\n".join(iter(lambda: next(lines), end))  # noqa: B023
        else:
            name, value = line.split("=", 1)
            variables[name] = value
    return variables


class Testers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest")
    def test_the_plugin_and_its_example(self):
        shutil.copy(SOURCE / "examples/testing/test_failover.py", self.folder)
        done = follow(sys.executable, "-B", "-m", "pytest", "-q", "-p", "pytest_rrdma", "-p", "no:cacheprovider", folder=self.folder,
                      PYTHONPATH=str(SOURCE / "packaging/pytest"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 passed", done.stdout)

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest")
    def test_a_failed_test_shows_what_rrdma_knows(self):
        """The first test fails of an injected fault, the second passes and leaves nothing."""
        pathlib.Path(self.folder, "test_report.py").write_text(textwrap.dedent("""
            import pytest
            @pytest.mark.rrdma(faults=["verb=ibv_create_cq:ENOMEM"], options=["--link", "udp"])
            def test_red(rrdma):
                assert rrdma.run("ibv_rc_pingpong", "-g", "1").returncode == 0
            def test_green(rrdma):
                assert rrdma.run("true").returncode == 0
            """))
        done = follow(sys.executable, "-B", "-m", "pytest", "-q", "-p", "pytest_rrdma", "-p", "no:cacheprovider", "--rrdma-report", "report",
                      folder=self.folder, PYTHONPATH=str(SOURCE / "packaging/pytest"))
        self.assertIn("1 failed, 1 passed", done.stdout, done.stderr)
        self.assertIn("rrdma explain", done.stdout)
        self.assertIn("ENOMEM", done.stdout)
        self.assertEqual(list(pathlib.Path(self.folder, "report").glob("*green*")), [])

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest")
    def test_a_failed_test_leaves_the_inspectors_page(self):
        pathlib.Path(self.folder, "test_page.py").write_text(textwrap.dedent("""
            import time
            def test_red(rrdma):
                server = rrdma.start("ibv_rc_pingpong", "-g", "1", "-n", "50", "-p", "18731")
                for _ in range(50):
                    client = rrdma.run("ibv_rc_pingpong", "-g", "1", "-n", "50", "-p", "18731", "localhost")
                    if client.returncode == 0:
                        break
                    time.sleep(0.1)
                assert client.returncode != 0, "on purpose"
            """))
        done = follow(sys.executable, "-B", "-m", "pytest", "-q", "-p", "pytest_rrdma", "-p", "no:cacheprovider", folder=self.folder,
                      PYTHONPATH=str(SOURCE / "packaging/pytest"), RRDMA_REPORT=str(pathlib.Path(self.folder, "report")))
        pages = list(pathlib.Path(self.folder, "report").glob("*test_red.html"))
        self.assertEqual(len(pages), 1, done.stdout + done.stderr)
        self.assertIn('id="capture"', pages[0].read_text())
        self.assertIn(str(pages[0].resolve()), done.stdout)

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest")
    def test_pytest_itself_as_the_program(self):
        pathlib.Path(self.folder, "test_own.py").write_text(
            "import os\ndef test_devices():\n    assert sorted(os.listdir('/sys/class/infiniband'))[:2] == ['rrdma0', 'rrdma1']\n")
        done = follow(sys.executable, "-B", "-m", "pytest", "-q", "-p", "pytest_rrdma", "-p", "no:cacheprovider", "--rrdma-devices", "2",
                      folder=self.folder, PYTHONPATH=str(SOURCE / "packaging/pytest"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_ctest(self):
        made = follow("cmake", "-S", SOURCE / "examples/testing", "-B", self.folder, f"-DCMAKE_MODULE_PATH={SOURCE / 'cmake'}",
                      f"-DRRDMA_COMMAND={RRDMA}", folder=self.folder)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        done = follow("ctest", "--output-on-failure", folder=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_ctest_tells_why(self):
        pathlib.Path(self.folder, "CMakeLists.txt").write_text(textwrap.dedent("""
            cmake_minimum_required(VERSION 3.20)
            project(report NONE)
            enable_testing()
            include(RrdmaTest)
            rrdma_add_test(NAME red COMMAND ibv_rc_pingpong -g 1 FAULTS verb=ibv_create_cq:ENOMEM REPORT report)
            rrdma_add_test(NAME status COMMAND sh -c "exit 77")
            set_tests_properties(status PROPERTIES SKIP_RETURN_CODE 77)
            """))
        made = follow("cmake", "-S", self.folder, "-B", f"{self.folder}/build", f"-DCMAKE_MODULE_PATH={SOURCE / 'cmake'}", f"-DRRDMA_COMMAND={RRDMA}", folder=self.folder)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        done = follow("ctest", "--output-on-failure", folder=f"{self.folder}/build")
        self.assertIn("---- rrdma explain ----", done.stdout)
        self.assertIn("ENOMEM", done.stdout)
        self.assertIn("Skipped", done.stdout)
        self.assertIn("ENOMEM", pathlib.Path(self.folder, "build/report/red.explain.txt").read_text())

    def test_the_action_hands_on_what_it_was_given(self):
        text = (SOURCE / "action.yml").read_text()
        script = re.search(r"Devices and faults.*?run: \|\n(.*?)\n    - name", text, re.S).group(1)
        output = pathlib.Path(self.folder, "github_env")
        done = follow("bash", "-e", "-c", textwrap.dedent(script), folder=SOURCE, DEVICES="2", FAULTS="examples/testing/plan.toml", GITHUB_ENV=str(output))
        self.assertEqual(done.returncode, 0, done.stderr)
        given = as_github_reads(output.read_text())
        self.assertEqual(given["RRDMA_DEVICE_PLAN"], "2")
        self.assertIn("port=down", given["RRDMA_FAULTS"])

    def test_an_input_of_the_action_is_a_value_and_nothing_else(self):
        """Neither a part of a script, nor another variable of later steps."""
        text = (SOURCE / "action.yml").read_text()
        for script in re.findall(r"run: (\|\n(?:        .*\n)+|.*)", text):
            self.assertNotIn("${{", script)
        script = re.search(r"Devices and faults.*?run: \|\n(.*?)\n    - name", text, re.S).group(1)
        output = pathlib.Path(self.folder, "github_env")
        folder = pathlib.Path(self.folder, "bin")
        folder.mkdir()
        # A command that says what a hostile input could make it say.
        hostile = {"RRDMA_FAULTS": "drop=1%\nLD_PRELOAD=/tmp/evil.so\nPATH<<END\n/tmp\nEND", "RRDMA_DEVICE_PLAN": "1"}
        (folder / "rrdma").write_text(f"#!/bin/sh\ncat <<'X'\n{json.dumps(hostile)}\nX\n")
        (folder / "rrdma").chmod(0o755)
        done = subprocess.run(["bash", "-e", "-c", textwrap.dedent(script)], cwd=SOURCE, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DEVICES": "1", "FAULTS": "x", "GITHUB_ENV": str(output)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(as_github_reads(output.read_text()), hostile)
        # make expands what it is given, and its recipes are scripts again.
        install = re.search(r"Build and install.*?run: \|\n(.*?)\n    - name", text, re.S).group(1)
        (folder / "sudo").write_text(f"#!/bin/sh\ntouch {folder}/installed\n")
        (folder / "sudo").chmod(0o755)
        for prefix, good in (("/opt/rrdma-1.0", True), ("$(shell id)", False), ("/tmp;id", False), ("/tmp\nid", False), ("", False)):
            done = subprocess.run(["bash", "-e", "-c", textwrap.dedent(install)], cwd=SOURCE, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PREFIX": prefix, "GITHUB_ACTION_PATH": "."})
            self.assertEqual((done.returncode == 0, (folder / "installed").exists()), (good, good), prefix)
            (folder / "installed").unlink(missing_ok=True)


if __name__ == "__main__":
    surroundings.enter()
    command.main()
