"""Memory that is gone, and peers that cannot be reached into: errors where they belong, the same results, no crash."""

from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, Stage, amount, main, report


class Unmapped(ProcessTest):
    def test_every_link(self):
        host = Host()
        for link, environment in LINKS.items():
            pair = Pair(host, host, "unmapped", environment=environment).succeed()
            for line in pair.client.output().splitlines():
                report(f"{link}: {line}")


class Apart(ProcessTest):
    """Direct access is impossible, both ways or one: the ring carries what it cannot."""

    def exchange(self, what, client_reaches=False, **options):
        host = Host()
        words = [f"--messages={amount(3000, 200_000)}", "--octets=20000"]
        pair = Pair(host, host, "exchange", *words, environment={**LINKS["direct"], **LINGER}, **options).succeed()
        for program in (pair.client, pair.server):
            done = program.counters.get("shm_direct_done", 0)
            self.assertEqual(done != 0, client_reaches and program is pair.client, f"{what}: {program.name}: {program.counters}")
        report(f"{what}: {pair.last('exchanged')}; {pair.client.counters.get('shm_frames_sent', 0)} frames by ring")
        pair = Pair(host, host, "passive", "--rounds=200", environment=LINKS["direct"], **{
            name: value for name, value in options.items() if not name.endswith("_words")}).succeed()
        report(f"{what}: {pair.last('the sleeping')}")

    def test_other_pid_namespace(self):
        # Who stands outside sees into it, not the other way round.
        self.exchange("peer in another PID namespace", client_reaches=True, server_options={"new_pid_namespace": True})

    def test_both_in_pid_namespaces(self):
        self.exchange("both in PID namespaces", server_options={"new_pid_namespace": True},
                      client_options={"new_pid_namespace": True})

    def test_undumpable(self):
        self.exchange("both forbid ptrace", server_words=["--undumpable"], client_words=["--undumpable"])

    def test_process_vm_refused(self):
        refused = {"prefix": [Stage.prefix.program("refuse_calls"), "process_vm"]}
        self.exchange("process_vm_* refused by seccomp", server_options=refused, client_options=refused)


if __name__ == "__main__":
    main()
