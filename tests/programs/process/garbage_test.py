"""Hostile input: random and mutated datagrams at port 4791, correct packets that are not from the peer, and a process
of the same user that scribbles in shared memory. No program crashes, no other program stalls, and everything is
counted."""

import random
import time

from packets import Sender, any_transport, mutated
from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, Task, amount, daemons, main, report

QP1 = 1
MULTICAST_QP = 0xFFFFFF


def flood(count, seed, live, sacrificed):
    """Sends `count` datagrams of every kind. QPs in `live` must not be affected; those in `sacrificed` may."""
    chance = random.Random(seed)
    with Sender("127.0.0.1") as peer, Sender("127.0.0.2") as stranger:
        return flood_from(peer, stranger, count, chance, live, sacrificed)


def flood_from(peer, stranger, count, chance, live, sacrificed):
    own = [lambda: chance.choice(live), lambda: chance.choice(live) ^ chance.randrange(1, 16), lambda: QP1, lambda: 0,
           lambda: MULTICAST_QP, lambda: chance.randrange(1 << 24)]

    def noise():
        peer.send(chance.randbytes(chance.randrange(1473)))

    def wrong_sum():
        peer.send(any_transport(chance, chance.choice(own)()) + chance.randbytes(4))

    def broken():
        peer.send(mutated(chance, any_transport(chance, chance.choice(own)()) + chance.randbytes(4)))

    def from_stranger():
        stranger.send_right(any_transport(chance, chance.choice(live)))

    def to_nobody():
        qpn = chance.choice((QP1, 0, MULTICAST_QP, chance.randrange(1 << 24)))
        if qpn not in live:
            peer.send_right(any_transport(chance, qpn))

    def to_sacrificed():
        peer.send_right(any_transport(chance, chance.choice(sacrificed)))

    kinds = [noise, wrong_sum, broken, from_stranger, to_nobody, to_sacrificed]
    for i in range(count):
        chance.choice(kinds)()
        if i % 64 == 0:
            time.sleep(0.0005)  # datagrams that the socket buffer drops test nothing
    return count


def is_refusal(name):
    return "dropped_" in name or name.startswith("refused_")


class Garbage(ProcessTest):
    def test_port_4791(self):
        count = amount(100_000, 1_000_000)
        host = Host()
        victim = host.start("hold", "--qps=8")
        sacrificed = [int(word) for word in victim.await_line("qpns").split()[1:]]
        pair = Pair(host, host, "exchange", f"--messages={amount(6000, 60000)}", "--qps=4", "--octets=3000", "--pace-us=100",
                    "--timeout=13", environment={**LINKS["udp"], **LINGER})
        live = []
        for program in (pair.client, pair.server):
            live += [int(word) for word in program.await_line("all QPNs").split()[2:]]
        pair.client.await_line("flowing")
        daemon, = daemons(host)
        begin = time.monotonic()
        attackers = [Task(host, flood, count // 2, seed, live, sacrificed) for seed in (1, 2)]
        sent = sum(attacker.result(amount(120, 1200)) for attacker in attackers)
        report(f"{sent} datagrams in {time.monotonic() - begin:.1f} s")
        pair.succeed(amount(120, 1200))
        self.assertIsNone(victim.process.poll(), victim.output())
        self.assertEqual(daemons(host), [daemon])
        report(pair.last("exchanged"))
        victim.sample()
        for name, counters in (("victim", victim.counters), ("bystander", pair.client.counters)):
            report(f"{name}: " + ", ".join(f"{key} {value}" for key, value in counters.items() if value and is_refusal(key)))
        self.assertGreater(sum(value for key, value in pair.client.counters.items() if is_refusal(key)), 0, pair.client.counters)
        # New programs still open the device and work.
        Pair(host, host, "exchange", "--messages=500", environment=LINKS["udp"]).succeed()


class Scribbler(ProcessTest):
    def test_hostile_process_of_the_same_user(self):
        for seed in range(1, amount(9, 101)):
            host = Host()
            program = host.run("scribbler", f"--seed={seed}", f"--messages={amount(20000, 50000)}",
                               *(["--churn"] if seed % 2 == 0 else []), seconds=150,
                               environment=LINKS["direct" if seed % 4 < 2 else "ring"])
            for line in program.output().splitlines():
                report(f"seed {seed}: {line}")


if __name__ == "__main__":
    main()
