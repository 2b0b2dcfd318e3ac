# Tests the installed librrdma-comm: its exports, and projects built against it with find_package and pkg-config, after
# the installed tree was moved. The programs run without `rrdma run` and without any environment variable.
# Arguments: the library, the build folder.
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/commands"))
import surroundings  # noqa: E402  (it knows where the harness is)
from compilers import one_of_each_kind  # noqa: E402

LIBRARY, BUILD = sys.argv[1:3]


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

    def test_loads_verbs_itself(self):
        # RRDMA could not come first in a library that is linked with verbs; see docs/adr/0030.
        said = output("readelf", "-d", LIBRARY)
        needed = re.findall(r"NEEDED.*\[(.*)\]", said)
        self.assertEqual({name for name in needed if name.startswith(("libib", "librdma", "librrdma"))}, set())
        self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", said), ["librrdma-comm.so.0"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-consumer."))
        cls.prefix = cls.folder / "moved/here"
        cls.prefix.parent.mkdir()
        output("cmake", "--install", BUILD, "--prefix", cls.folder / "prefix")
        (cls.folder / "prefix").rename(cls.prefix)
        cls.compilers = one_of_each_kind()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def runs(self, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**environment, "RRDMA_COMM_DEBUG": "1"})
        self.assertEqual((done.returncode, done.stdout), (0, "rrdma0\n"), done.stderr)
        return done.stderr

    def test_find_package(self):
        for number, compiler in enumerate(self.compilers):
            with self.subTest(compiler=compiler):
                build = self.folder / f"build{number}"
                output("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                       f"-DCMAKE_CXX_COMPILER={compiler}")
                output("cmake", "--build", build)
                said = self.runs(build / "consumer")
                self.assertRegex(said, f"device rrdma0, in software, implemented by {self.prefix}/.*librrdma.so.1")
                self.runs(build / "devices")

    def test_pkg_config(self):
        where = {**os.environ, "PKG_CONFIG_PATH": str(next(self.prefix.rglob("rrdma-comm.pc")).parent)}
        for compiler in self.compilers:
            for module, source in (("rrdma-comm", "consumer.cc"), ("rrdma-device", "devices.cc")):
                with self.subTest(compiler=compiler, module=module):
                    flags = output("pkg-config", "--cflags", "--libs", module, env=where).split()
                    libraries = output("pkg-config", "--variable=libdir", module, env=where).strip()
                    program = self.folder / "by_pkg_config"
                    output(compiler, "-std=c++20", HERE / "consumer" / source, "-o", program, *flags, f"-Wl,-rpath,{libraries}",
                           "-libverbs", "-pthread")
                    self.runs(program)

    def test_no_fixed_place(self):
        for file in (*self.prefix.rglob("*.pc"), *self.prefix.rglob("rrdma-*.cmake")):
            self.assertNotIn("/usr/local", file.read_text(), file)
            self.assertNotIn(str(self.folder), file.read_text(), file)

    def test_only_hardware_if_the_program_asks_for_it(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("this machine has RDMA devices")
        program = self.folder / "hardware"
        libraries = next(self.prefix.rglob("librrdma-comm.so.0")).parent
        output(self.compilers[0], "-std=c++20", HERE / "consumer/consumer.cc", "-o", program, f"-I{self.prefix}/include",
               f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lrrdma-comm", "-pthread")
        done = subprocess.run([program, "hardware"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no RDMA device", done.stderr)

    def test_the_command_of_rpc(self):
        if not (self.prefix / "bin/rrdma-rpc").exists():
            self.skipTest("rrdma-rpc was not built")
        done = subprocess.run([self.prefix / "bin/rrdma", "rpc", "list", "10.9.0.1:7999"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("refused", done.stdout + done.stderr)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
