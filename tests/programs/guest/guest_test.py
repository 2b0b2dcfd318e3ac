"""The good guest: a program with RRDMA inside behaves as it would without, whatever it does to its own
process."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs/process"))

from surroundings import Host, ProcessTest, Settings, Stage, amount, main, report, wait_until  # noqa: E402


def cases():
    listing = subprocess.run([Stage.prefix.program("guest")], capture_output=True, text=True, check=True, timeout=30)
    return listing.stdout.split()


class Guest(ProcessTest):
    # Each has a test of its own, which prepares something first.
    PREPARED = {"full_disk", "steady_traffic", "idle", "many_queue_pairs"}
    # A sanitizer takes more address space than these leave. ThreadSanitizer replaces the handlers that a
    # program installs, which these cases test.
    TOO_MUCH_FOR_SANITIZERS = {
        "": set(), "thread": {"little_address_space", "handler_after", "ignored_faults_end_the_program"},
    }.get(os.environ.get("GUEST_SANITIZED", ""), {"little_address_space"})

    def test_cases(self):
        host = Host()
        environment = {"GUEST_THREADS": str(amount(64, 1024))}
        for case in cases():
            if case in self.PREPARED | self.TOO_MUCH_FOR_SANITIZERS:
                continue
            with self.subTest(case):
                program = host.run("guest", case, seconds=amount(120, 1200), environment=environment)
                said = program.output().splitlines()
                self.assertEqual(said[-1:], ["fine"])
                for line in said[:-1]:
                    report(f"{case}: {line}")

    def test_many_queue_pairs(self):
        program = Host().run("guest", "many_queue_pairs", seconds=amount(120, 1200),
                             environment={"GUEST_QPS": os.environ.get("GUEST_QPS", str(amount(2000, 65000)))})
        for line in program.output().splitlines()[:-1]:
            report(line)

    # Here the case itself causes valgrind's reports: it touches unmapped memory, or leaves valgrind no
    # descriptors or address space.
    TOO_MUCH_FOR_VALGRIND = {"handler_before", "handler_after", "ignored_faults_end_the_program", "alternate_stack",
                             "few_descriptors", "little_address_space", "nobody_reads_what_we_say"}

    def test_under_valgrind(self):
        if not Settings.soak or shutil.which("valgrind") is None:
            self.skipTest("a minute long, and with valgrind")
        valgrind = ["valgrind", "-q", "--error-exitcode=99", "--trace-children=yes", "--trace-children-skip=*/rrdma,*/rrdmad"]
        host = Host()
        for case in cases():
            if case in self.PREPARED | self.TOO_MUCH_FOR_VALGRIND:
                continue
            with self.subTest(case):
                program = host.run("guest", case, seconds=240, prefix=valgrind, environment={"GUEST_THREADS": "16"})
                self.assertNotIn("\n==", "\n" + program.output())

    def test_one_core(self):
        host = Host()
        core = str(min(os.sched_getaffinity(0)))
        for case in ("fork_and_go_on", "many_threads", "close_all_by_closefrom", "all_signals_blocked"):
            host.run("guest", case, seconds=120, prefix=["taskset", "-c", core])

    def test_full_disk(self):
        """The runtime directory is on a file system with no space left."""
        if os.geteuid() != 0 or Stage.in_user_namespace:
            self.skipTest("needs root to mount a small file system")
        host = Host()
        small = Stage.prefix.scratch / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", str(small)], check=True, timeout=20)
        try:
            (small / "ballast").write_bytes(bytes(40 * 1024))
            environment = {"XDG_RUNTIME_DIR": str(small), "RRDMA_LOG": ""}
            program = host.start("guest", "full_disk", environment=environment)
            program.succeed(60)
            self.assertIn("fine", program.output())
        finally:
            Stage.end_all()
            subprocess.run(["umount", "-l", str(small)], check=True, timeout=20)


def add_port(host):
    """Adds an interface that can change and go: one end of a cable whose other end is unused."""
    host.ip("link", "add", "port", "type", "veth", "peer", "name", "far")
    host.ip("address", "add", "10.78.0.1/24", "dev", "port")
    for end in ("far", "port"):
        host.ip("link", "set", end, "up")


class Network(ProcessTest):
    """The interface changes while the program uses it."""

    def test_interface_comes_and_goes(self):
        host = Host()
        add_port(host)
        host.environment["RRDMA_NETDEV"] = "port"
        for link in ("udp", "shm"):
            program = host.start("guest", "steady_traffic", environment={"RRDMA_LINK": link})
            program.await_line("talking")
            for change in (("link", "set", "port", "mtu", "1280"), ("link", "set", "port", "mtu", "9000"),
                           ("link", "set", "port", "down"), ("link", "set", "port", "up"),
                           ("address", "add", "10.78.0.9/24", "dev", "port"), ("address", "del", "10.78.0.9/24", "dev", "port")):
                host.ip(*change)
            wait_until(lambda: False, 0.3)
            program.process.stdin.close()
            program.succeed(60)
            report(f"{link}: {program.output().splitlines()[-2]}")

    def test_interface_is_removed_and_made_again(self):
        host = Host()
        add_port(host)
        host.environment["RRDMA_NETDEV"] = "port"
        program = host.start("guest", "idle")
        program.await_line("idle")
        host.ip("link", "del", "port")
        add_port(host)
        program.process.stdin.close()
        program.succeed(60)
        host.run("guest", "fork_and_go_on")

    def test_vlan(self):
        host = Host()
        add_port(host)
        try:
            host.ip("link", "add", "link", "port", "name", "port.7", "type", "vlan", "id", "7")
        except subprocess.CalledProcessError:
            self.skipTest("this kernel has no VLANs (8021q)")
        host.ip("address", "add", "10.79.0.1/24", "dev", "port.7")
        host.ip("link", "set", "port.7", "up")
        host.environment["RRDMA_NETDEV"] = "port.7"
        for link in ("udp", "shm"):
            host.run("guest", "fork_and_go_on", environment={"RRDMA_LINK": link})


if __name__ == "__main__":
    main()
