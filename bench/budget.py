"""The time budget of an operation in nanoseconds: the parts that the machine takes (bench/limits.cc, measured in the
same run), and the rest, which is ours. In a stream both ends work concurrently, so a part counts once, for the end
that has it. Overlapping parts make the rest negative: the machine hides them."""

from dataclasses import dataclass

MIB = 1 << 20
# A packet with 8 bytes of payload as the ICRC covers it: 8 bytes for the absent LRH, IPv4, UDP, BTH, RETH, payload.
SMALL_PACKET = 8 + 20 + 8 + 12 + 16 + 8
REST = "the rest"


@dataclass
class Budget:
    operation: str
    total: float  # ns
    parts: list   # (part, ns); the last one is the rest


def nanoseconds_of(octets, gigabytes_per_second):
    return octets / gigabytes_per_second


def budget_of(operation, total, parts, rest):
    left = total - sum(value for _, value in parts)
    return Budget(operation, total, [*parts, (f"{REST}: {rest}", left)])


def budgets(results):
    """The budgets whose figures are all available."""
    def values(*keys):
        found = [results.median(key) for key in keys]
        return found if all(found) else None

    made = []
    if figures := values("shm/ib_write_lat/8", "limit/process_vm_us"):
        total, moving = (1000 * value for value in figures)
        made.append(budget_of("8 B WRITE, shm", total, [("process_vm_writev until the target sees it", moving)],
                              "post, checks of key and bounds, completion, perftest's loop"))
    if figures := values("shm/ib_write_bw/1048576", "limit/process_vm_1m"):
        total, moving = (nanoseconds_of(MIB, value) for value in figures)
        made.append(budget_of("1 MiB WRITE, shm", total, [("process_vm_writev", moving)], "post, checks, completion"))
    if figures := values("udp/ib_write_lat/8", "udp/ib_send_lat/8", "limit/udp_us", "limit/crc_64"):
        write, send, packet = (1000 * value for value in figures[:3])
        summing = 2 * nanoseconds_of(SMALL_PACKET, figures[3])
        made.append(budget_of("8 B WRITE, UDP", write, [("one UDP packet: sendmsg, loopback, recvmsg", packet), ("ICRC, at both ends", summing),
                                                        ("extra cost of a target that calls no verb, over a SEND to a polling one", write - send)],
                              "post, requester, responder, placing, ACK"))
    if figures := values("udp/ib_write_bw/1048576", "limit/udp_gso", "limit/crc_4k", "limit/memcpy_1m"):
        total, stream, summing, copying = (nanoseconds_of(MIB, value) for value in figures)
        made.append(budget_of("1 MiB WRITE, UDP", total, [("UDP stream with GSO and GRO", stream), ("ICRC at the busier end", summing),
                                                          ("placing: one copy", copying)], "engine, 256 packets"))
    return made


TITLES = ("operation", "part", "ns", "share")


def cells(results):
    for budget in budgets(results):
        yield (budget.operation, "all", f"{budget.total:,.0f}", "100 %")
        for what, value in budget.parts:
            yield ("", what, f"{value:,.0f}", f"{100 * value / budget.total:.0f} %")
