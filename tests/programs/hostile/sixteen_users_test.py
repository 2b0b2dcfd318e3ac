"""A system daemon with sixteen users, one of them hostile: fifteen users exchange messages through the daemon's relay while the
sixteenth runs every attack at once (all_attacks.cc). They keep at least 0.8 of their throughput and lose no connection. The
daemon's loop, which the relay does not need, answers another user in time.

The throughput to compare with is measured while the sixteenth user runs as many processes that only compute. Otherwise the test
would measure how the kernel divides the cores. Both are measured in turn; the median of the rounds counts, so that one
disturbance from outside does not decide. Needs root. Arguments: --products BUILD, --attacks PROGRAM."""

import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "programs/process"), str(HERE.parents[1] / "harness")]

from namespaces import SKIPPED, call  # noqa: E402
from surroundings import Host, Settings, Stage, read_page, wait_until  # noqa: E402

USERS, FIRST_UID = 15, 54400
SETTLING_S, MEASURED_S, ROUNDS = 4, 10, 5
BUSY_PROCESSES = 4  # as many as all_attacks has
ANSWER_S = 3


class Process:
    """A program of one user in the host."""

    def __init__(self, host, uid, *words):
        self.uid, self.words = uid, [str(word) for word in words]
        folder = Stage.prefix.scratch / str(uid)
        folder.mkdir(exist_ok=True)
        os.chown(folder, uid, uid)
        self.path = folder / f"output-{time.monotonic_ns()}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "RRDMA_LINK": "udp",
                       "RRDMA_LOG": "error"}
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                            env=environment, cwd=folder, preexec_fn=lambda: self.become(host))

    def become(self, host):
        os.setsid()
        host.enter()
        os.setgroups([])
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)
        call("prctl", 1, signal.SIGKILL, 0, 0, 0)

    def messages(self):
        """The messages that it has sent so far, by its process page."""
        for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # descriptors come and go; check() sees a process that has ended
                if "memfd:rrdma-process" in os.readlink(entry):
                    with open(entry, "rb") as page:
                        return (read_page(page.read(16384)) or {}).get("messages_sent", 0)
        return 0

    def end(self):
        """Ends its whole group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_pair(host, uid, port):
    words = [Stage.prefix.program("rrdma"), "run", "--", Stage.prefix.program("exchange"), "--messages=100000000", "--octets=2000",
             "--window=8", "--timeout=18", "--events"]
    return [Process(host, uid, *words, f"--listen={port}"), Process(host, uid, *words, f"--connect=127.0.0.1,{port}")]


def cpu_seconds(uid):
    """The processor time of a user's processes that run in this moment."""
    ticks = 0
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == uid:
                fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue  # it has ended
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(host, pairs):
    """Messages of each user in a second, and the longest time in which the daemon answered a user that came just then."""
    before = [sum(one.messages() for one in pair) for pair in pairs]
    slowest, begin = 0, time.monotonic()
    while (now := time.monotonic()) < begin + MEASURED_S:
        newcomer = Process(host, FIRST_UID + USERS + 1, Stage.prefix.program("rrdma"), "stat")
        check(newcomer.process.wait(60) == 0, newcomer.path.read_text(errors="replace"), pairs)
        slowest = max(slowest, time.monotonic() - now)
        time.sleep(max(now + 1 - time.monotonic(), 0))
    elapsed = time.monotonic() - begin
    return [(sum(one.messages() for one in pair) - old) / elapsed for pair, old in zip(pairs, before)], slowest


def run(attacks):
    host = Host()
    host.start_system_daemon()
    pairs = [start_pair(host, FIRST_UID + user, 21000 + user) for user in range(USERS)]
    others = []
    try:
        flowing = wait_until(lambda: all(one.messages() > 100 for pair in pairs for one in pair), 60, 0.2)
        check(flowing, "some users never connected", pairs)
        shares, by_user = [], [[] for _ in range(USERS)]
        for number in range(ROUNDS):
            mallory = FIRST_UID + USERS
            others = [Process(host, mallory, "sh", "-c", "while :; do :; done") for _ in range(BUSY_PROCESSES)]
            time.sleep(SETTLING_S)
            used = cpu_seconds(mallory)
            calm, _ = measure(host, pairs)
            used_calm = cpu_seconds(mallory) - used
            for process in others:
                process.end()
            others = [Process(host, mallory, attacks, SETTLING_S + MEASURED_S + 4)]
            time.sleep(SETTLING_S)
            used = cpu_seconds(mallory)
            busy, slowest = measure(host, pairs)
            used_busy = cpu_seconds(mallory) - used
            others[0].process.wait(60)
            print(others[0].path.read_text(errors="replace").splitlines()[-1], flush=True)
            check(others[0].process.returncode == 0, "the attacks died", pairs)
            shares.append(sum(busy) / sum(calm))
            for user, (after, before) in enumerate(zip(busy, calm)):
                by_user[user].append(after / max(before, 1))
            print(f"round {number + 1}: {sum(calm):.0f} messages/s beside a busy user, {sum(busy):.0f} beside a hostile one: "
                  f"{shares[-1]:.2f}; processor time of that user {used_calm:.1f} s and {used_busy:.1f} s; slowest answer "
                  f"{slowest:.2f} s", flush=True)
            check(slowest < ANSWER_S, f"the daemon answered after {slowest:.2f} s", pairs)
        share = statistics.median(shares)
        each = sorted(statistics.median(ratios) for ratios in by_user)
        print(f"median of the rounds: {share:.2f} of the throughput; by user {each[0]:.2f} to {each[-1]:.2f}", flush=True)
        check(True, "", pairs)
        check(share >= 0.8, f"the users kept {share:.2f} of their throughput", pairs)
        check(each[0] >= 0.5, f"one user kept {each[0]:.2f} of its throughput", pairs)
    finally:
        for process in [one for pair in pairs for one in pair] + others:
            process.end()
    return 0


def check(condition, what, pairs):
    for one in (one for pair in pairs for one in pair):
        if one.process.poll() is not None:
            raise SystemExit(f"user {one.uid} has lost its connection: {one.path.read_text(errors='replace')[-2000:]}")
    if not condition:
        raise SystemExit(what)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--products", required=True)
    parser.add_argument("--attacks", required=True)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root for the users of a system daemon")
        sys.exit(SKIPPED)
    Settings.products = options.products
    Stage.open()
    copy = Stage.prefix.binaries / "all_attacks"
    copy.write_bytes(pathlib.Path(options.attacks).read_bytes())
    copy.chmod(0o755)
    sys.exit(run(str(copy)))
