# Runs every command of docs/learn and compares its output with the page (shown.py says how). Also: both languages show
# the same blocks, blocks can be pasted as they are, links work. Arguments: the command, the source tree, the folder of
# the built examples.
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[2])
EXAMPLES = sys.argv[3]
sys.path.insert(0, str(SOURCE / "tests/tools/commands"))

import command
import readme_test
import shown
import surroundings
from command import run

LEARN = SOURCE / "docs/learn"
SERVER = re.compile(r"(.+) > server\.log &")  # a background command
START = "sleep 1"  # follows each of them
# Parts of the commands whose exit status is not 0: calls that the page shows to fail, a grep that finds nothing.
FAILING = ("echo_objects 127.0.0.1:7309 ", "hello call 127.0.0.1:7311 ''", "hello call 127.0.0.1:7319 ", "grep -c ARRIVALS")
PAGES = sorted(page for page in LEARN.glob("*.md") if not page.name.endswith(".zh-CN.md"))


def translation(page):
    return page.with_name(page.name.replace(".md", ".zh-CN.md"))


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.M | re.S)


class Commands(readme_test.Blocks):
    """Follows each page from its beginning to its end."""

    def setUp(self):
        super().setUp()
        self.environment["PATH"] = f"{EXAMPLES}:{self.environment['PATH']}"
        # As in the reader's clone.
        for name, target in (("tests", SOURCE / "tests"), ("examples", SOURCE / "examples")):
            os.symlink(target, os.path.join(self.folder, name))

    test_readme = None

    def follow(self, block):
        """Runs the commands in order. At `sleep`, waits until the server is ready, which a busy machine may take longer
        for; at `wait`, until it has ended."""
        background = []
        try:
            for words, expected in readme_test.steps(block):
                if server := SERVER.fullmatch(words):
                    self.start(server[1], background)
                elif words == "wait":
                    self.await_end(background, block)
                elif words != START:
                    self.run_one(words, expected)
            self.await_end(background, block)
        finally:
            for process in background:
                process.kill()
                process.wait()

    def run_one(self, words, expected):
        done = subprocess.run(["bash", "-c", words], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        self.assertEqual(done.returncode != 0, any(part in words for part in FAILING), f"{words}\n{done.stdout}")
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        self.assertTrue(shown.fits(expected, lines), f"$ {words}\n{done.stdout}\nis not what the page shows:\n" + "\n".join(expected))

    def await_end(self, background, block):
        for process in background:
            self.assertEqual(process.wait(30), 0, block)

    def follow_page(self, name):
        found = blocks(LEARN / name, "console")
        self.assertTrue(found)
        for block in found:
            self.follow(block)

    def test_before_you_begin(self):
        self.follow_page("README.md")

    def test_io_uring(self):
        if "available" not in run("doctor", status=None)[0].split("io_uring: ")[1].splitlines()[0]:
            self.skipTest("io_uring is not allowed here")
        self.follow_page("1-io_uring.md")

    def test_packets(self):
        self.follow_page("2-packets.md")

    def test_verbs(self):
        self.follow_page("3-verbs.md")

    def test_inside(self):
        self.follow_page("4-inside.md")

    def test_library(self):
        self.follow_page("5-library.md")

    def test_rpc(self):
        self.follow_page("6-rpc.md")

    def test_loss(self):
        self.follow_page("7-loss.md")


class Pages(unittest.TestCase):
    def test_every_page_is_followed(self):
        followed = re.findall(r'follow_page\("([^"]+)"\)', pathlib.Path(__file__).read_text())
        self.assertEqual(sorted(followed), [page.name for page in PAGES])

    def test_no_block_is_left_out(self):
        for page in [*PAGES, *map(translation, PAGES)]:
            kinds = re.findall(r"^ *```(\S*)$", page.read_text(), re.M)
            self.assertLessEqual(set(kinds), {"", "console", "sh"}, page.name)
            self.assertEqual(len(kinds), 2 * sum(len(blocks(page, kind)) for kind in ("console", "sh")), page.name)

    def test_commands_in_the_text_exist(self):
        for page in [*PAGES, *map(translation, PAGES)]:
            for words in re.findall(r"`rrdma ([a-z][^`]*)`", page.read_text()):
                helped, _ = run(words.split()[0], "--help")
                for option in re.findall(r"(?<!\S)--[a-z-]+", words.split(" -- ")[0]):
                    self.assertIn(option, helped, f"rrdma {words} in {page.name}")

    def test_the_set_up_names_what_is_built(self):
        (setting,) = blocks(LEARN / "README.md", "sh")
        self.assertEqual(setting, "make build\nexport PATH=$PWD/build/bin:$PWD/build/examples:$PATH\n")
        self.assertEqual(pathlib.Path(command.RRDMA).parent.name, "bin")
        self.assertEqual(pathlib.Path(EXAMPLES), pathlib.Path(command.RRDMA).parent.parent / "examples")

    def test_both_languages_show_the_same(self):
        for page in PAGES:
            other = translation(page)
            for kind in ("console", "sh"):
                self.assertEqual(blocks(page, kind), blocks(other, kind), page.name)
            count = [len(re.findall(r"(?m)^#+ ", text)) for text in (page.read_text(), other.read_text())]
            self.assertEqual(count[0], count[1], page.name)
            questions = [len(re.findall(r"(?m)^\d\. .*[?？] ?—", text)) for text in (page.read_text(), other.read_text())]
            self.assertEqual(questions[0], questions[1], page.name)

    def test_every_chapter_has_a_checkpoint(self):
        chapters = [page for page in PAGES if page.name != "README.md"]
        self.assertEqual(len(chapters), 7)
        for page in chapters:
            self.assertIn("## Checkpoint\n", page.read_text(), page.name)

    def test_blocks_can_be_pasted(self):
        """A server's output does not mix with that of its client, the client starts after it, and a file that the server
        writes is read after its end."""
        for page in PAGES:
            for block in blocks(page, "console"):
                commands = [words for words, _ in readme_test.steps(block)]
                for at, words in enumerate(commands):
                    if not words.endswith("&"):
                        continue
                    self.assertRegex(words, SERVER, page.name)
                    self.assertEqual(commands[at + 1], START, page.name)
                    for file in re.findall(r"--pcap (\S+)", words):
                        readers = [i for i in range(at + 1, len(commands)) if file in commands[i]]
                        self.assertIn("wait", commands[at:readers[0]] if readers else ["wait"], f"{words} in {page.name}")

    def test_no_address_of_another_machine_in_a_command(self):
        for page in PAGES:
            for block in blocks(page, "console"):
                for words, _ in readme_test.steps(block):
                    self.assertLessEqual(set(re.findall(r"\d+\.\d+\.\d+\.\d+", words)), {"127.0.0.1"}, page.name)

    def test_every_concept_is_there(self):
        text = (LEARN / "3-verbs.md").read_text()
        for concept in ("**PD**", "**MR**", "**CQ**", "**QP**", "**WR and SGE**", "**AH**", "event channel", "**events**", "`rdma_conn_param`",
                        "GID", "**lkey**", "**rkey**", "**INIT**", "**RTR**", "**RTS**", "**ERR**"):
            self.assertIn(concept, text)

    def test_links_lead_somewhere(self):
        for page in [*PAGES, *map(translation, PAGES)]:
            text = page.read_text()
            for link in re.findall(r"\]\(([^):]+)\)", text):
                self.assertTrue((LEARN / link).resolve().exists(), f"{link} in {page.name}")
            for path in re.findall(r"`(src/[\w./]+)`", text):
                self.assertTrue((SOURCE / path).exists(), f"{path} in {page.name}")
            # Links stay within the reader's language.
            if page.name.endswith(".zh-CN.md"):
                self.assertEqual(re.findall(r"\]\((\d-[a-z_]+\.md)\)", text), [])

    def test_functions_that_pages_name_exist(self):
        for page in PAGES:
            for name in re.findall(r"`Channel::(\w+)`", page.read_text()):
                self.assertIn(f"Channel::{name}(", (SOURCE / "examples/verbs/channel.cc").read_text())


class Comparison(unittest.TestCase):
    def differs(self, expected, line):
        self.assertFalse(shown.fits([expected], [line]), f"{expected!r} accepts {line!r}")

    def equals(self, expected, line):
        self.assertTrue(shown.fits([expected], [line]), f"{expected!r} refuses {line!r}")

    def test_results_are_compared(self):
        self.differs("168894 bytes, their sum is 8148021", "168894 bytes, their sum is 7536915")
        self.differs("DMA length   2501   Octets of the whole message", "DMA length   100   Octets of the whole message")
        self.differs("16. ATOMIC compare and swap: the counter had reached 1200", "16. ATOMIC compare and swap: the counter had reached 1100")
        self.differs("9. Posted 16 receives", "9. Posted 8 receives")
        self.differs("1 0.5 10.0.0.1 > 10.0.0.2 RC SEND ONLY qp 0x000011 psn 1 len 1024", "1 0.5 10.0.0.1 > 10.0.0.2 RC SEND ONLY qp 0x000011 psn 1 len 976")
        self.differs("connect to 127.0.0.1:7309: refused", "connect to 127.0.0.2:7309: refused")
        self.differs("1", "2")

    def test_what_varies_is_not(self):
        self.equals("ok    kernel: Linux 6.1.0-40-amd64 on x86_64", "ok    kernel: Linux 6.18.0 on aarch64")
        self.equals("14. Latency: min 3.2 us, median 3.4 us, max 40.9 us", "14. Latency: min 10.0 us, median 11.5 us, max 940.1 us")
        self.equals("1 0.5 10.0.0.1 > 10.0.0.2 RC SEND ONLY qp 0x000011 psn 1 len 976", "  12   0.725  10.9.0.1 > 10.9.0.1  RC SEND ONLY  qp 0x0451ff  psn 77  len 976")
        self.differs("14. Latency: min 3.2 us, median 3.4 us, max 40.9 us", "14. Latency: min 3.2 us, median 3.4 us, max nan us")

    def test_lines_left_out(self):
        self.assertTrue(shown.fits(["a", "…", "d"], ["a", "b", "c", "d"]))
        self.assertFalse(shown.fits(["a", "…", "d"], ["a", "b", "c"]))
        self.assertFalse(shown.fits(["a"], ["a", "b"]))


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
