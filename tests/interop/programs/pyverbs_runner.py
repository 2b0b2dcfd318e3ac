"""Runs rdma-core's Python tests from the given folder, and writes one line for each:
started|passed|skipped|failed|error <tab> name <tab> reason. Runs inside `rrdma run`, or beside a kernel's device.

  pyverbs_runner.py FOLDER GID_INDEX [DEVICE]
"""
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader


class Report(unittest.TestResult):
    def line(self, what, test, reason=""):
        print(what, test.id() if hasattr(test, "id") else str(test), " ".join(str(reason).split()), sep="\t", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.line("started", test)

    def addSuccess(self, test):
        self.line("passed", test)

    def addSkip(self, test, reason):
        self.line("skipped", test, reason)

    def addFailure(self, test, error):
        self.line("failed", test, self._exc_info_to_string(error, test))

    def addError(self, test, error):
        self.line("error", test, self._exc_info_to_string(error, test))


def main():
    folder, gid, device = (*sys.argv[1:], "rrdma0")[:3]
    sys.argv = ["run_tests.py", "--dev", device, "--port", "1", "--gid", gid]
    sys.path.insert(0, folder)
    from args_parser import parser
    tests = SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
    parser.parse_args()
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(Report())


if __name__ == "__main__":
    main()
