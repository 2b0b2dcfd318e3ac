# Checks README in both languages: runs every block of commands and compares the output. Every command, option and
# make target must exist, and the code shown must be in an example. tests/house/docs/pages_test.py covers the other pages.
# Arguments: the command, the source tree.
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import command
import servers
import surroundings
from command import RRDMA, run

SOURCE = pathlib.Path(sys.argv[2])
DOCUMENTS = ["README.md", "README.zh-CN.md"]
ANYTHING = "…"
DIGIT = re.compile(r"\d")
README_LINES_MAX = 130
SAMPLE_LINES_MAX = 10


def blocks(document, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", (SOURCE / document).read_text(), re.M | re.S)


def pattern(line):
    """Converts a line to a pattern: words with digits may differ, and so may the number of blanks."""
    words = [r"\S+" if DIGIT.search(word) else re.escape(word) for word in line.split()]
    return re.compile(r"\s*" + r"\s+".join(words) + r"\s*")


def fits(expected, lines):
    """Whether the lines match those of the document in order; … matches any number of lines."""
    if not expected:
        return not lines
    if expected[0] == ANYTHING:
        return any(fits(expected[1:], lines[i:]) for i in range(len(lines) + 1))
    return bool(lines) and bool(pattern(expected[0]).fullmatch(lines[0])) and fits(expected[1:], lines[1:])


def steps(block):
    """Commands, with the output that the document shows."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


class Blocks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(pathlib.Path(RRDMA).parent.parent, os.path.join(self.folder, "build"))
        self.environment = {**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}"}

    def start(self, words, background):
        before = servers.open_ports()
        background.append(subprocess.Popen(["sh", "-c", "exec " + words], cwd=self.folder, env=self.environment,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        servers.await_server(background[-1], before, words.split())

    def follow(self, block):
        background = []
        for words, expected in steps(block):
            if words.endswith("&"):
                self.start(words[:-1], background)
                continue
            done = subprocess.run(["sh", "-c", words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            self.assertTrue(fits(expected, lines), f"$ {words}\n{done.stdout}\nis not what the document shows:\n" + "\n".join(expected))
            # Wait until a server has printed everything, before the next one takes its port.
            for process in background:
                if process.poll() is None:
                    process.wait(30)
            background.clear()

    def test_readme(self):
        shown = blocks("README.md", "console")
        self.assertGreaterEqual(len(shown), 2)
        for block in shown:
            self.follow(block)

    def test_a_wrong_document_is_found(self):
        for block in ("$ rrdma devices\nDEVICE  NOSUCH\n…\n", "$ rrdma nosuch\n", "$ rrdma gids\n"):
            with self.assertRaises(AssertionError):
                self.follow(block)


class Mentions(unittest.TestCase):
    def test_it_is_short(self):
        for document in DOCUMENTS:
            self.assertLessEqual(len((SOURCE / document).read_text().splitlines()), README_LINES_MAX, document)

    def test_no_block_is_left_out(self):
        """There are no blocks of kinds that no test runs."""
        for document in DOCUMENTS:
            text = (SOURCE / document).read_text()
            self.assertEqual(set(re.findall(r"^ *```(\S*)$", text, re.M)), {"", "console", "cpp", "sh"})
            self.assertEqual(len(re.findall(r"^ *```\S+$", text, re.M)), sum(len(blocks(document, kind)) for kind in ("console", "cpp", "sh")))
            # demo, ctest itself, and the build that runs this; docs.text installs it, packaging.deb builds the
            # packages.
            targets = [line.split()[:2] for block in blocks(document, "sh") for line in block.splitlines()]
            self.assertEqual(targets, [["make", name] for name in ("demo", "test", "build", "install", "deb")])

    def test_code_is_that_of_examples(self):
        """Each piece of a block (`// ...` separates pieces) is in the example that its first line names. Tests of
        comm and rpc run both."""
        built = pathlib.Path(RRDMA).parent.parent
        for document in DOCUMENTS:
            named = []
            for block in blocks(document, "cpp"):
                head, code = block.split("\n", 1)
                path = re.fullmatch(r"// (examples/\S+)\.cc, .*:", head)[1]
                named.append(path)
                source = "\n" + (SOURCE / f"{path}.cc").read_text()
                for piece in re.split(r"^// \.\.\. .*\n", code, flags=re.M):
                    self.assertTrue(piece.strip(), head)
                    self.assertIn("\n" + piece, source, f"{document} shows what {path}.cc does not have")
                self.assertLessEqual(len(re.findall(r"^(?!//)", code.rstrip("\n"), re.M)), SAMPLE_LINES_MAX, head)
                self.assertTrue((built / path).exists(), f"{path} is not built")
            self.assertEqual(named, ["examples/comm/echo", "examples/rpc/hello"])

    def test_options_alone_exist(self):
        """Options that the text mentions without their command."""
        known = "".join(run(name, "--help")[0] for name in ("run", "explain", "stat", "devices", "doctor")) + " -g -x -R -cm1 "
        for document in DOCUMENTS:
            for option in re.findall(r"`(--?[a-z][a-z0-9-]*)", (SOURCE / document).read_text()):
                self.assertIn(f"{option} ", known, document)

    def test_both_languages_show_the_same(self):
        for kind in ("console", "cpp", "sh"):
            self.assertEqual(blocks("README.md", kind), blocks("README.zh-CN.md", kind))
        headings, rows, links = ([len(re.findall(shape, (SOURCE / document).read_text(), re.M)) for document in DOCUMENTS]
                                 for shape in (r"^#+ ", r"^\|", r"\]\("))
        self.assertEqual((headings[0], rows[0], links[0]), (headings[1], rows[1], links[1]))

    def test_commands_and_options_exist(self):
        helped = {"": run("--help")[0]}
        for document in DOCUMENTS:
            text = (SOURCE / document).read_text()
            mentioned = re.findall(r"(?:[`$] ?|\n)rrdma ([a-z]+)([^`\n]*)", text)
            self.assertGreater(len(mentioned), 8)
            for name, rest in mentioned:
                self.assertRegex(helped[""], rf"(?m)^  {name} ", f"rrdma {name} in {document}")
                helped.setdefault(name, run(name, "--help")[0])
                for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest.split(" -- ")[0]):
                    self.assertIn(option, helped[name], f"rrdma {name} {rest} in {document}")

    def test_make_targets_exist(self):
        targets = set(re.findall(r"^([a-z-]+):.*## ", (SOURCE / "Makefile").read_text(), re.M))
        for document in DOCUMENTS + ["CONTRIBUTING.md"]:
            for target in re.findall(r"^ *make ([a-z][a-z-]+)", (SOURCE / document).read_text(), re.M):
                self.assertIn(target, targets, document)
            for target in re.findall(r"`make ([a-z-]+)`", (SOURCE / document).read_text()):
                self.assertIn(target, targets, document)
        for file, target in (("Dockerfile", "deb"), ("action.yml", "install")):
            self.assertRegex((SOURCE / file).read_text(), rf"make -C \S+ {target}\b")
            self.assertIn(target, targets)

    def test_manual_pages_have_every_option(self):
        for page in sorted((SOURCE / "docs/man").glob("rrdma-*.1")):
            name = page.stem.removeprefix("rrdma-")
            text = page.read_text()
            if text.startswith(".so"):
                continue
            for option in re.findall(r"(--[a-z][a-z-]+)", run(name, "--help")[0].split("\n\n")[1]):
                if option == "--help":
                    continue
                self.assertIn(option.replace("-", "\\-"), text, page.name)


class Programs(unittest.TestCase):
    def pair(self, words, *client):
        before = servers.open_ports()
        server = subprocess.Popen([RRDMA, "run", "--", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            servers.await_server(server, before, words)
            done = subprocess.run([RRDMA, "run", "--", *words, *client], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
            self.assertEqual(server.wait(30), 0, words)
        finally:
            server.kill()
            server.wait()

    def test_programs_of_the_table(self):
        text = (SOURCE / "README.md").read_text()
        programs = re.findall(r"`(ibv_\w+_pingpong|ib_\w+_bw)`", text.split("## What works")[1].split("\n## ")[0])
        self.assertEqual(len(programs), 8)
        for program in programs:
            # -F: perftest prints a report even if the machine is too busy to determine the clock rate.
            options = ["-g", "1"] if program.startswith("ibv") else ["-x", "1", "-F"]
            self.pair([program, *options, "-n", "200"], "localhost")


class Demo(unittest.TestCase):
    def test_demo(self):
        # As on a fresh root: localhost is unknown.
        subprocess.run(["mount", "--bind", "/dev/null", "/etc/hosts"], check=True)
        self.addCleanup(subprocess.run, ["umount", "/etc/hosts"], check=True)
        done = subprocess.run([SOURCE / "scripts/demo", os.path.dirname(os.path.dirname(RRDMA))], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"^ok    (\S+(?: \w+)?)  ", done.stdout, re.M),
                         ["ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "rping", "rrdma explain", "rrdma inspect", "rrdma::comm"])
        self.assertRegex(done.stdout, r"Injected faults dropped \d+ packets")
        report = re.search(r"file://(\S+)", done.stdout)[1]
        self.assertIn("<html", pathlib.Path(report).read_text()[:2000])
        self.assertNotIn("\x1b", done.stdout)

    def test_demo_without_a_build(self):
        done = subprocess.run([SOURCE / "scripts/demo", "/nowhere"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("make build", done.stderr)

    def test_wrong_arguments(self):
        for words in (["--nosuch"], ["build", "build"]):
            done = subprocess.run([SOURCE / "scripts/demo", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: demo", done.stderr)

    def programs(self):
        """Processes in this test's own PID namespace. Skips zombies (Z), because nothing reaps orphans there."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                found += re.findall(r"\(((?:ibv?_|rping|rrdma).*)\) [^Z]", path.read_text())
            except OSError:  # it ended
                pass
        return found

    def test_an_interrupt_leaves_nothing(self):
        # Ctrl-C goes to all programs of the terminal, a signal from a runner to one.
        for number, reaches in ((signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)):
            demo = subprocess.Popen([SOURCE / "scripts/demo", os.path.dirname(os.path.dirname(RRDMA))], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, start_new_session=True)
            try:
                for line in demo.stdout:
                    if line.startswith("$ rrdma run -- ib_write_bw"):
                        break
                self.assertIn("rrdmad", self.programs())
                reaches(demo.pid, number)
                rest, _ = demo.communicate(timeout=30)
            finally:
                demo.kill()
                demo.wait()
            self.assertEqual(demo.returncode, -signal.SIGINT, rest)
            self.assertIn("Interrupted.", rest)
            self.assertNotIn("Traceback", rest)
            end = time.monotonic() + 20
            while (left := self.programs()) and time.monotonic() < end:
                time.sleep(0.1)
            self.assertEqual(left, [])


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
