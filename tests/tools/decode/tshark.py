"""Asks tshark to dissect a capture, and returns it in the same flat form as packets of `rrdma decode --json`.

tshark's payload heuristics are disabled: for short payloads they report correct packets as "malformed". A
zero UDP checksum over IPv6, which RoCE v2 uses, does not count as an error.
"""

import re
import shutil
import subprocess

# Heuristics for InfiniBand payloads and the connection manager's private data. Their names differ between
# versions of tshark, which refuses a name that it does not know.
HEURISTICS = [
    "smcr_infiniband", "smb_direct_infiniband", "rpcrdma_infiniband", "rpcordma_infiniband", "rpcordma_ib_private",
    "nvme_rdma", "nvme_rdma_cm_private", "lnet_ib", "lnet_ib_cm_private", "iser_infiniband", "iser_ib_private",
    "mellanox_eoib", "sdp_infiniband", "sdp_ib_private", "fc_infiniband", "eth_over_ib", "drbd_rdma",
]

EXPERT_ERROR = 0x800000


def hexadecimal(text):
    return int(text.replace(":", ""), 16)


def number(text):
    return int(text, 0)


def flag(text):
    return {"1": True, "0": False, "True": True, "False": False}[text]


def one_value(text, convert):
    """Returns the one value of a field. Some fields occur twice in the tree, as a header and as its only
    member; both must agree."""
    values = {convert(occurrence) for occurrence in text.split(",")}
    return values.pop() if len(values) == 1 else values


# Our flat name: (tshark's field, the function that converts its text to our value).
FIELDS = {
    "opcode": ("infiniband.bth.opcode", number),
    "solicited": ("infiniband.bth.se", flag),
    "migration": ("infiniband.bth.m", flag),
    "pad": ("infiniband.bth.padcnt", number),
    "version": ("infiniband.bth.tver", number),
    "pkey": ("infiniband.bth.p_key", number),
    "destination_qp": ("infiniband.bth.destqp", number),
    "ack_request": ("infiniband.bth.a", flag),
    "psn": ("infiniband.bth.psn", number),
    "qkey": ("infiniband.deth.q_key", number),
    "source_qp": ("infiniband.deth.srcqp", number),
    "address": ("infiniband.reth.va", number),
    "rkey": ("infiniband.reth.r_key", number),
    "length": ("infiniband.reth.dmalen", number),
    "swap_or_add": ("infiniband.atomiceth.swapdt", number),
    "compare": ("infiniband.atomiceth.cmpdt", number),
    "syndrome": ("infiniband.aeth.syndrome", number),
    "msn": ("infiniband.aeth.msn", number),
    "original": ("infiniband.atomicacketh.origremdt", number),
    "immediate": ("infiniband.immdt", hexadecimal),
    "invalidate_rkey": ("infiniband.ieth", hexadecimal),
    "icrc": ("infiniband.invariant.crc", number),
}


def require():
    if shutil.which("tshark") is None:
        raise SystemExit("tshark is missing: install the Debian package `tshark` (scripts/packages.txt, group test)")


class Seen:
    """One frame: `fields` under our flat names, and tshark's verdict."""

    def __init__(self, columns):
        self.protocols = columns.pop("frame.protocols").split(":")
        self.malformed = columns.pop("_ws.malformed")
        severities = columns.pop("_ws.expert.severity")
        self.errors = [s for s in severities.split(",") if s and int(s) >= EXPERT_ERROR]
        self.message = columns.pop("_ws.expert.message")
        self.sources = [columns.pop(name) for name in ("ip.src", "ipv6.src", "infiniband.grh.sgid")]
        self.payload = bytes.fromhex(columns.pop("data.data").replace(":", ""))
        self.fields = {ours: one_value(columns[theirs], convert) for ours, (theirs, convert) in FIELDS.items()
                       if columns[theirs]}

    def complaint(self):
        """Says why this is no clean InfiniBand packet; None if it is one."""
        if "infiniband" not in self.protocols:
            return "not dissected as InfiniBand: " + ":".join(self.protocols)
        if self.malformed:
            return "malformed: " + self.malformed
        if self.errors:
            return "expert error: " + self.message
        return None


def run(capture, disabled):
    others = ["frame.protocols", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message", "ip.src", "ipv6.src",
              "infiniband.grh.sgid", "data.data"]
    names = others + [theirs for theirs, _ in FIELDS.values()]
    command = ["tshark", "-n", "-r", str(capture), "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-T", "fields",
               "-E", "separator=/t", "-E", "occurrence=a"]
    for name in disabled:
        command += ["--disable-heuristic", name]
    for name in names:
        command += ["-e", name]
    return names, subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def dissect(capture):
    require()
    disabled = list(HEURISTICS)
    while True:
        names, done = run(capture, disabled)
        unknown = set(re.findall(r"No such protocol (\w+)", done.stderr)) & set(disabled)
        if not unknown:
            break
        disabled = [name for name in disabled if name not in unknown]
    if done.returncode != 0:
        raise SystemExit("tshark failed: " + done.stderr)
    return [Seen(dict(zip(names, line.split("\t"), strict=True))) for line in done.stdout.splitlines()]
