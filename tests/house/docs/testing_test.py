# Runs every command of docs/testing-with-rrdma.md, with my_program.c as the reader's program. Commands that the page
# gives for a running program run beside one. Arguments: the command, the source tree.
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tests/tools/commands"))

import command
import surroundings
from command import RRDMA, run

PAGE = (SOURCE / "docs/testing-with-rrdma.md").read_text()
# Every block of the page by its first line, with the test that runs it.
BLOCKS = {
    "rrdma run --devices 2 -- ibv_devinfo": "test_several_devices",
    "rrdma run --faults verb=ibv_reg_mr:ENOMEM:3 -- ./my_program": "test_a_verb_fails",
    "rrdma run --faults status=RETRY_EXC_ERR:10 -- ./my_program": "test_a_completion_is_an_error",
    "rrdma fault set port=down --device rrdma1": "test_a_port_flaps",
    "[[fault]]": "test_a_plan",
    "rrdma run --fault drop=1%,reorder=2%,seed=7 -- ./my_program          # from the beginning": "test_the_network_is_bad",
    "pip install ./packaging/pytest": "test_pytest",
    '@pytest.mark.rrdma(devices=2, faults=["plan.toml"])': "test_pytest",
    "include(RrdmaTest)     # installed in lib/cmake/rrdma": "test_ctest",
    "- uses: OWNER/rrdma@v1": "test_github",
    "rrdmad --stay &": "test_the_right_rail",
    "rrdma lab leaf-spine --hosts 8          # in one terminal; Ctrl-C ends it, and nothing is left": "test_many_hosts",
}
# Whole commands in the text.
INLINE = {
    "rrdma run --devices 2 --faults plan.toml -- ./my_program": "test_a_plan",
    "rrdma sim --workload write --faults 'net=drop=5% device=h0 after=10ms for=5ms'": "test_the_network_is_bad",
    "rrdma fault words": "test_a_verb_fails",
    "rrdma fault set port=down --device rrdma1": "test_a_port_flaps",
    "rrdma lab topology.toml -- ./test.sh": "test_many_hosts",
}


def blocks():
    """The indented blocks of the page."""
    paragraphs = re.split(r"\n\n", PAGE)
    return ["\n".join(line[4:] for line in text.strip("\n").split("\n")) for text in paragraphs if text.strip("\n").startswith("    ")]


def block(begin):
    (found,) = [one for one in blocks() if one.startswith(begin)]
    return found


