# Checks the pages under docs/: runs every block of commands and compares the output, as for README (readme_test.py),
# and runs the other blocks as far as one machine can. Every document of the tree must be in an index. Arguments: the
# command, the source tree.
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
import readme_test
import servers
import surroundings
from command import RRDMA, run
from readme_test import blocks

PAGES = ["docs/README.md", "docs/ci.md", "docs/containers.md", "docs/install.md", "docs/mpi.md", "docs/networks.md", "docs/one-host.md", "docs/usage.md", "docs/users.md"]
# Blocks of other kinds, by their first word, and the closest test that is possible without Docker, GitHub, systemd
# and a second machine.
OTHER_BLOCKS = {
    "docs/ci.md": [("yaml", "steps:")],  # Workflow
    "docs/containers.md": [("sh", "docker"), ("sh", "docker"), ("dockerfile", "ENV")],  # packaging.deb follows the Dockerfile in a clean root
    "docs/install.md": [("sh", "curl")],  # delivery.install
    "docs/mpi.md": [("sh", "mpirun")],  # Mpi
    "docs/networks.md": [("sh", "rrdma")],  # TwoMachines
    "docs/users.md": [("sh", "systemctl")],  # packaging.deb
}


def documents():
    """Every document of the tree."""
    listed = subprocess.run(["git", "-C", SOURCE, "-c", f"safe.directory={SOURCE}", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        found = listed.stdout.split()
    else:
        found = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.md")]
    return [pathlib.Path(path) for path in found if (SOURCE / path).exists() and not path.startswith("build") and "node_modules" not in path]


def links(document):
    """The link targets within the tree, as paths from the top; tidy checks that they exist."""
    text = (SOURCE / document).read_text()
    return {pathlib.Path(os.path.normpath(document.parent / path)) for path in re.findall(r"\]\(([^():#\s]+)", text)}


class Commands(readme_test.Blocks):
    """Follows each page from its beginning to its end."""

    test_readme = None
    test_a_wrong_document_is_found = None

    def test_pages(self):
        followed = 0
        for page in sorted((SOURCE / "docs").glob("*.md")):
            for block in blocks(page, "console"):
                with self.subTest(page.name):
                    self.follow(block)
                followed += 1
        self.assertGreater(followed, 8)


class Pages(unittest.TestCase):
    def test_no_block_is_left_out(self):
        for page in PAGES:
            text = (SOURCE / page).read_text()
            self.assertLessEqual(set(re.findall(r"^ *```(\S*)$", text, re.M)), {"", "console", "dockerfile", "sh", "yaml"}, page)
            self.assertNotIn("\n    rrdma ", text, f"{page}: a command that nobody runs")
            shown = [(kind, block.split()[0]) for kind in ("sh", "yaml", "dockerfile") for block in blocks(page, kind)]
            self.assertEqual(shown, OTHER_BLOCKS.get(page, []), page)

    def test_every_document_is_in_an_index(self):
        indices = [pathlib.Path(path) for path in ("docs/README.md", "docs/adr/README.md", "docs/learn/README.md", "docs/learn/README.zh-CN.md")]
        listed = set().union(*map(links, indices))
        # `rrdma --help` is the index of the pages of commands; docs.text compares the two.
        pages = {path.relative_to(SOURCE) for path in (SOURCE / "docs/man").iterdir() if not path.match("rrdma-*.1")}
        unlisted = {pathlib.Path("docs/README.md"), pathlib.Path("docs/adr/template.md")}
        missing = {str(path) for path in pages | set(documents()) - unlisted if path not in listed and path.parts[0] != ".github"}
        self.assertEqual(missing, set())


class CommandsElsewhere(unittest.TestCase):
    """Commands that need a virtual machine, a GPU, root or hours; targets of the Makefile and packaging.deb run them. Each must exist, with its
    options. docs.testing runs those of docs/testing-with-rrdma.md."""
    PAGES = ("CONTRIBUTING.md", "docs/gpu.md", "docs/interop.md", "docs/kernel.md", "docs/kernel.zh-CN.md", "docs/performance.md")

    def commands(self, page):
        """Indented lines that begin with a program, without settings before it and comments behind it."""
        for line in re.findall(r"^    (\S.*)$", (SOURCE / page).read_text(), re.M):
            words = re.sub(r"\s+#.*", "", re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line)).split()
            if words and words[0] in ("make", "python3", "rrdma", "rrdmad", "cmake", "ctest"):
                yield words

    def check_make(self, words):
        if words[1] == "-C":
            return self.assertTrue((SOURCE / words[2] / "Makefile").exists(), words)
        self.assertRegex((SOURCE / "Makefile").read_text(), rf"(?m)^{words[1]}:.*## ")

    def check_python3(self, words):
        text = (SOURCE / words[1]).read_text()
        for option in (word for word in words if word.startswith("--")):
            self.assertIn(f'"{option}"', text, words)

    def check_rrdma(self, words):
        own = words[:words.index("--")] if "--" in words else words
        helped = run(own[1], "--help")[0]
        for option in (word for word in own if word.startswith("--")):
            self.assertIn(option, helped, words)

    def check_rrdmad(self, words):
        helped = subprocess.run([os.path.join(os.path.dirname(RRDMA), "rrdmad"), "--help"], capture_output=True, text=True, timeout=30).stdout
        for option in (word for word in words if word.startswith("--")):
            self.assertIn(option, helped, words)

    def check_cmake(self, words):
        target = words[words.index("--target") + 1]
        # The unit test of a layer gets its name from the layer.
        layer = re.fullmatch(r"unit_(\w+)_test", target)
        found = any(re.search(rf"add_executable\({target}\b|rrdma_layer\({layer[1] if layer else target}\b", path.read_text())
                    for path in SOURCE.rglob("CMakeLists.txt") if "build" not in path.parts[len(SOURCE.parts)])
        self.assertTrue(found, words)

    def check_ctest(self, words):
        if "--preset" in words:
            self.assertIn(f'"{words[words.index("--preset") + 1]}"', (SOURCE / "CMakePresets.json").read_text())

    def test_each_exists(self):
        for page in self.PAGES:
            found = list(self.commands(page))
            self.assertTrue(found, page)
            for words in found:
                with self.subTest(page, command=" ".join(words)):
                    getattr(self, f"check_{words[0]}")(words)

    def test_no_page_is_left_out(self):
        with_commands = {str(path) for path in documents() if path.parts[0] == "docs" and path.parent.name == "docs" and any(self.commands(path))}
        self.assertEqual(with_commands - set(self.PAGES), {"docs/testing-with-rrdma.md"})


class Mpi(unittest.TestCase):
    PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char** words) {
  int rank, sum = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  rank += 40;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 40) printf("sum %d\\n", sum);
  return MPI_Finalize();
}
"""

    def test_mpirun(self):
        if shutil.which("mpirun") is None or shutil.which("mpicc") is None:
            self.skipTest("Open MPI is not installed")
        (words,) = blocks("docs/mpi.md", "sh")
        # Settings that root needs in a namespace with two CPUs.
        environment = {**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["mpicc", "-x", "c", "-", "-o", f"{folder}/my_mpi_program"], input=self.PROGRAM, text=True, check=True)
            # As written, and with the option that the text mentions for several machines.
            for line in (words, words.replace("-np 2", "-np 2 --host localhost,localhost")):
                done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("sum 81", done.stdout)


class Workflow(unittest.TestCase):
    def test_the_step_of_a_job(self):
        """Runs the workflow step of docs/ci.md, with a program of Debian as the user's test."""
        (step,) = re.findall(r"run: (.*)", blocks("docs/ci.md", "yaml")[0])
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(shutil.which("ibv_devinfo"), f"{folder}/my_rdma_test")
            done = subprocess.run(["bash", "-e", "-c", step], cwd=folder, env={**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("rrdma0", done.stdout)


class TwoMachines(unittest.TestCase):  # the last one: the cable disappears with the other machine
    def test_between_two_machines(self):
        from doctor_test import FarHost
        server_words, client_words = blocks("docs/networks.md", "sh")[0].strip().splitlines()
        rrdma = os.path.dirname(RRDMA)
        with FarHost() as far:
            before = servers.open_ports() | servers.open_ports(far.anchor.pid)
            for attempt in range(3):
                server = subprocess.Popen(far.inside("sh", "-c", f"PATH={rrdma}:$PATH exec {server_words}"), stdout=subprocess.DEVNULL)
                servers.await_server(server, before, server_words.split())
                self.assertIn("10.9.0.2 answers on UDP port 4791", run("doctor", "--peer", "10.9.0.2")[0])
                done = subprocess.run(["sh", "-c", f"PATH={rrdma}:$PATH exec " + client_words.replace("ADDRESS-OF-THE-FIRST", "10.9.0.2")],
                                      capture_output=True, text=True, timeout=60)
                status = server.wait(30)
                # perftest prints no report if the machine is too busy to determine the clock rate.
                if "Correlation coefficient" not in done.stdout:
                    break
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(status, 0)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
