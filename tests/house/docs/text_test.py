# Runs the commands and options in the sentences of README, docs/ and docs/learn; readme_test.py, pages_test.py and
# learn_test.py run the blocks. Each command runs here or in the test named beside it. A new command in a document
# fails until it is added here. Arguments: the command, the source tree, the folder of the built examples.
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
import pages_test
import readme_test
import servers
import surroundings
from command import RRDMA, run, run_json
from traffic import PingPong

BUILD = pathlib.Path(RRDMA).parent.parent
DOCUMENTS = [page for page in [SOURCE / "README.md", *map(SOURCE.joinpath, pages_test.PAGES), *sorted((SOURCE / "docs/learn").glob("*.md"))]
             if not page.name.endswith(".zh-CN.md")]
SECONDS = 60

# Maps words of the documents to the command to run and a pattern for its output. Words in capitals are replaced by a
# value.
ALONE = {
    "rrdma run": ("rrdma run -- true", r"^$"),
    "rrdma run -- ./my_program ARGUMENTS": ('ln -s "$(command -v ibv_devinfo)" my_program && rrdma run -- ./my_program -d rrdma0', r"hca_id:\s+rrdma0"),
    "rrdma run --private -- ./my_rdma_test": ('ln -s "$(command -v ibv_devinfo)" my_rdma_test && rrdma run --private -- ./my_rdma_test -v', r"10\.82\.0\.1"),
    "rrdma run --link udp": ("rrdma run --link udp -- env", r"^RRDMA_LINK=udp$"),
    "--strict": ("rrdma run --strict -- env", r"^RRDMA_STRICT=1$"),
    "rrdma --help": ("rrdma --help", r"^Run programs:$"),
    "rrdma --version --json": ("rrdma --version --json", r"\"daemon_protocol\":\d"),
    "rrdma doctor --program FILE": ("rrdma doctor --program ibv_devinfo", r"^ok    program"),
    "rrdma run --devices N": ("rrdma run --devices 2 -- ibv_devinfo", r"hca_id:\s+rrdma1"),
    "rrdma run --lid": ("rrdma run --lid -- ibv_devinfo", r"port_lid:\s+[1-9]"),
    "rrdma doctor": ("rrdma doctor", r"All is well|RRDMA works here"),
    "rrdma explain": ("rrdma explain", r"."),
    "rrdma gids": ("rrdma gids", r"RoCE v2"),
    "rrdma link add IF": ("rrdma link add lo && rrdma devices && rrdma link del lo", r"rrdma1 +lo "),
    "--lang zh": ("rrdma explain --lang zh IBV_WC_RETRY_EXC_ERR", r"[\u4e00-\u9fff]"),
    "--netdev IF": ("rrdma gids --netdev lo", r"rrdma0 .* lo$"),
    "-d rrdma0": ("rrdma run -- ibv_devinfo -d rrdma0", r"hca_id:\s+rrdma0"),
    "rrdma run --only": ("rrdma run --only -- ibv_devinfo", r"hca_id:\s+rrdma0"),
    "rrdma run --share-memory": ("rrdma run --share-memory -- env", r"librrdma-memory\.so\.1"),
    "rrdma run --beside": ("rrdma run --beside -- ibv_devinfo", r"hca_id:\s+rrdma0"),
    "make help": (f"make -C {SOURCE} help", r"^  demo +\S"),
}
# The same while two programs communicate.
BESIDE_PROGRAMS = {
    "rrdma stat": ("rrdma stat", r"ibv_rc_pingp"),
    "rrdma stat --qps": ("rrdma stat --qps", r"RC +RTS +shm"),
    "rrdma stat --watch": ("rrdma stat --watch --count 2", r"TX/s"),
    "rrdma capture FILE": ("rrdma capture --seconds 1 running.pcapng && rrdma decode running.pcapng | head -n 100", r"RC SEND"),
}
# Run by another test: the file, and text that it must contain.
ELSEWHERE = {
    "rrdma fault set": ("tools/commands/fault_test.py", 'run("fault", "set", "port=down", "--device", "rrdma1")'),
    "rrdma lab": ("tools/commands/lab_test.py", 'lab("run", "h2", "--", "hostname")'),
    "rrdma inspect": ("tools/commands/inspect_test.py", "Inspector() as"),
    "rrdma inspect out.pcapng": ("tools/commands/inspect_test.py", "Inspector(self.lossy)"),
    "rrdma inspect --export report.html out.pcapng": ("tools/commands/inspect_test.py", '"inspect", "--export", report, self.lossy'),
    "rrdma top": ("tools/commands/top_test.py", 'Screen(RRDMA, "top"'),
    "rrdma shell": ("tools/commands/shell_test.py", '[RRDMA, "shell"'),
    "rrdma lab mpirun": ("tools/commands/lab_test.py", "rrdma lab mpirun -np 2"),
    "rrdma run --pcap out.pcapng -- ./my_rdma_test": ("house/docs/text_test.py", '[RRDMA, "run", "--pcap"'),
    "rrdma doctor --peer ADDRESS": ("house/docs/pages_test.py", '"doctor", "--peer"'),
    "apt install ./rrdma_*.deb": ("tools/commands/deb_test.py", 'manage("install", "/tmp/rrdma.deb")'),
    "--prefix": ("house/delivery/install_test.py", '["--prefix", "/tmp/a b"]'),
    "--version": ("house/delivery/install_test.py", 'self.install("--version", "0.2.0"'),
    "--from": ("house/delivery/install_test.py", '"--from", self.url'),
    "--host A,B": ("house/docs/pages_test.py", "--host localhost,localhost"),
    "-R": ("interop/cm_programs/cm_programs_test.py", '"-R"'),
    "-cm1": ("interop/cm_programs/cm_programs_test.py", '"-cm1"'),
}
# Run by tests of this file with more than one command.
HERE = {"--help": "test_every_command_has_help_and_a_page", "--json": "test_json_where_there_is_data",
        "-s 1000": "test_a_message_of_one_packet", "make install PREFIX=DIRECTORY": "test_make_install"}