def commands(begin):
    """The commands of a block, without the comments behind them."""
    return [re.sub(r"\s{2,}#.*", "", line) for line in block(begin).splitlines()]


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(run, "fault", "clear", "all", status=None)
        subprocess.run(["cc", "-O1", "-o", f"{self.folder}/my_program", SOURCE / "tests/house/docs/my_program.c", "-libverbs"], check=True)
        pathlib.Path(self.folder, "plan.toml").write_text(block("[[fault]]"))
        self.environment = {**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}"}

    def follow(self, words, status=0, seconds=60, **environment):
        done = subprocess.run(["bash", "-c", words], cwd=self.folder, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}")
        return done.stdout

    def running(self, *options, seconds=30, devices=1):
        """The reader's program, which the other commands of a block concern. All its devices are open."""
        process = subprocess.Popen([RRDMA, "run", *options, "--", "./my_program", str(seconds)], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(devices):
            self.assertIn("is ready", process.stdout.readline())
        return process

    def await_line(self, process, words):
        for line in process.stdout:
            if words in line:
                return
        self.fail(f"the program never said {words}")

    def test_several_devices(self):
        first, second = commands("rrdma run --devices 2 -- ibv_devinfo")
        self.assertEqual(re.findall(r"hca_id:\s+(\S+)", self.follow(first)), ["rrdma0", "rrdma1"])
        self.assertEqual(re.findall(r"(\S+) is ready", self.follow(second)), ["rrdma0", "rrdma1", "rrdma2", "rrdma3"])

    def test_a_verb_fails(self):
        begin, explain = commands("rrdma run --faults verb=ibv_reg_mr")
        self.assertEqual(re.findall(r"registration (\d) failed: (.*)", self.follow(begin)), [("3", "Cannot allocate memory")])
        self.assertIn("call 3 of ibv_reg_mr on rrdma0 failed with ENOMEM", " ".join(self.follow(explain).split()))
        words = self.follow("rrdma fault words")
        for rule in re.findall(r"`((?:verb|slow)=[^`]+)`", PAGE):
            self.assertIn(re.split("[=:]", rule)[1], words)
            self.follow(f"rrdma run --faults '{rule}' -- true")

    def test_a_completion_is_an_error(self):
        tenth, of_a_peer = commands("rrdma run --faults status=RETRY_EXC_ERR:10")
        self.assertIn("a WRITE failed: transport retry counter exceeded", self.follow(tenth, status=1))
        self.assertNotIn("failed", self.follow(of_a_peer))  # the program has another peer

    def test_a_port_flaps(self):
        down, listed, clear = commands("rrdma fault set port=down --device rrdma1")
        program = self.running("--devices", "2", devices=2)
        self.follow(down)
        self.await_line(program, "port error")
        self.assertIn("port=down", self.follow(listed))
        self.follow(clear)
        self.assertEqual(self.follow("rrdma fault list").count("port=down"), 0)

    def test_a_plan(self):
        said = self.follow(self.whole("rrdma run --devices 2 --faults plan.toml").replace("my_program", "my_program 3"))
        self.assertIn("moved to the other device", said)

    def test_the_network_is_bad(self):
        first, *others = commands("rrdma run --fault drop=1%")
        self.follow(first)
        self.running("--link", "udp")
        for words in others:
            self.follow(words)
        shown = self.follow("rrdma fault list")
        for words in others:
            self.assertIn(words.split()[3], shown)
        self.follow(self.whole("rrdma sim"), seconds=120)

    def whole(self, begin):
        (found,) = [words for words in INLINE if words.startswith(begin)]
        return found

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest")
    def test_pytest(self):
        test = block("@pytest").replace("./my_program", f'{self.folder}/my_program", "3')
        pathlib.Path(self.folder, "test_page.py").write_text("import pytest\n" + test)
        said = self.follow(f"{sys.executable} -B -m pytest -q -p pytest_rrdma -p no:cacheprovider", PYTHONPATH=str(SOURCE / "packaging/pytest"))
        self.assertIn("1 passed", said)
        self.assertTrue((SOURCE / "packaging/pytest").is_dir())  # pip needs the network to build what it installs

    def test_ctest(self):
        lines = block("include(RrdmaTest)").replace("COMMAND my_program", f"COMMAND {self.folder}/my_program 3").replace("plan.toml", f"{self.folder}/plan.toml")
        pathlib.Path(self.folder, "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(page NONE)\nenable_testing()\n{lines}\n")
        self.follow(f"cmake -B build -DCMAKE_MODULE_PATH={SOURCE / 'cmake'} -DRRDMA_COMMAND={RRDMA} && ctest --test-dir build --output-on-failure")

    def test_github(self):
        """tools.testers and delivery.action run the Action itself."""
        inputs = re.search(r"^inputs:\n(.*?)^\S", (SOURCE / "action.yml").read_text(), re.M | re.S)[1]
        step = block("- uses: OWNER/rrdma@v1")
        for name in re.findall(r"^    (\w+):", step, re.M):
            self.assertRegex(inputs, rf"(?m)^  {name}:")
        self.follow(re.search(r"- run: (.*)", step)[1])

    @unittest.skipUnless(shutil.which("jq"), "no jq")
    def test_the_right_rail(self):
        self.follow(block("rrdmad --stay &") + "\nstatus=$?\nkill %1\nexit $status")

    def test_many_hosts(self):
        up, *others = commands("rrdma lab leaf-spine --hosts 8")
        if shutil.which("mpicc") is None:
            others = [words for words in others if "mpirun" not in words]
        else:
            subprocess.run(["mpicc", "-O1", "-o", f"{self.folder}/all_to_all", SOURCE / "tests/tools/commands/alltoall.c"], check=True)
        holder = subprocess.Popen(["bash", "-c", f"exec {up}"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        try:
            while "The lab is up" not in (line := holder.stdout.readline()):
                self.assertTrue(line, "the lab did not come up")
            for words in others:
                if "rping -s" in words:  # a server: ends with the lab
                    self.addCleanup(subprocess.Popen(["bash", "-c", f"exec {words}"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait)
                else:
                    self.follow(words, seconds=200, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            self.assertIn("<svg", pathlib.Path(self.folder, "lab.svg").read_text())
        finally:
            holder.terminate()
            holder.wait(30)
            holder.stdout.close()
        shutil.copy(SOURCE / "examples/testing/topology.toml", self.folder)
        script = pathlib.Path(self.folder, "test.sh")
        script.write_text("#!/bin/sh\nrrdma lab cut spine1 && rrdma lab show && rrdma lab heal spine1\n")
        script.chmod(0o755)
        self.assertIn("spine1", self.follow("rrdma lab topology.toml -- ./test.sh"))


class Whole(unittest.TestCase):
    def test_no_block_is_left_out(self):
        self.assertEqual([one.splitlines()[0] for one in blocks()], list(BLOCKS))
        for name in {*BLOCKS.values(), *INLINE.values()}:
            self.assertTrue(hasattr(Page, name), name)

    def test_no_command_in_the_text_is_left_out(self):
        text = " ".join(PAGE.split())
        mentioned = {words for words in re.findall(r"`(rrdma [a-z]+ [^`]+)`", text)}
        self.assertEqual(mentioned, set(INLINE))


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
