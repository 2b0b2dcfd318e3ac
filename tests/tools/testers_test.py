# Tests the integrations for testers: the pytest plugin, rrdma_add_test() and the inputs of the GitHub Action, each
# with its example. Arguments: the command, the source tree. Skips parts whose program is missing.
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import command
import surroundings
from command import RRDMA

SOURCE = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")


def follow(*words, folder, **environment):
    return subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}", **environment})


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

    def test_the_action_hands_on_what_it_was_given(self):
        text = (SOURCE / "action.yml").read_text()
        script = re.search(r"Devices and faults.*?run: \|\n(.*?)\n    - name", text, re.S).group(1)
        output = pathlib.Path(self.folder, "github_env")
        done = follow("bash", "-e", "-c", script, folder=SOURCE, DEVICES="2", FAULTS="examples/testing/plan.toml", GITHUB_ENV=str(output))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("RRDMA_DEVICE_PLAN=2\n", output.read_text())
        self.assertIn("port=down", output.read_text())


if __name__ == "__main__":
    surroundings.enter()
    command.main()
