# Builds a program against the built libraries with every C++ compiler of this machine, and with two of them at once:
# coroutines of different compilers must work together, and may await in conditions. Arguments: the command, the folder
# of the libraries, the source folder.
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/commands"))
import surroundings  # noqa: E402  (it knows where the harness is)
from compilers import compilers  # noqa: E402

RRDMA, LIBRARIES, SOURCES = sys.argv[1:4]
# Inline functions that were not inlined are shared by the objects.
OPTIMISED = {"main": "-O0", "service": "-O1", "conditions": "-O2"}
COMPILERS = compilers()


def output(*words, **rest):
    done = subprocess.run(words, capture_output=True, text=True, **rest)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


class Mixed(unittest.TestCase):
    def test_every_pair_of_compilers(self):
        with tempfile.TemporaryDirectory(prefix="rrdma-compilers.") as folder:
            objects = {}
            for (name, compiler), part in itertools.product(COMPILERS.items(), ("main", "service", "conditions")):
                objects[name, part] = f"{folder}/{part} {name}.o"
                output(compiler, "-std=c++20", OPTIMISED[part], f"-I{SOURCES}/include", "-c", HERE / f"compilers/{part}.cc", "-o", objects[name, part])
            for main, service in itertools.product(COMPILERS, COMPILERS):
                with self.subTest(main=main, service=service):
                    program = f"{folder}/program"
                    output(COMPILERS[main], objects[main, "main"], objects[service, "service"], objects[service, "conditions"], "-o", program,
                           f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-lrrdma-rpc", "-lrrdma-comm", "-pthread")
                    self.assertEqual(output(RRDMA, "run", "--", program, timeout=60), "all coroutines ran\n")


if __name__ == "__main__":
    if not COMPILERS:
        print("a C++ compiler is missing")
        sys.exit(surroundings.SKIPPED)
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
