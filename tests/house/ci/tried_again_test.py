#!/usr/bin/env python3
"""The log of a run that tries failed tests again, read by .ci/tried-again: whose names come out."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / ".ci/tried-again"
LOG = """\
    Start 1: flaky.one
1/5 Test #1: flaky.one ........................***Failed    0.10 sec
1/5 Test  #2: good .............................   Passed    0.06 sec
    Test #1: flaky.one ........................   Passed    0.04 sec
3/5 Test #4: bad ..............................***Failed    0.01 sec
    Test #4: bad ..............................***Failed    0.00 sec
5/5 Test #15: slow.to.start ...................***Timeout   1.13 sec
    Test #15: slow.to.start ....................   Passed    0.00 sec

The following tests FAILED:
\t  4 - bad (Failed)
"""


class TriedAgain(unittest.TestCase):
    def names(self, log):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(log)
            file.flush()
            return subprocess.run([SCRIPT, file.name], capture_output=True, text=True, check=True).stdout.split()

    def test_only_who_failed_and_then_passed(self):
        self.assertEqual(self.names(LOG), ["flaky.one", "slow.to.start"])

    def test_nobody(self):
        self.assertEqual(self.names("1/1 Test #1: good ....   Passed    0.06 sec\n"), [])
        self.assertEqual(self.names(""), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
