"""Programs that sleep until an event comes must be woken: SENDs of all sizes around the ring's size, between ends
that sleep and ends that poll. The long form (soak) runs hundreds of pairs beside processes that occupy all cores,
and prints the state of both ends of a stalled pair.
"""

import pathlib
import subprocess
import sys
import time

from surroundings import LINKS, Host, Pair, ProcessTest, amount, main, report

RING = 1 << 20
SIZES = (1 << 16, RING - 4096, RING, RING + 1, 4 << 20)
STALLED_AFTER = 120  # seconds without progress: a busy machine is slow
ENDS = {"events": ["--events"], "polling": []}


def round_us(pair):
    return int(pair.last("a round took").split()[-2])


def volley(host, link, octets, server, client, rounds, patience=20):
    return Pair(host, host, "volley", f"--octets={octets}", f"--rounds={rounds}", f"--patience={patience}", environment=LINKS[link],
                server_words=ENDS[server], client_words=ENDS[client])


class Sizes(ProcessTest):
    def test_every_pair_of_ends(self):
        host = Host()
        for link in ("ring", "udp"):
            for octets in SIZES:
                times = {}
                for server in ENDS:
                    for client in ENDS:
                        pair = volley(host, link, octets, server, client, amount(5, 200)).succeed()
                        times[server, client] = round_us(pair)
                report(f"{link}, {octets} octets: " + ", ".join(f"{a}/{b} {us} us" for (a, b), us in times.items()))

    def test_sleeping_costs_no_more_than_it_must(self):
        """A round of 4 MiB takes at most three times as long by events as by polling. Uses the best of a few, because
        other processes run, too."""
        host = Host()
        ratios = []
        for _ in range(5):
            by_events = round_us(volley(host, "ring", 4 << 20, "events", "events", 15).succeed())
            by_polling = round_us(volley(host, "ring", 4 << 20, "polling", "polling", 15).succeed())
            ratios.append(by_events / by_polling)
            if ratios[-1] <= 3:
                break
        report("events to polling: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
        self.assertLessEqual(min(ratios), 3)


class Burden:
    """Processes that only use CPU time, as many as the wanted load."""

    def __init__(self, count):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            process.kill()
            process.wait()


def has_ended(pair):
    return all(program.process.poll() is not None for program in (pair.server, pair.client))


def progress_of(pair):
    """Returns a value that changes as long as the pair makes progress."""
    for program in (pair.server, pair.client):
        program.sample()
    return [program.counters.get(name, 0) for program in (pair.server, pair.client)
            for name in ("messages_sent", "messages_received", "octets_received")]


def without_progress(pairs):
    """Waits until all pairs end, or returns the first without progress for long."""
    seen = {pair: (None, 0) for pair in pairs}
    while True:
        for pair, (before, since) in seen.items():
            if has_ended(pair):
                continue
            now = progress_of(pair)
            if now != before:
                seen[pair] = (now, time.monotonic())
            elif time.monotonic() - since > STALLED_AFTER:
                return pair
        if all(map(has_ended, pairs)):
            return None
        time.sleep(0.2)


def state_of(program):
    """Describes a process without a debugger: where its threads wait, and the counters of its page."""
    lines = [str({name: value for name, value in program.counters.items() if value})]
    try:
        for thread in sorted(pathlib.Path(f"/proc/{program.pid}/task").iterdir()):
            name, place = ((thread / file).read_text(encoding="ascii").strip() for file in ("comm", "wchan"))
            lines.append(f"  thread {name} waits in {place}")
    except OSError as gone:
        lines.append(f"  not there any more: {gone}")
    return "\n".join(lines)


class UnderLoad(ProcessTest):
    def test_pairs_that_sleep(self):
        """Many pairs, a few at a time, at load 16: none stalls."""
        pairs_in_all, at_once, load = amount((4, 2, 0), (1000, 4, 16))
        host = Host()
        with Burden(load):
            done = 0
            while done < pairs_in_all:
                running = []
                for i in range(min(at_once, pairs_in_all - done)):
                    link = ("ring", "udp", "direct")[(done + i) % 3]
                    octets = (64, 4096, 1 << 16, RING, 4 << 20)[(done + i) % 5]
                    running.append((link, octets, volley(host, link, octets, "events", "events", 30, patience=10 * STALLED_AFTER)))
                if without_progress([pair for _, _, pair in running]) is not None:
                    self.show(running)
                for _, _, pair in running:
                    pair.succeed()
                done += len(running)
                if done % 100 == 0:
                    report(f"{done} pairs of {pairs_in_all}")
        report(f"{pairs_in_all} pairs at load {load}: none stalled")

    def show(self, running):
        """Prints both ends of every pair that has not ended."""
        for link, octets, pair in running:
            if has_ended(pair):
                continue
            print(f"stalled: {link}, {octets} octets", flush=True)
            for program in (pair.server, pair.client):
                program.sample()
                print(f"{program.name}: {state_of(program)}\n{program.output()}", flush=True)
        self.fail("a pair stalled")


if __name__ == "__main__":
    main()
