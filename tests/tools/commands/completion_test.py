# Tests the bash completion of rrdma. Arguments: the command, the source tree.
import os
import pathlib
import subprocess
import sys
import unittest

import command
from command import RRDMA

SCRIPT = pathlib.Path(sys.argv[2]) / "packaging/completion/rrdma.bash"


def offered(*words):
    """The completions of the last word."""
    quoted = " ".join(f"'{word}'" for word in ("rrdma", *words))
    script = f"source {SCRIPT}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _rrdma; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30,
                          env={**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}"})
    if done.returncode != 0 or done.stderr:
        raise AssertionError(done.stderr)
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_subcommands(self):
        self.assertGreaterEqual(set(offered("")), {"run", "devices", "gids", "stat", "explain", "doctor", "decode", "shell", "env", "help", "--help"})
        self.assertEqual(offered("de"), ["decode", "devices"] if offered("de")[0] == "decode" else ["devices", "decode"])
        self.assertEqual(offered("doc"), ["doctor"])

    def test_options(self):
        self.assertEqual(offered("stat", "--wa"), ["--watch"])
        self.assertIn("--peer", offered("doctor", "--"))

    def test_values(self):
        self.assertEqual(offered("run", "--link", ""), ["auto", "shm", "udp"])
        self.assertIn("lo", offered("devices", "--netdev", ""))
        self.assertEqual(offered("explain", "IBV_WC_RNR"), ["IBV_WC_RNR_RETRY_EXC_ERR"])

    def test_words_of_commands(self):
        self.assertIn("stat", offered("help", "st"))
        self.assertEqual(offered("decode", "err"), ["errors"])
        self.assertIn("resent", offered("top", "--sort", ""))

    def test_programs(self):
        self.assertIn("bash", offered("run", "bas"))

    def test_option_without_a_value(self):
        self.assertIn("--lid", offered("run", "--l"))
        self.assertEqual(offered("run", "--lid", "--link", ""), ["auto", "shm", "udp"])


if __name__ == "__main__":
    command.main()
