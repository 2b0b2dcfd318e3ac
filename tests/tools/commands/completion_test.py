# Tests the completion of rrdma in bash, zsh and fish. Argument: the command.
import os
import re
import shutil
import subprocess
import unittest

import command
from command import RRDMA, run


def environment():
    return {**os.environ, "PATH": f"{os.path.dirname(RRDMA)}:{os.environ['PATH']}"}


def offered(*words):
    """The completions of the last word, as bash shows them."""
    quoted = " ".join(f"'{word}'" for word in ("rrdma", *words))
    script = f"source <(rrdma completion bash); COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _rrdma; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, env=environment())
    if done.returncode != 0 or done.stderr:
        raise AssertionError(done.stderr)
    return done.stdout.split()


def answered(*words):
    """The words for any shell, with their meaning."""
    lines = run("complete-words", "--", *words)[0].splitlines()
    return dict(line.split("\t") if "\t" in line else (line, "") for line in lines)


class Completion(unittest.TestCase):
    def test_subcommands(self):
        self.assertGreaterEqual(set(offered("")), {"run", "devices", "gids", "stat", "explain", "doctor", "decode", "shell", "env", "help", "--help"})
        self.assertEqual(sorted(offered("de")), ["decode", "devices"])
        self.assertEqual(offered("doc"), ["doctor"])
        self.assertNotIn("complete-words", offered("comp"))

    def test_every_command_and_option_of_the_help(self):
        commands = [word for word in answered("") if not word.startswith("-")]
        self.assertGreater(len(commands), 15)
        for name in commands:
            for option in set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z][a-z-]+)", run(name, "--help")[0])):
                self.assertIn(option, answered(name, "--"), name)

    def test_behind_lab_fault_and_rpc(self):
        self.assertGreaterEqual(set(offered("lab", "")), {"up", "run", "shell", "cut", "heal", "show"})
        self.assertEqual(offered("lab", "up", "lea"), ["leaf-spine"])
        self.assertGreaterEqual(set(offered("fault", "")), {"set", "list", "clear", "words"})
        self.assertIn("--count", offered("fault", "set", "--c"))
        self.assertIn("port", " ".join(offered("fault", "set", "po")))
        self.assertGreaterEqual(set(offered("rpc", "")), {"list", "call"})
        self.assertIn("--timeout", offered("rpc", "call", "--"))

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
        self.assertEqual(offered("completion", ""), ["bash", "zsh", "fish"])

    def test_programs(self):
        self.assertIn("bash", offered("run", "bas"))
        self.assertIn("bash", offered("run", "--link", "shm", "--", "bas"))

    def test_option_without_a_value(self):
        self.assertIn("--lid", offered("run", "--l"))
        self.assertEqual(offered("run", "--lid", "--link", ""), ["auto", "shm", "udp"])

    def test_meanings(self):
        self.assertEqual(answered("doc"), {"doctor": re.search(r"(?m)^  doctor +(.*)$", run("--help")[0])[1]})

    def test_zsh_and_fish(self):
        for shell, words in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            script, _ = run("completion", shell)
            self.assertIn("complete-words --", script)
            if shutil.which(shell):
                done = subprocess.run([shell, *words, "/dev/stdin"], input=script, capture_output=True, text=True, timeout=30)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        if shutil.which("fish"):
            done = subprocess.run(["fish", "-c", "rrdma completion fish | source; complete -C 'rrdma lab u'"], capture_output=True, text=True,
                                  timeout=30, env=environment())
            self.assertRegex(done.stdout, r"^up\tCreate a lab")
        if shutil.which("zsh"):
            done = subprocess.run(["zsh", "-fc", "autoload -U compinit; compinit -u; source <(rrdma completion zsh); print $_comps[rrdma]"],
                                  capture_output=True, text=True, timeout=30, env=environment())
            self.assertEqual(done.stdout.strip(), "_rrdma", done.stderr)
        self.assertIn("bash, zsh and fish", run("completion", "csh", status=2)[1])


class Help(unittest.TestCase):
    def test_groups(self):
        text, _ = run("--help")
        for group in ("Run programs", "Look at programs and devices", "Capture and read packets", "Test with faults and networks"):
            self.assertRegex(text, rf"(?m)^{group}:$")

    def test_examples_are_right(self):
        """Each example names options that its command has."""
        commands = [word for word in answered("") if not word.startswith("-")]
        for name in commands:
            with self.subTest(name):
                text, _ = run(name, "--help")
                if name == "rpc":
                    continue
                examples = re.findall(r"(?m)^  (.*\brrdma .*)$", text.split("Examples:\n")[1].split("Exit status")[0])
                self.assertTrue(examples)
                for example in examples:
                    words = re.sub(r".*?\brrdma ", "", example).replace(")\"", "").split(" -- ")[0].split()
                    self.assertEqual(words[0], name)
                    known = run(*words[:2], "--help")[0] if name in ("lab", "fault", "link") else text
                    for option in re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", " ".join(words[1:])):
                        self.assertIn(option, known, example)


if __name__ == "__main__":
    command.main()
