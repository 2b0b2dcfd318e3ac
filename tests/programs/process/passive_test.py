"""A passive target: WRITE, READ and atomics are served while the target's program sleeps. 100 idle connected QPs use
no CPU time. A program that posts and sleeps is served."""

import time

from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, amount, cpu_seconds, daemons, main, report


class Passive(ProcessTest):
    def test_target_that_calls_no_verb(self):
        host = Host()
        for link, environment in LINKS.items():
            rounds = amount(1000, 100_000)
            pair = Pair(host, host, "passive", f"--rounds={rounds}", environment={**environment, **LINGER}).succeed()
            report(f"{link}: {pair.last('the sleeping')}, {pair.last('took')}")
            if link == "mapped":
                # Each round has three requests. All of them count once the two ends know each other.
                self.assertGreater(pair.client.counters.get("shm_direct_mapped", 0), 2.5 * rounds, pair.client.counters)
            if link == "direct":
                self.assertGreater(pair.client.counters.get("shm_direct_done", 0), 0, pair.client.counters)

    def test_target_that_slept_before_the_peer_came(self):
        host = Host()
        for environment in LINKS.values():
            Pair(host, host, "passive", "--rounds=10", "--target-first", environment=environment).succeed()

    def test_a_sleeper_is_served(self):
        host = Host()
        for link in ("udp", "ring"):
            for _ in range(amount(2, 50)):
                host.start("sleeper", environment=LINKS[link]).succeed(30)

    def test_rest_costs_nothing(self):
        host = Host()
        for link in ("udp", "direct"):
            pair = Pair(host, host, "exchange", "--qps=100", "--messages=20", "--octets=256", "--window=4", "--events",
                        f"--rest={amount(3, 20)}", environment=LINKS[link])
            pair.client.await_line("first QPN")
            time.sleep(0.5)
            daemon, = daemons(host)
            before, begin = cpu_seconds(daemon), time.monotonic()
            pair.client.await_line("resting")  # the end is not rest: then the daemon looks after programs that leave
            share = (cpu_seconds(daemon) - before) / (time.monotonic() - begin)
            pair.succeed()
            report(f"{link}: {pair.last('resting')}, {pair.last('resting', pair.server)}, daemon {share * 100:.2f} %; "
                   f"{pair.last('connected')}; {pair.last('exchanged')}")
            self.assertLess(share, 0.01)


if __name__ == "__main__":
    main()
