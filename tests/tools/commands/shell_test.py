# Tests the device for a whole shell (`rrdma shell`, `rrdma env`), the help, and the suggestions for misspelt words.
import json
import os
import re
import subprocess
import unittest

import command
import surroundings
from command import RRDMA, run, run_json


def shell(script, **variables):
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "RRDMA": RRDMA, **variables})
    return done.stdout + done.stderr, done.returncode


class Env(unittest.TestCase):
    def test_eval(self):
        output, status = shell('eval "$("$RRDMA" env)"; ibv_devinfo')
        self.assertEqual(status, 0, output)
        self.assertIn("rrdma0", output)

    def test_and_back(self):
        output, status = shell('eval "$("$RRDMA" env --log error)"; eval "$("$RRDMA" env --unset)"; env')
        self.assertEqual(status, 0, output)
        self.assertNotRegex(output, "(?m)^(LD_PRELOAD|RRDMA_LOG)=")

    def test_what_else_is_preloaded_stays(self):
        library = run_json("env", "--json")["LD_PRELOAD"]
        both = run_json("env", "--json", environment={"LD_PRELOAD": "libc.so.6"})["LD_PRELOAD"]
        self.assertEqual(both, f"{library}:libc.so.6")
        # Applying it twice has the same effect as once.
        self.assertEqual(run_json("env", "--json", environment={"LD_PRELOAD": both})["LD_PRELOAD"], both)
        self.assertIn("export LD_PRELOAD='libc.so.6'", run("env", "--unset", environment={"LD_PRELOAD": both})[0])

    def test_options_and_quotes(self):
        self.assertEqual(run_json("env", "--json", "--netdev", "eth0", "--lid")["RRDMA_NETDEV"], "eth0")
        folder = "/tmp/it's here"
        os.makedirs(folder, exist_ok=True)
        self.addCleanup(os.rmdir, folder)
        output, _ = shell(f"eval \"$(\"$RRDMA\" env --pcap \"{folder}/x\")\"; printenv RRDMA_PCAP")
        self.assertEqual(output, f"{folder}/x\n")
        for words in (("--netdev", "nosuch"), ("--fault", "drop=2"), ("--pcap", "/nonexistent/x"), ("--link", "smoke")):
            self.assertEqual(run("env", *words, status=2)[0], "", words)


class Shell(unittest.TestCase):
    def test_programs_in_it_have_the_device(self):
        done = subprocess.run([RRDMA, "shell", "--link", "udp"], input="ibv_devinfo; echo link $RRDMA_LINK; exit 7\n", capture_output=True, text=True, timeout=60,
                              env={**os.environ, "SHELL": "/bin/sh"})
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("rrdma0", done.stdout)
        self.assertIn("link udp", done.stdout)

    def test_the_command_itself_works_in_it(self):
        done = subprocess.run([RRDMA, "shell"], input=f"'{RRDMA}' stat --json\n'{RRDMA}' gids\n", capture_output=True, text=True, timeout=60,
                              env={**os.environ, "SHELL": "/bin/sh"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"processes"', done.stdout)
        self.assertIn("10.9.0.1", done.stdout)

    def test_no_such_shell(self):
        _, error = run("shell", status=2, environment={"SHELL": "/nonexistent/shell"})
        self.assertIn("/nonexistent/shell", error)


class Lost(unittest.TestCase):
    def commands(self):
        return re.findall(r"(?m)^  ([a-z]+) ", run("--help")[0])

    def test_help(self):
        self.assertEqual(run("help")[0], run("--help")[0])
        for name in self.commands():
            self.assertEqual(run("help", name)[0], run(name, "--help")[0], name)
        self.assertIn("rrdma run [OPTIONS] [--] PROGRAM [ARGS...]", run("run", "--help")[0])

    def test_did_you_mean(self):
        for word, meant in (("stta", "stat"), ("decdoe", "decode"), ("explian", "explain"), ("device", "devices")):
            self.assertIn(f"did you mean '{meant}'?", run(word, status=2)[1])
        self.assertIn("did you mean 'stat'?", run("help", "sta", status=2)[1])
        self.assertIn("'rrdma help' lists the commands", run("frobnicate", status=2)[1])
        self.assertIn("did you mean '--netdev'?", run("devices", "--netdv", "eth0", status=2)[1])
        self.assertIn("did you mean '--json'?", run("stat", "--jsno", status=2)[1])

    def test_run_blames_the_option_that_is_none(self):
        for words in (("--no-such", "--", "true"), ("--no-such", "true"),("-x", "--", "true"), ("--lid", "--no-such", "--", "true")):
            error = run("run", *words, status=125)[1]
            self.assertIn("--no-such" if "--no-such" in words else "-x", error)
            self.assertNotIn("true", error)

    def test_gids_of_a_device(self):
        self.assertEqual(run("gids", "rrdma0"), run("gids"))
        _, error = run("gids", "rrdma7", status=2)
        self.assertIn("there is no device 'rrdma7'", error)
        self.assertIn("rrdma0", error)

    def test_lo_is_down(self):
        """The remedy is to bring it up, not to give it an address."""
        done = subprocess.run(["unshare", "--net", RRDMA, "gids"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("ip link set lo up", done.stderr)
        self.assertNotIn("ip addr add", done.stderr)


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