def translation(page):
    return page.with_name(page.name.replace(".md", ".zh-CN.md"))


def spans(page):
    """`Words` in the sentences that are commands or options."""
    sentences = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    return {words for words in re.findall(r"`([^`\n]+)`", sentences)
            if re.match(r"-{1,2}[a-zA-Z]|(rrdma|make|apt|systemctl|docker|mpirun|sudo|cmake|ctest) \S", words)}


def commands_in_blocks():
    """Lines that readme_test.py, pages_test.py and learn_test.py run."""
    return [words for page in DOCUMENTS for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.M | re.S)
            for words, _ in readme_test.steps(block)]


class Sentences(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}", "TERM": "xterm"}

    def follow(self, words, shown):
        done = subprocess.run(["sh", "-c", words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        self.assertRegex(done.stdout, re.compile(shown, re.M), words)
        return done.stdout

    def test_nothing_is_left_out(self):
        named = set().union(*map(spans, DOCUMENTS))
        self.assertGreater(len(named), 30)
        known = {*ALONE, *BESIDE_PROGRAMS, *ELSEWHERE, *HERE}
        followed = [f" {words} " for words in commands_in_blocks()]
        for words in named - known:
            in_a_block = any(f" {words} " in line for line in followed)
            self.assertTrue(in_a_block or words.startswith("make "), f"`{words}` is run by no test")
        self.assertEqual(known - named, set(), "no document names it any more")
        for test in HERE.values():
            self.assertTrue(hasattr(self, test), test)

    def test_both_languages_name_the_same(self):
        for page in DOCUMENTS:
            if str(page.relative_to(SOURCE)) not in pages_test.PAGES:
                self.assertEqual(spans(page), spans(translation(page)), page.name)

    def test_others_do_run_it(self):
        for words, (file, what) in ELSEWHERE.items():
            self.assertTrue(what in (SOURCE / "tests" / file).read_text(), f"`{words}` is not run by {file}")

    def test_alone(self):
        for words, shown in ALONE.values():
            with self.subTest(words):
                self.follow(words, shown)

    def test_beside_programs(self):
        with PingPong():
            surroundings.wait_for(lambda: len([p for p in run_json("stat", "--json")["processes"] if p["queue_pairs"]]) == 2)
            for words, shown in BESIDE_PROGRAMS.values():
                with self.subTest(words):
                    self.follow(words, shown)

    def test_make_knows_every_target(self):
        """Only checks that make finds the targets; the targets themselves are whole builds."""
        targets = {words.split()[1] for page in DOCUMENTS for words in spans(page) if words.startswith("make ")}
        targets |= set(re.findall(r"^make ([a-z-]+)", "".join(page.read_text() for page in DOCUMENTS), re.M))
        self.assertLessEqual({"demo", "test", "build", "install", "deb"}, targets)
        for target in sorted(targets):
            self.follow(f"make -n -C {SOURCE} {target}", ".")

    def test_every_command_has_help_and_a_page(self):
        names = re.findall(r"^  ([a-z]+) ", run("--help")[0].split("Run programs:")[1], re.M)
        self.assertGreaterEqual(len(names), 11)
        for name in names:
            self.assertIn(f"Usage: rrdma {name}", run(name, "--help")[0])
        self.assertEqual({path.stem.removeprefix("rrdma-") for path in (SOURCE / "docs/man").glob("rrdma-*.1")}, set(names))

    def test_json_where_there_is_data(self):
        for words in (["devices"], ["gids"], ["link", "show"], ["doctor"], ["stat"], ["explain", "--list"], ["explain", "EINVAL"]):
            self.assertTrue(run_json(*words, "--json"), words)
        offered = {name for name in re.findall(r"^  ([a-z]+) ", run("--help")[0].split("Run programs:")[1], re.M) if "--json" in run(name, "--help")[0]}
        self.assertLessEqual({"devices", "gids", "doctor", "stat", "explain", "decode", "sim"}, offered)

    def test_a_message_of_one_packet(self):
        words = ["ibv_rc_pingpong", "-g", "1", "-n", "2", "-s", "1000"]
        before = servers.open_ports()
        server = subprocess.Popen([RRDMA, "run", "--pcap", f"{self.folder}/ping.pcapng", "--", *words], stdout=subprocess.DEVNULL)
        try:
            servers.await_server(server, before, words)
            run("run", "--", *words, "localhost")
            self.assertEqual(server.wait(30), 0)
        finally:
            server.kill()
            server.wait()
        shown = self.follow("rrdma decode ping.pcapng", "SEND ONLY")
        self.assertNotIn("FIRST", shown)
        # The other words that the page mentions.
        for word in ("ack-req", "ACKNOWLEDGE", "psn", "qp"):
            self.assertIn(word, shown)

    def test_make_install(self):
        """The installation step of `make install`, with this build."""
        self.follow(f"cmake --install {BUILD} --prefix {self.folder}/usr && usr/bin/rrdma run -- ibv_devinfo", r"hca_id:\s+rrdma0")
        self.assertIn(f"{self.folder}/usr/", self.follow("usr/bin/rrdma doctor", r"^ok    library: "))

    def test_make_uninstall(self):
        """`make uninstall` leaves the files and folders of others alone."""
        other = pathlib.Path(self.folder) / "usr/share/other"
        other.parent.mkdir(parents=True)
        other.touch()
        script = SOURCE / "scripts/uninstall"
        self.follow(f"cmake --install {BUILD} --prefix {self.folder}/usr >/dev/null && cp {BUILD}/install_manifest.txt installed && {script} installed",
                    r"^\d{2,} files removed")
        self.assertEqual([path for path in (pathlib.Path(self.folder) / "usr").rglob("*") if not path.is_dir()], [other])
        self.assertEqual([path for path in (pathlib.Path(self.folder) / "usr").rglob("*rrdma*")], [])


class Programs(unittest.TestCase):
    def test_every_row_is_run(self):
        """Every program in the table of supported programs appears in a test that runs programs."""
        tests = "".join(path.read_text() for folder in ("interop", "programs/process", "tools/commands") for path in (SOURCE / "tests" / folder).rglob("*.py"))
        for page in (SOURCE / "README.md", SOURCE / "README.zh-CN.md"):
            table = "".join(line for line in page.read_text().splitlines(True) if re.match(r"\|.*\| (works|可用)", line))
            names = [name for name in re.findall(r"`([a-z]\w+)`", table) if shutil.which(name)] + ["librspreload", "rc_verbs", "ud_verbs"]
            self.assertGreater(len(names), 20, names)
            for name in names:
                self.assertTrue(re.search(rf"[\"' /]{name}\b", tests), f"{name} is run by no test")


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
