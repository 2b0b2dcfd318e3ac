# Tests the installed librrdma-rpc: its exports and dependencies, and a project with a .proto built against it.
# Arguments: the command, the library, the build folder.
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
from peers import ended  # noqa: E402

RRDMA, LIBRARY, BUILD = sys.argv[1:4]
COMPILERS = one_of_each_kind()


def output(*words, **rest):
    done = subprocess.run(words, capture_output=True, text=True, **rest)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


class Exports(unittest.TestCase):
    def test_only_what_is_ours_and_of_this_version(self):
        ours, of_c = 0, set()
        for line in output("nm", "-DC", "--defined-only", LIBRARY).splitlines():
            found = re.match(r"[0-9a-f]+ (\w) (.*)", line)
            if not found or found[2].startswith(".L"):
                continue
            plain = re.sub(r"^(vtable|typeinfo name|typeinfo|VTT|non-virtual thunk|virtual thunk) (for|to) ", "", found[2])
            if plain.startswith("rrdma::rpc::v0::"):
                ours += 1
                continue
            if plain.startswith("rrdma_rpc_"):
                self.assertTrue(plain.endswith("@@RRDMA_RPC_C_1"), line)
                of_c.add(plain.split("@")[0])
                continue
            if plain == "RRDMA_RPC_C_1":
                continue
            # Instantiated templates of the libraries below are visible and weak.
            self.assertTrue(found[1] in "WVu" and re.search(r"std::|rrdma::comm::v0::|prometheus::", plain), line)
        self.assertGreater(ours, 50)
        declared = re.findall(r"\b(rrdma_rpc_\w+)\(", (HERE.parents[2] / "include/rrdma/rpc/c.h").read_text())
        self.assertEqual(of_c, set(declared))

    def test_needs_neither_verbs_nor_protobuf_nor_the_nic(self):
        said = output("readelf", "-d", LIBRARY)
        needed = re.findall(r"NEEDED.*\[(.*)\]", said)
        self.assertEqual({name for name in needed if name.startswith(("libib", "librdma", "librrdma", "libproto"))}, {"librrdma-comm.so.0"})
        self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", said), ["librrdma-rpc.so.0"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-consumer."))
        cls.prefix = cls.folder / "prefix"
        output("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_find_package_and_a_proto(self):
        libraries = str(next(self.prefix.rglob("librrdma-rpc.so.0")).parent)
        for number, compiler in enumerate(COMPILERS):
            with self.subTest(compiler=compiler):
                build = self.folder / f"consumer{number}"
                output("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
                output("cmake", "--build", build)
                said = output(RRDMA, "run", "--", build / "consumer", env={**os.environ, "LD_LIBRARY_PATH": libraries})
                self.assertEqual(said, "hello, stranger\n")

    def test_the_example_project(self):
        """examples/rpc/shapes, built outside of the source tree with each compiler, as docs/learn/6-rpc.md tells it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        for number, compiler in enumerate(COMPILERS):
            with self.subTest(compiler=compiler):
                source, build = self.folder / f"shapes{number}", self.folder / f"build{number}"
                shutil.copytree(HERE.parents[2] / "examples/rpc/shapes", source)
                output("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
                output("cmake", "--build", build)
                address = f"10.9.0.1:{7390 + number}"
                with ended(subprocess.Popen([build / "shapes", "serve", address, "1"], stdout=subprocess.PIPE, text=True, env=environment)) as server:
                    self.assertIn("listening", server.stdout.readline())
                    said = output(build / "shapes", "call", address, env=environment)
                    self.assertIn("at 3: not found: nothing was read at 3\n", said)
                    self.assertTrue(said.endswith("mean 10\nmean 15\nmean 30\n"), said)
                    self.assertEqual(server.wait(30), 0)

    def test_c_header(self):
        program = self.folder / "c.c"
        program.write_text("#include <rrdma/rpc/c.h>\nint main(void) { return rrdma_rpc_abi() == RRDMA_RPC_ABI ? 0 : 1; }\n")
        libraries = str(next(self.prefix.rglob("librrdma-rpc.so.0")).parent)
        output("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{self.prefix}/include", program, f"-L{libraries}",
               "-lrrdma-rpc", f"-Wl,-rpath,{libraries}", "-o", self.folder / "c")
        output(self.folder / "c")

    def test_pkg_config(self):
        where = str(next(self.prefix.rglob("rrdma-rpc.pc")).parent)
        flags = output("pkg-config", f"--define-variable=prefix={self.prefix}", "--cflags", "--libs", "rrdma-rpc", env={**os.environ, "PKG_CONFIG_PATH": where}).split()
        self.assertIn("-lrrdma-rpc", flags)
        self.assertIn("-lrrdma-comm", flags)
        self.assertIn(f"-I{self.prefix}/include", flags)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    unittest.main(argv=sys.argv[:1], verbosity=2)
