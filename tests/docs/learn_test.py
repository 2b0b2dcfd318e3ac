# Checks docs/learn: runs every command and compares its output with the page, and checks that both languages show the
# same commands and that links are valid. Arguments: the command, the source tree, the folder of the built examples.
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(sys.argv[2])
EXAMPLES = sys.argv[3]
sys.path.insert(0, str(SOURCE / "tests/tools"))

import command
import readme_test
import surroundings
from command import run

LEARN = SOURCE / "docs/learn"
# The time that a server has to end by itself before the next command runs.
SERVER_SECONDS = 5
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
        """Follows a block as a reader does: a server ends after its clients were served, at the latest at the end of
        the block."""
        background = []
        try:
            for words, expected in readme_test.steps(block):
                if words.endswith("&"):
                    self.start(words[:-1], background)
                    continue
                done = subprocess.run(["sh", "-c", words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
                lines = [line for line in done.stdout.splitlines() if line.strip()]
                self.assertTrue(readme_test.fits(expected, lines),
                                f"$ {words}\n{done.stdout}\nis not what the page shows:\n" + "\n".join(expected))
                end = time.monotonic() + SERVER_SECONDS
                while any(process.poll() is None for process in background) and time.monotonic() < end:
                    time.sleep(0.05)
            for process in background:
                self.assertEqual(process.wait(30), 0, block)
        finally:
            for process in background:
                process.kill()
                process.wait()

    def follow_page(self, name):
        shown = blocks(LEARN / name, "console")
        self.assertTrue(shown)
        for block in shown:
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

    def test_every_stage_has_a_checkpoint(self):
        for page in PAGES[:3]:
            self.assertIn("## Checkpoint\n", page.read_text(), page.name)

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


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
