"""The matrix: each row is one run of a pair of programs, with its arguments, address family, MTU, and RRDMA
as the client or the server. The runner executes it.

Every program meets every address family, MTU and direction. Sizes rotate through these combinations, so
that each program also meets each size in both directions."""

import itertools
from dataclasses import dataclass, field

CLIENT, SERVER = "client", "server"  # RRDMA's role in a row
SIZES = [1, 64, 1000, 4096, 65536, 1 << 20]
# On one processor, rxe passes work slowly between polling programs and its own threads: sleep instead.
EVENTS = "-e"
# Eight retries at code 14 take half a second, and an emulated guest may well get no processor for that long.
# rxe at the other end keeps 14, because it repairs a loss at the end of a message by the timeout alone.
PATIENT = 17


@dataclass
class Row:
    program: str
    service: str                 # RC, UC or UD of the queue pairs; UC and UD drop packets silently
    rrdma: str
    family: int
    mtu: int
    arguments: list = field(default_factory=list)         # of both ends
    client_arguments: list = field(default_factory=list)
    server_arguments: list = field(default_factory=list)
    guest_arguments: list = field(default_factory=list)   # of the kernel's end, in either role
    own_arguments: list = field(default_factory=list)     # of RRDMA's end
    style: str = "verbs"         # how the ends find each other: verbs (GID, TCP), cm (rdma_cm), proof (tests/programs/process)
    note: str = ""               # the special property, for the name
    seconds: int = 40            # limit on an idle machine; a slower one gets more
    server_ends: bool = True     # False: the server runs on by design and is terminated
    expect_failure: str = ""     # the client must fail with this text
    server_runs: bool = True     # False: there is no listener
    options: list = field(default_factory=list)           # of rrdma run
    # After a refusal; more for servers that do not show when they listen (docs/interop.md).
    tries: int = 1             
    bears_loss: bool = True
    # Packets of the kernel's end; with fewer, it exited before it sent them (docs/interop.md).
    least_theirs: int = 0      

    @property
    def name(self):
        words = [self.program, *self.arguments] + ([self.note] if self.note else [])
        return " ".join(words)

    @property
    def key(self):
        return f"{self.name} | IPv{self.family} {self.mtu} {self.rrdma}"

    def tolerates_loss(self):
        return self.service == "RC" and self.bears_loss


def combinations():
    """Yields (RRDMA's role, family, MTU), so that neighbors differ in much."""
    return list(itertools.product((CLIENT, SERVER), (4, 6), (1024, 4096)))


def pingpong(program, service, size, count, rrdma, family, mtu, extra=()):
    words = ["-s", str(size), "-n", str(count), *extra]
    if service != "UD":  # these take the MTU of the port
        words += ["-m", str(mtu)]
    return Row(program, service, rrdma, family, mtu, words, guest_arguments=[EVENTS])


def perftest(program, service, size, count, rrdma, family, mtu, extra=()):
    words = ["-s", str(size), "-n", str(count), *extra]
    if service != "RC":
        words += ["-c", service]
    # ib_write_* poll memory and cannot sleep. ib_send_lat sometimes loses an event of rxe and hangs.
    events = [] if program.startswith("ib_write") or program == "ib_send_lat" else [EVENTS]
    return Row(program, service, rrdma, family, mtu, words, guest_arguments=events, own_arguments=["-u", str(PATIENT)] if service == "RC" else [])


