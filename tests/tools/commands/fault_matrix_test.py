# Injects every errno into every verb, and every completion status, into a pyverbs program: it must see exactly that,
# without a crash or a leak. The list comes from the command (`rrdma fault words`); a new function there fails here
# until it is called.
import pathlib
import subprocess
import unittest

import command
import surroundings
from command import RRDMA, run_json

PYTHON = "/usr/bin/python3"  # the one that Debian's pyverbs supports
PROGRAM = pathlib.Path(__file__).with_name("injected_pyverbs.py")
ERRORS = ("ENOMEM", "EAGAIN", "EIO", "ETIMEDOUT")
# Covered by fault_test.py, with a C++ program that calls all of them.
NOT_IN_PYVERBS = {"ibv_alloc_td", "ibv_dealloc_td", "ibv_reg_mr_iova", "ibv_alloc_null_mr", "ibv_modify_cq", "ibv_create_ah_from_wc",
                  "ibv_attach_mcast", "ibv_detach_mcast"}
WITHOUT_ERRNO = {"ibv_query_gid", "ibv_query_pkey"}  # pyverbs reports their return value of -1
ROUNDS = 40
# Destroyed objects keep some hundred KiB for a while. A leak of 1 KiB for each failure exceeds 2 MiB.
GROWN_MAX = 1 << 20
# With so few, a lost queue pair or region is noticed at once.
FEW = "rrdma0:max_qp=2,max_cq=2,max_mr=3,max_srq=2,max_pd=2,max_ah=2"


def injected(faults, *words, options=()):
    rules = [word for fault in faults for word in ("--faults", fault)]
    done = subprocess.run([RRDMA, "run", *options, *rules, "--", PYTHON, "-B", PROGRAM, *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


class Matrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.words = run_json("fault", "words", "--json")

    def test_without_faults_nothing_fails(self):
        self.assertEqual(injected([], "verbs"), [])

    def test_each_verb_and_each_errno(self):
        functions = self.words["functions"]
        said = injected([f"verb={name}:{error}:{nth}" for name in functions for nth, error in enumerate(ERRORS, 1)], "verbs")
        expected = {name: ["-1"] * len(ERRORS) if name in WITHOUT_ERRNO else list(ERRORS) for name in functions if name not in NOT_IN_PYVERBS}
        self.assertEqual({line.split()[0]: line.split()[1:] for line in said}, expected)

    def test_each_completion_status(self):
        statuses = self.words["statuses"]
        said = injected([f"status={name}:{nth}" for nth, name in enumerate(statuses, 1)], "statuses", str(len(statuses) + 1))
        self.assertEqual(said, [f"status {nth} state 6" for nth in range(1, len(statuses) + 1)] + ["status 0 state 3"])

    def test_nothing_is_lost_by_calls_that_fail(self):
        (grown,) = injected([f"verb={name}:EIO every=2" for name in self.words["functions"]], "rounds", str(ROUNDS), options=("--device", FEW))
        _, octets, descriptors = grown.split()
        self.assertLess(int(octets), GROWN_MAX)
        self.assertEqual(int(descriptors), 0)


if __name__ == "__main__":
    if not pathlib.Path("/usr/lib/python3/dist-packages/pyverbs").exists():
        raise SystemExit(surroundings.SKIPPED)
    surroundings.enter()
    command.main()
