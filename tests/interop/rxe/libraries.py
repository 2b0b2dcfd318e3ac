"""The libraries on the kernel's device: runs the tests of rrdma::comm and rrdma::rpc on rxe alone, inside the
guest. Then runs every operation and call between RRDMA and rxe, with each as the server once."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import host
from beside import Finding

PORT = 18800
ACROSS_SECONDS = 120
SERVER_SECONDS = 30
AGAIN = 2
PATIENCE = 60  # seconds for each step of a test in the guest
# Tests that the guest omits. An emulated processor needs a millisecond for a few microseconds of real work.
# These tests move or count much, so they take too long there, and they test the library just as well on
# RRDMA.
TOO_MUCH = {"comm_test": ["Tasks.AStopThatComesTooLate"], "rpc_test": ["Limits.CancellingWhileTheArgumentIsRead"]}
SHORT = {"comm_test": ["Messages.*", "OneSided.*", "Windows.*", "Connections.BothEndsKnowEachOther", "Connections.RefusedWithAReason",
                       "Closing.EverythingSentArrives", "Datagrams.*", "Withdrawing.OneSidedOperations", "Forged.*"],
         "rpc_test": ["Unary.*", "Streams.Of*"]}
# Either installed with the guest's programs, or in use by everything and not replaceable.
LEFT_OUT = ("ld-linux", "libc.so", "libm.so", "libstdc++", "libgcc_s", "libibverbs", "librdmacm", "libnl-")


def failed_in(output):
    return sorted(set(re.findall(r"\[  FAILED  \] (\w+\.\w+)", output)))


class LibraryRunner:
    def __init__(self, guest, rrdma, build, picture, quick, say):
        self.guest, self.rrdma, self.quick, self.say = guest, rrdma, quick, say
        self.install(Path(build), picture)

    def install(self, build, picture):
        """Copies the programs and the libraries that the guest lacks into its memory, because its share is
        slow to read."""
        staged = self.guest.share / "libraries"
        staged.mkdir()
        for name in ("comm_test", "comm_swarm", "comm_across", "rpc_test", "rpc_across"):
            self.rrdma.add_program(build / "bin" / name)
            subprocess.run(["strip", "-o", str(staged / name), str(build / "bin" / name)], check=True)
        root = self.guest.share / "root"
        picture.add_libraries(root, build / "bin/rpc_test")
        for path in root.rglob("*"):
            if path.is_file() and not path.name.startswith(LEFT_OUT):
                shutil.copy(path, staged)
                self.rrdma.add_program(path, "lib")
        shutil.rmtree(root)
        self.guest.run("mkdir -p /run/libraries; cp /share/libraries/* /run/libraries")

    def run(self):
        findings = []
        for check in (self.operations_on_rxe, self.swarm_on_rxe, self.calls_on_rxe, self.operations_with_our_server, self.operations_with_rxe_as_server,
                      self.calls_with_our_server, self.calls_with_rxe_as_server):
            finding = Finding((check.__doc__ or check.__name__).strip().rstrip("."))
            begin = time.monotonic()
            try:
                finding.name += f": {check()}"
            except (AssertionError, RuntimeError) as trouble:
                finding.troubles.append(str(trouble)[-1500:])
            self.say(f"{'pass' if finding.passed else 'FAIL'}  {finding.name}  {time.monotonic() - begin:.1f} s"
                     + "".join(f"\n      {line}" for line in finding.troubles))
            findings.append(finding)
        return findings

    # --- running programs ------------------------------------------------------------------------------

    def in_guest(self, command):
        return f"env RRDMA_TEST_PATIENCE={PATIENCE} LD_LIBRARY_PATH=/run/libraries /run/libraries/{command}"

    def tests(self, program, seconds):
        """Runs a test program and repeats the tests that fail. Their deadlines assume that a processor is
        available, and the guest may get none for a while. A real defect fails every time."""
        wanted = ":".join(SHORT[program]) if self.quick else "*"
        output = self.run_tests(program, f"{wanted}-{':'.join(TOO_MUCH[program])}", seconds)
        (ran,) = re.findall(r"] (\d+ tests?) from .* ran", output)
        failed = again = failed_in(output)
        for _ in range(AGAIN):
            if again:
                output = self.run_tests(program, ":".join(again), seconds)
                again = failed_in(output)
        assert not again, output
        return ran + (f" ({', '.join(failed)} once more)" if failed else "")

    def run_tests(self, program, choice, seconds):
        request = self.guest.start_script(f"exec timeout -k 2 {seconds} " + self.in_guest(f"{program} --gtest_brief=1 '--gtest_filter={choice}'"))
        code = request.wait(seconds + 10)
        assert code in (0, 1) and " ran. (" in request.output, f"{program}: exit code {code}: {request.output}"
        return request.output

    def across(self, program, client_word, rrdma_serves):
        """Runs both ends of a program; returns the client's output."""
        global PORT
        PORT += 1
        serve = f"{program} serve {host.ADDRESS4 if rrdma_serves else host.GUEST4}:{PORT}"
        ask = f"{program} {client_word} {host.ADDRESS4 if rrdma_serves else host.GUEST4}:{PORT}"
        server = self.ours(serve, "server") if rrdma_serves else self.theirs(serve)
        client = None
        try:
            end = time.monotonic() + SERVER_SECONDS
            while "listening" not in server.output:
                assert time.monotonic() < end and server.exit_code() is None, f"the server does not listen: {server.output}"
                time.sleep(0.05)
            client = self.theirs(ask) if rrdma_serves else self.ours(ask, "client")
            code = client.wait(ACROSS_SECONDS)
            assert code == 0, f"client: exit code {code}: {client.output}\nserver: {server.output}"
            if program == "comm_across":
                code = server.wait(SERVER_SECONDS)
                assert code == 0, f"server: exit code {code}: {server.output}"
            return client.output.strip()
        finally:
            for one in (server, client):
                if isinstance(one, host.Program):
                    one.stop()
            self.guest.run("for pid in $(pidof comm_across rpc_across); do kill $pid; done; true")

    def ours(self, command, name):
        program, *rest = command.split()
        words = self.rrdma.run([str(self.rrdma.stage / "bin" / program), *rest])
        environment = {"LD_LIBRARY_PATH": str(self.rrdma.stage / "lib"), "RRDMA_TEST_PATIENCE": str(PATIENCE)}
        return host.Program(words, self.guest.folder / f"{name}.out", environment)

    def theirs(self, command):
        return self.guest.start_program(self.in_guest(command), ACROSS_SECONDS + SERVER_SECONDS)

    # --- the rows --------------------------------------------------------------------------------------

    def operations_on_rxe(self):
        """The tests of rrdma::comm on rxe0 alone"""
        return self.tests("comm_test", 200 if self.quick else 550)

    def swarm_on_rxe(self):
        """Random operations of rrdma::comm with an oracle on rxe0 alone"""
        seeds = 10 if self.quick else 60
        return self.guest.run(self.in_guest(f"comm_swarm 1 {seeds}"), 200).strip()

    def calls_on_rxe(self):
        """The tests of rrdma::rpc on rxe0 alone"""
        return self.tests("rpc_test", 120 if self.quick else 550)

    def operations_with_our_server(self):
        """Every operation of rrdma::comm: RRDMA serves, rxe is the client"""
        return self.across("comm_across", "talk", True)

    def operations_with_rxe_as_server(self):
        """Every operation of rrdma::comm: rxe serves, RRDMA is the client"""
        return self.across("comm_across", "talk", False)

    def calls_with_our_server(self):
        """Calls of rrdma::rpc: RRDMA serves, rxe is the client"""
        return self.across("rpc_across", "call", True)

    def calls_with_rxe_as_server(self):
        """Calls of rrdma::rpc: rxe serves, RRDMA is the client"""
        return self.across("rpc_across", "call", False)
