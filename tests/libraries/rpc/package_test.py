# Tests the installed librrdma-rpc: its exports and dependencies, and a project with a .proto built against it.
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
sys.path.insert(0, str(HERE.parents[1] / "tools/commands"))
import surroundings

RRDMA, LIBRARY, BUILD, COMPILER = sys.argv[1:5]


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
        for component in ("comm", "comm-dev", "rpc", "rpc-dev"):
            output("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_find_package_and_a_proto(self):
        build = self.folder / "build"
        output("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={COMPILER}")
        output("cmake", "--build", build)
        libraries = str(next(self.prefix.rglob("librrdma-rpc.so.0")).parent)
        said = output(RRDMA, "run", "--", build / "consumer", env={**os.environ, "LD_LIBRARY_PATH": libraries})
        self.assertEqual(said, "hello, stranger\n")

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