def messages(size, most=50, octets=2 << 20):
    """Returns the number of messages of a size: enough for several windows, few enough for an emulated
    processor."""
    return max(5, min(most, octets // max(size, 1)))


def pingpong_rows(combos):
    for rrdma, family, mtu in combos:
        yield pingpong("ibv_rc_pingpong", "RC", 5000, 50, rrdma, family, mtu, ["-c"])
        yield pingpong("ibv_uc_pingpong", "UC", 4096, 50, rrdma, family, mtu)
        yield pingpong("ibv_ud_pingpong", "UD", 1000, 50, rrdma, family, mtu)
        yield pingpong("ibv_srq_pingpong", "RC", 4096, 50, rrdma, family, mtu, ["-c"])


def perftest_rows(sizes):
    ways = [(4, 1024), (6, 4096), (6, 1024), (4, 4096)]
    turn = 0
    for program in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"):
        for size in sizes:
            for rrdma in (CLIENT, SERVER):
                family, mtu = ways[turn % len(ways)]
                yield perftest(program, "RC", size, messages(size), rrdma, family, mtu)
            turn += 1
    for operation, program in itertools.product(("CMP_AND_SWAP", "FETCH_AND_ADD"), ("ib_atomic_bw", "ib_atomic_lat")):
        for rrdma in (CLIENT, SERVER):
            family, mtu = ways[turn % len(ways)]
            turn += 1
            row = perftest(program, "RC", 8, 50, rrdma, family, mtu, ["-A", operation])
            row.arguments = row.arguments[2:]
            yield row
    for program, service, size in (("ib_send_bw", "UC", 4096), ("ib_send_lat", "UC", 4096), ("ib_write_bw", "UC", 4096),
                                   ("ib_write_lat", "UC", 64), ("ib_send_lat", "UD", 64), ("ib_send_lat", "UD", 1024)):
        for rrdma in (CLIENT, SERVER):
            family, mtu = ways[turn % len(ways)]
            turn += 1
            yield perftest(program, service, size, 50, rrdma, family, mtu)


def proof_rows(combos, count):
    """Every RC operation in both directions at once; checks every byte, immediate and atomic result."""
    for rrdma, family, mtu in combos:
        words = [f"--messages={count}", f"--octets={3 * mtu + 17}", f"--mtu={mtu}", f"--family={family}"]
        yield Row("exchange", "RC", rrdma, family, mtu, words, style="proof", guest_arguments=["--events"],
                  own_arguments=[f"--timeout={PATIENT}"])


def cm_rows(combos):
    for rrdma, family, mtu in combos:
        def row(program, service, arguments, **more):
            return Row(program, service, rrdma, family, mtu, arguments, style="cm", **{"tries": 3, **more})
        yield row("rping", "RC", ["-V", "-C", "20", "-S", "3000"], client_arguments=["-c"], server_arguments=["-s"])
        yield row("rping", "RC", ["-C", "1"], client_arguments=["-c"], note="(nobody listens)", server_runs=False,
                  expect_failure="REJECTED")
        yield row("ucmatose", "RC", ["-c", "2", "-C", "10", "-S", "5000"])
        yield row("udaddy", "UD", ["-c", "2", "-C", "10", "-S", "900"])
        yield row("rstream", "RC", ["-S", "20000", "-C", "10", "-I", "4", "-T", "v"])
        # If the last ACK is lost, the client is gone and the server retransmits forever.
        yield row("rdma_client", "RC", [], bears_loss=False)
        if family == 6:
            continue  # the kernel joins no IPv6 group on RoCE v2; perftest resolves no IPv6 name
        yield row("mckey", "UD", ["-C", "10", "-S", "500"], least_theirs=10 if rrdma == SERVER else 0)
        # The client connects a second time, and is refused if the server does not listen again by then.
        yield row("ib_write_bw", "RC", ["-R", "-s", "65536", "-n", "10"], tries=8)
        if rrdma == SERVER:  # against a slow server this one loses the race every time
            yield row("ib_send_lat", "RC", ["-R", "-s", "64", "-n", "10"], tries=8)


def full():
    combos = combinations()
    return [*pingpong_rows(combos), *perftest_rows(SIZES), *proof_rows(combos, 300), *cm_rows(combos)]


def under_loss():
    """The same rows with fewer sizes, without those that wait forever for data that a lossy service dropped.
    """
    combos = combinations()
    rows = [*pingpong_rows(combos), *perftest_rows([64, 4096, 65536, 1 << 20]), *proof_rows(combos, 300), *cm_rows(combos)]
    return [row for row in rows if row.tolerates_loss()]


def quick():
    """One kernel, IPv4, both directions: RC, UD and the connection manager."""
    rows = []
    for rrdma in (CLIENT, SERVER):
        combo = [(rrdma, 4, 1024)]
        rows += [row for row in pingpong_rows(combo)]
        rows += [perftest("ib_send_bw", "RC", 65536, 20, rrdma, 4, 1024),
                 perftest("ib_write_bw", "RC", 65536, 20, rrdma, 4, 1024),
                 perftest("ib_write_lat", "RC", 64, 20, rrdma, 4, 1024),
                 perftest("ib_read_bw", "RC", 65536, 20, rrdma, 4, 1024),
                 perftest("ib_atomic_bw", "RC", 8, 20, rrdma, 4, 1024, ["-A", "FETCH_AND_ADD"])]
        rows[-1].arguments = rows[-1].arguments[2:]
        rows += proof_rows(combo, 200)
        rows += cm_rows(combo)
    return rows
