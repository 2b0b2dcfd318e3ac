"""Runs both NICs in one guest: RRDMA beside a kernel that has RDMA devices, an rdma_cm file and RDMA netlink
of its own. The device list, sysfs and rdma_cm must agree for every requested order of devices."""

import re
from dataclasses import dataclass, field

from ratios import RatioRunner

SECONDS = 90
PORT = 18700
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --"


@dataclass
class Finding:
    name: str
    troubles: list = field(default_factory=list)

    @property
    def passed(self):
        return not self.troubles


class BesideRunner:
    def __init__(self, guest, build, picture, say):
        self.guest, self.say = guest, say
        # The namespaces a and b with a cable between them, and rxe devices rxa and rxb outside.
        RatioRunner(guest, build, picture, say)

    def run(self):
        findings = []
        for check in (self.kernel_has_its_own, self.order_of_devices, self.sysfs_agrees, self.kernels_device_still_works,
                      self.connection, self.connection_where_the_port_is_the_kernels, self.connection_with_only_ours):
            finding = Finding((check.__doc__ or check.__name__).strip().rstrip("."))
            try:
                check()
            except (AssertionError, RuntimeError) as trouble:
                finding.troubles.append(str(trouble))
            self.say(f"{'pass' if finding.passed else 'FAIL'}  {finding.name}" + "".join(f"\n      {line}" for line in finding.troubles))
            findings.append(finding)
        return findings

    # --- running programs ------------------------------------------------------------------------------

    @staticmethod
    def ours(command, namespace="a", *options):
        place = f"ip netns exec {namespace} " if namespace else ""
        return f"{place}{NOBODY} /run/rrdma/bin/rrdma run {' '.join(options)} -- {command}"

    def listed(self, *options):
        text = self.guest.run(self.ours("ibv_devices", "a", "--netdev", "va", *options), SECONDS)
        return re.findall(r"^\s+(\S+)\s+[0-9a-f]{16}$", text, re.M)

    def rping(self, server, client):
        """Runs two commands; both must exit with 0."""
        output = self.guest.run(f"""timeout -k 2 {SECONDS} {server} >/run/server.out 2>&1 & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do
  sleep 1
  timeout -k 2 {SECONDS} {client} >/run/client.out 2>&1 && break
  grep -q REJECTED /run/client.out || break
done
wait $server; code=$?
cat /run/client.out /run/server.out
exit $code""", 3 * SECONDS)
        assert "error" not in output.lower(), output

    # --- the rows --------------------------------------------------------------------------------------

    def kernel_has_its_own(self):
        """The guest's kernel has devices, an rdma_cm file and its number"""
        text = self.guest.run("ls /sys/class/infiniband; cat /sys/class/misc/rdma_cm/dev; ls -l /dev/infiniband/rdma_cm")
        assert "rxe0" in text and re.search(r"^\d+:\d+$", text, re.M), text

    def order_of_devices(self):
        """ibv_get_device_list: ours first; --only: ours alone; --beside: the kernel's first"""
        kernels = set(re.findall(r"^(\S+)$", self.guest.run("ls /sys/class/infiniband"), re.M))
        default, only, beside = self.listed(), self.listed("--only"), self.listed("--beside")
        assert default[0] == "rrdma0" and set(default[1:]) == kernels, default
        assert only == ["rrdma0"], only
        assert beside[-1] == "rrdma0" and set(beside[:-1]) == kernels, beside

    def sysfs_agrees(self):
        """/sys/class/infiniband shows the same devices as the list"""
        for options in ((), ("--only",), ("--beside",)):
            # The guest's ls is statically linked; bash reads folders by itself.
            look = self.ours("bash -c 'echo /sys/class/infiniband/*'", "a", "--netdev", "va", *options)
            shown = [name.rsplit("/", 1)[1] for name in self.guest.run(look, SECONDS).split()]
            assert sorted(shown) == sorted(self.listed(*options)), f"{options}: {shown}"

    def kernels_device_still_works(self):
        """A program with RRDMA opens the kernel's device, too"""
        text = self.guest.run(f"{NOBODY} true; /run/rrdma/bin/rrdma run -- ibv_devinfo -d rxa", SECONDS)
        assert "PORT_ACTIVE" in text and "rxa" in text, text

    def connection(self):
        """rdma_create_event_channel beside the kernel's rdma_cm: a connection over the network"""
        words = f"rping -p {PORT} -C 10 -V -a 10.89.0.2"
        self.rping(self.ours(f"{words} -s", "b", "--netdev", "vb"), self.ours(f"{words} -c", "a", "--netdev", "va"))

    def connection_where_the_port_is_the_kernels(self):
        """The same where rxe holds UDP port 4791: two programs of one host"""
        address = self.guest.address4
        words = f"rping -p {PORT + 1} -C 10 -V -a {address}"
        self.rping(self.ours(f"{words} -s", "", "--netdev", "eth0"), self.ours(f"{words} -c", "", "--netdev", "eth0"))

    def connection_with_only_ours(self):
        """The same with the kernel's devices hidden"""
        words = f"rping -p {PORT + 2} -C 10 -V -a 10.89.0.2"
        self.rping(self.ours(f"{words} -s", "b", "--netdev", "vb", "--only"), self.ours(f"{words} -c", "a", "--netdev", "va", "--only"))


def table(findings):
    yield "| what | result |"
    yield "|---|---|"
    for finding in findings:
        words = "pass" if finding.passed else "**FAIL**: " + " ".join("; ".join(finding.troubles).split()).replace("|", "\\|")[:400]
        yield f"| {finding.name} | {words} |"
