"""With drops, duplicates, reordering and corruption on both sides, reliable connections deliver every byte."""

from foreign import PORT, last_figures, listens
from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, amount, main, report, wait_until

SEEDS = range(1, 11)


def spec(seed):
    return {"RRDMA_FAULT": f"drop=2%,dup=1%,reorder=2%,corrupt=0.5%,seed={seed}"}


class Faults(ProcessTest):
    def exchange(self, link):
        host = Host()
        for seed in SEEDS:
            pair = Pair(host, host, "exchange", f"--messages={amount(400, 20000)}", f"--seed={seed}", "--octets=8000", "--qps=2",
                        "--timeout=14", environment={**LINKS[link], **LINGER}, server_environment=spec(seed),
                        client_environment=spec(1000 + seed)).succeed(amount(60, 600))
            faults = {name[7:]: value for name, value in pair.client.counters.items() if name.startswith("faults_") and value}
            self.assertLessEqual({"dropped", "duplicated", "reordered"}, set(faults), "the faults did not happen")
            report(f"{link}, seed {seed}: {pair.last('exchanged')}; faults " + ", ".join(f"{name} {value}" for name, value in faults.items()))

    def test_exchange_udp(self):
        self.exchange("udp")

    def test_exchange_shm(self):
        self.exchange("ring")

    def run_until_the_last_ack_arrives(self, words, host, environment):
        """The program exits when it has all its data. If its very last acknowledgment is lost, no process can repeat
        it, and the other side reports a dead peer. This happens with any RDMA device. Only this case is tried
        again."""
        for attempt in range(5):
            server = host.start(*words, environment=environment)
            self.assertTrue(wait_until(lambda: listens(host, PORT), 20), server.output())
            client = host.start(*words, "127.0.0.1", environment=environment)
            ended = [client.wait(60), server.wait(60)]
            if ended == [0, 0]:
                return server, client
            failed = server if ended[0] == 0 else client
            if sorted(ended) != [0, 1] or "transport retry counter exceeded (12) for wr_id 2" not in failed.output():
                failed.complain(f"ended with {ended}")
            report(f"attempt {attempt + 1}: the last acknowledgement was lost")
        raise AssertionError("the last acknowledgement is lost every time")

    def test_pingpong_with_check(self):
        host = Host()
        for seed in SEEDS:
            words = ["ibv_rc_pingpong", "-g", "0", "-c", "-n", str(amount(100, 2000)), "-s", "5000"]
            server, client = self.run_until_the_last_ack_arrives(words, host, {**LINKS["udp"], **spec(seed)})
            for program in (server, client):
                self.assertNotIn("invalid data", program.output())
            report(f"ibv_rc_pingpong -c, seed {seed}: {last_figures(client)}")


if __name__ == "__main__":
    main()
