"""Restricted kernels: io_uring refused, small socket buffers, no segmentation offload. The same programs pass and
transfer the same bytes."""

from foreign import last_figures, run_pair
from surroundings import LINGER, LINKS, Host, Pair, ProcessTest, Stage, amount, main, report

SMALL = {"RRDMA_RCVBUF": "212992"}


class Plain(ProcessTest):
    def compare(self, what, environment, options=None):
        host = Host()
        environment = {**LINKS["udp"], **environment}
        options = options or {}
        pair = Pair(host, host, "exchange", f"--messages={amount(2000, 50000)}", "--octets=60000", "--qps=4", "--mtu=4096", "--window=32",
                    environment={**environment, **LINGER}, server_options=options, client_options=options).succeed(amount(60, 600))
        report(f"{what}: {pair.last('exchanged')}, resent {pair.client.counters.get('packets_resent', '?')}")
        for words in (["ib_write_bw", "-x", "0", "-s", "65536", "-n", "200"], ["ib_send_bw", "-x", "0", "-s", "65536", "-n", "200", "-e"],
                      ["ib_read_bw", "-x", "0", "-s", "65536", "-n", "200"], ["ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", "-s", "65536"]):
            _, client = run_pair(words, host, environment=environment, **options)
            report(f"{what}: {words[0]}: {last_figures(client)}")

    def test_io_uring_refused(self):
        self.compare("io_uring refused", {}, {"prefix": [Stage.prefix.program("refuse_calls"), "io_uring"]})

    def test_small_buffers(self):
        self.compare("208 KiB buffers", SMALL)

    def test_no_segmentation(self):
        self.compare("no GSO", {"RRDMA_GSO": "0"})

    def test_nothing_at_all(self):
        self.compare("no io_uring, no GSO, 208 KiB", {**SMALL, "RRDMA_GSO": "0", "RRDMA_IO_URING": "0", "RRDMA_UDP_CHECKSUM": "zero"})


if __name__ == "__main__":
    main()
