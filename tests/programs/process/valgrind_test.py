"""Programs run under valgrind, which reports nothing about the library."""

from surroundings import LINKS, Host, Pair, ProcessTest, amount, main, report

VALGRIND = ["valgrind", "-q", "--error-exitcode=99", "--trace-children=yes", "--trace-children-skip=*/rrdma,*/rrdmad"]


class Valgrind(ProcessTest):
    def test_exchange(self):
        host = Host()
        for link in ("udp", "direct"):
            # Only the client runs under valgrind: the test includes a peer that waits.
            pair = Pair(host, host, "exchange", f"--messages={amount(300, 5000)}", "--timeout=18", environment=LINKS[link],
                        client_options={"prefix": VALGRIND}).succeed(amount(120, 900))
            self.assertNotIn("==", pair.client.output())
            report(f"{link}: {pair.last('exchanged')}")


if __name__ == "__main__":
    main()
