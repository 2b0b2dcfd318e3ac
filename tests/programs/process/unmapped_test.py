"""Memory that is gone, and peers whose memory is inaccessible: errors at the right place, the same results, no crash.
"""

import os

from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, Stage, amount, main, report


class Unmapped(ProcessTest):
    def test_every_link(self):
        host = Host()
        for link, environment in LINKS.items():
            pair = Pair(host, host, "unmapped", environment=environment).succeed()
            for line in pair.client.output().splitlines():
                report(f"{link}: {line}")


class Apart(ProcessTest):
    """Direct access is impossible, so the ring carries the data."""

    def exchange(self, what, **options):
        host = Host()
        words = [f"--messages={amount(3000, 200_000)}", "--octets=20000"]
        pair = Pair(host, host, "exchange", *words, environment={**LINKS["direct"], **LINGER}, **options).succeed()
        for program in (pair.client, pair.server):
            self.assertEqual(program.counters.get("shm_direct_done", 0), 0, f"{what}: {program.name}: {program.counters}")
        report(f"{what}: {pair.last('exchanged')}; {pair.client.counters.get('shm_frames_sent', 0)} frames by ring")
        pair = Pair(host, host, "passive", "--rounds=200", environment=LINKS["direct"], **{
            name: value for name, value in options.items() if not name.endswith("_words")}).succeed()
        report(f"{what}: {pair.last('the sleeping')}")

    def test_undumpable(self):
        self.exchange("both forbid ptrace", server_words=["--undumpable"], client_words=["--undumpable"])

    def test_process_vm_refused(self):
        refused = {"prefix": [Stage.prefix.program("refuse_calls"), "process_vm"]}
        self.exchange("process_vm_* refused by seccomp", server_options=refused, client_options=refused)


class Strangers(ProcessTest):
    """A program in another PID namespace counts as another user's, whatever its uid (SECURITY.md)."""

    def test_a_users_daemon_serves_nobody_else(self):
        # The second daemon finds the port taken. Its programs cannot reach those of the first daemon, and it reports
        # so.
        host = Host()
        first = host.start("hold", "--qps=1")
        first.await_line("qpns")
        stranger = host.start("hold", "--qps=1", new_pid_namespace=True)
        stranger.await_line("qpns")
        self.assertIn("in another container or PID namespace, which counts as another user", stranger.output())
        self.assertIn("RRDMA_POD=1", stranger.output())

    def test_containers_of_one_pod_are_one_user_on_request(self):
        # They share the daemon of the first, and exchange packets. Without the variable in both, they stay strangers.
        apart, pod = {"new_pid_namespace": True}, {"RRDMA_POD": "1"}
        for what, options in (("server apart", {"server_options": apart}), ("client apart", {"client_options": apart}),
                              ("both apart", {"server_options": apart, "client_options": apart})):
            host = Host()
            pair = Pair(host, host, "exchange", f"--messages={amount(3000, 200_000)}", "--octets=20000", environment={**LINGER, **pod}, **options).succeed()
            self.only_packets(what, pair)
        host = Host()
        host.start("hold", "--qps=1").await_line("qpns")
        stranger = host.start("hold", "--qps=1", environment=pod, **apart)
        self.assertNotEqual(stranger.process.wait(20), 0)
        self.assertIn("set RRDMA_POD=1 for all programs", stranger.output())

    def only_packets(self, what, pair):
        counters = pair.client.counters
        self.assertGreater(counters.get("link_packets_sent", 0), 0, f"{what}: {counters}")
        for shared in ("shm_frames_sent", "shm_direct_done"):
            self.assertEqual(counters[shared], 0, f"{what}: {counters}")
        report(f"{what}: {pair.last('exchanged')}")

    def test_a_system_daemon_brings_them_together_by_udp(self):
        if os.geteuid() != 0 or Stage.in_user_namespace:
            self.skipTest("needs root to run a daemon for all users")
        apart = {"new_pid_namespace": True}
        for what, options in (("one in a PID namespace", {"server_options": apart}),
                              ("both in PID namespaces", {"server_options": apart, "client_options": apart})):
            host = Host()
            host.start_system_daemon()
            words = [f"--messages={amount(3000, 200_000)}", "--octets=20000"]
            pair = Pair(host, host, "exchange", *words, environment=LINGER, **options).succeed()
            self.only_packets(what, pair)


if __name__ == "__main__":
    main()
