"""The last byte of a WRITE is never visible before the others, on any link, whichever thread makes progress."""

from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, amount, main, report


class LastByte(ProcessTest):
    def spin(self, link):
        host = Host()
        for manner, words in (("calling no verb", []), ("polling", ["--polling"])):
            pair = Pair(host, host, "last_byte", f"--writes={amount(50_000, 500_000)}", "--mtu=4096", f"--seed={len(words) + 1}",
                        server_words=words, environment={**LINKS[link], **LINGER}).succeed(amount(120, 1200))
            report(f"{link}, {manner}: {pair.server.lines('')[-2]}, {pair.server.lines('')[-1]}")
            if link == "mapped":
                self.assertGreater(pair.client.counters.get("shm_direct_mapped", 0), 0, pair.client.counters)
            elif link == "direct":
                self.assertEqual(pair.client.counters.get("shm_direct_mapped", 0), 0, pair.client.counters)
                self.assertGreater(pair.client.counters.get("shm_direct_done", 0), 0, pair.client.counters)
            else:
                self.assertEqual(pair.client.counters.get("shm_direct_done", 0), 0, pair.client.counters)

    def test_udp(self):
        self.spin("udp")

    def test_ring(self):
        self.spin("ring")

    def test_direct(self):
        self.spin("direct")

    def test_mapped(self):
        self.spin("mapped")


if __name__ == "__main__":
    main()
