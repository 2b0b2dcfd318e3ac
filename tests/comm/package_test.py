# Tests the installed librrdma-comm: its exports, and a project built against it with find_package and pkg-config.
# Arguments: the command, the library, the build folder, the C++ compiler.
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import surroundings

RRDMA, LIBRARY, BUILD, COMPILER = sys.argv[1:5]


def output(*words, **rest):
    done = subprocess.run(words, capture_output=True, text=True, **rest)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


class Exports(unittest.TestCase):
    def symbols(self):
        for line in output("nm", "-DC", "--defined-only", LIBRARY).splitlines():
            found = re.match(r"[0-9a-f]+ (\w) (.*)", line)
            if found and not found[2].startswith(".L"):
                yield found[1], found[2]

    def test_only_what_is_ours_and_of_this_version(self):
        ours = 0
        for kind, name in self.symbols():
            plain = re.sub(r"^(vtable|typeinfo name|typeinfo|VTT|non-virtual thunk|virtual thunk) (for|to) ", "", name)
            if plain.startswith("rrdma::comm::v0::"):
                ours += 1
                continue
            # Instantiated templates of the standard library are visible and weak.
            self.assertTrue(kind in "WVu" and "std::" in plain, f"{kind} {name}")
        self.assertGreater(ours, 100)

    def test_nothing_of_what_is_behind_it(self):
        for _, name in self.symbols():
            self.assertNotRegex(name, r"::(Reactor|EndpointState|ListenerState|PoolState|DatagramState|StopInbox)::")

    def test_needs_verbs_and_nothing_of_the_nic(self):
        said = output("readelf", "-d", LIBRARY)
        needed = re.findall(r"NEEDED.*\[(.*)\]", said)
        self.assertEqual({name for name in needed if name.startswith(("libib", "librdma", "librrdma"))},
                         {"libibverbs.so.1", "librdmacm.so.1"})
        self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", said), ["librrdma-comm.so.0"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-consumer."))
        cls.prefix = cls.folder / "prefix"
        for component in ("comm", "comm-dev"):
            output("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def runs(self, program):
        libraries = str(next(self.prefix.rglob("librrdma-comm.so.0")).parent)
        said = output(RRDMA, "run", "--", program, env={**os.environ, "LD_LIBRARY_PATH": libraries})
        self.assertEqual(said, "rrdma0\n")

    def test_find_package(self):
        build = self.folder / "build"
        output("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
               f"-DCMAKE_CXX_COMPILER={COMPILER}")
        output("cmake", "--build", build)
        self.runs(build / "consumer")

    def test_pkg_config(self):
        where = str(next(self.prefix.rglob("rrdma-comm.pc")).parent)
        # Use the prefix of this installation, not the one that the build was configured for.
        flags = output("pkg-config", f"--define-variable=prefix={self.prefix}", "--cflags", "--libs", "rrdma-comm",
                       env={**os.environ, "PKG_CONFIG_PATH": where}).split()
        program = self.folder / "by_pkg_config"
        output(COMPILER, "-std=c++20", HERE / "consumer/consumer.cc", "-o", program, *flags)
        self.runs(program)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
