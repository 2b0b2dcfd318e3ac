"""Compares both NICs on the same machine: inside one guest, rxe with rxe and RRDMA with RRDMA, with the same
programs and sizes, in turn. A rate is the number of iterations per second of perftest's measuring
interval. The guest's timer ends this interval, because the clock that perftest reads is badly calibrated
under emulation."""

import shutil
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import host

DURATION, MARGIN = 4, 1   # perftest measures DURATION - 2 * MARGIN seconds
SECONDS = DURATION - 2 * MARGIN
MTU = 4500
PORT = 18515
LIMIT_SECONDS = 60
# Two programs on two addresses, through the IP stack, with one processor for each end or one for both (on a
# busy host, an idle processor of the guest resumes late); or two programs on one device.
NETWORK, ONE_PROCESSOR, SAME_HOST = "veth", "veth, one processor", "one device"
NICS = ("rxe", "RRDMA")


@dataclass
class Work:
    program: str
    size: int
    rounds: int = 1

    @property
    def name(self):
        return f"{self.program} -s {self.size}"

    @property
    def is_latency(self):
        return self.program.endswith("_lat")


MEDIANS = 2  # the first ones run several times
WORK = [Work("ib_write_bw", 65536, 3), Work("ib_send_lat", 64, 3), Work("ib_write_bw", 4096), Work("ib_send_bw", 65536), Work("ib_read_bw", 65536),
        Work("ib_write_lat", 64), Work("ib_read_lat", 64)]


@dataclass
class Ratio:
    work: Work
    way: str
    rates: dict = field(default_factory=lambda: {nic: [] for nic in NICS})  # iterations per second
    troubles: list = field(default_factory=list)

    def figure(self, nic):
        """Returns MB/s, or µs of half a round trip (of the whole for a READ); None without a measurement."""
        if not self.rates[nic]:
            return None
        rate = statistics.median(self.rates[nic])
        if not self.work.is_latency:
            return rate * self.work.size / 1e6
        return 1e6 / rate / (1 if self.work.program == "ib_read_lat" else 2)

    def ratio(self):
        """Returns RRDMA's speed divided by rxe's: above 1, RRDMA is faster."""
        if not all(self.rates.values()):
            return None
        return statistics.median(self.rates["RRDMA"]) / statistics.median(self.rates["rxe"])

    def as_data(self, kernel):
        return {"kernel": kernel, "program": self.work.program, "size": self.work.size, "way": self.way,
                "unit": "us" if self.work.is_latency else "MB/s", **{nic: self.figure(nic) for nic in NICS}, "ratio": self.ratio(),
                "troubles": self.troubles}


class RatioRunner:
    def __init__(self, guest, build, picture, say):
        self.guest, self.say = guest, say
        self.install(Path(build), picture)
        shutil.copy(Path(__file__).parent / "guest_pair", guest.share)
        guest.run(f"sh /share/guest_pair {MTU}")
        self.ours_at = {"a": self.find_device("a", "10.89.0.1"), "b": self.find_device("b", "10.89.0.2")}  # (device, GID index)
        self.rxe_gid = {name: self.find_gid(name, address) for name, address in (("rxa", "10.88.0.1"), ("rxb", "10.88.0.2"))}

    def install(self, build, picture):
        """Copies our stripped build with its libraries into the guest's memory, because its share is slow to
        read."""
        root = self.guest.share / "root"
        for source, target in (("bin/rrdma", "run/rrdma/bin"), ("bin/rrdmad", "run/rrdma/bin"), ("lib/librrdma.so.1", "run/rrdma/lib")):
            (root / target).mkdir(parents=True, exist_ok=True)
            subprocess.run(["strip", "-o", str(root / target / Path(source).name), str(build / source)], check=True)
            picture.add_libraries(root, build / source)
        # Do not overwrite existing files: running programs have them mapped.
        self.guest.run("""cd /share/root
find . -type f | while read -r name; do [ -e "/$name" ] || { mkdir -p "/$(dirname "$name")" && cp "$name" "/$name" || exit 1; }; done
chmod -R a+rX /run/rrdma""")
        shutil.rmtree(root)

    def find_device(self, namespace, address):
        text = self.guest.run(" ".join(self.ours(namespace, "ibv_devinfo -v")))
        name, indices = host.device_in(text, address, "")
        if name is None or not name.startswith("rrdma"):
            raise SystemExit(f"interop: no device of RRDMA has {address}:\n{text}")
        return name, indices[4]

    def find_gid(self, device, address):
        text = self.guest.run(f"ibv_devinfo -v -d {device}")
        return host.device_in(text, address, "")[1][4]

    @staticmethod
    def ours(namespace, command):
        return ["ip", "netns", "exec", namespace, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--",
                "/run/rrdma/bin/rrdma", "run", "--netdev", f"v{namespace}", "--", command]

    def commands(self, work, way, nic):
        """Returns (server, client)."""
        words = f"{work.program} -s {work.size} -D {DURATION} -f {MARGIN} -F -p {PORT}"
        if nic == "RRDMA":
            far, address = ("a", "10.89.0.1") if way == SAME_HOST else ("b", "10.89.0.2")
            server, client = (f"{words} -d {device} -x {gid}" for device, gid in (self.ours_at[far], self.ours_at["a"]))
            return " ".join(self.ours(far, server)), " ".join(self.ours("a", f"{client} {address}"))
        far = "rxa" if way == SAME_HOST else "rxb"
        return f"{words} -d {far} -x {self.rxe_gid[far]}", f"{words} -d rxa -x {self.rxe_gid['rxa']} 127.0.0.1"

    def measure(self, ratio, nic):
        server, client = self.commands(ratio.work, ratio.way, nic)
        server_mask = 1 if ratio.way == ONE_PROCESSOR else 2
        # A client that starts before its server listens tries again.
        script = f"""timeout -k 2 {LIMIT_SECONDS} taskset {server_mask} {server} >/run/server.out 2>&1 & server=$!
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  sleep 0.5
  timeout -k 2 {LIMIT_SECONDS - 12} taskset 1 {client} >/run/client.out 2>&1; code=$?
  [ $code = 0 ] && break
  grep -qi "couldn't connect" /run/client.out || break
done
cat /run/client.out
[ $code = 0 ] || {{ kill $server; echo; echo "the server says:"; cat /run/server.out; }}
wait $server
exit $code"""
        request = self.guest.start_script(script)
        code = request.wait(2 * LIMIT_SECONDS)
        lines = [line.split() for line in request.output.splitlines()]
        numbers = [words for words in lines if len(words) >= 4 and words[0] == str(ratio.work.size) and words[1].isdigit()]
        if code != 0 or not numbers or int(numbers[-1][1]) == 0:
            ratio.troubles.append(f"{nic}: exit code {code}: {request.output[-400:]}")
            return
        ratio.rates[nic].append(int(numbers[-1][1]) / SECONDS)

    def run(self):
        results = []
        for way, works in ((NETWORK, WORK), (ONE_PROCESSOR, WORK[:MEDIANS]), (SAME_HOST, WORK)):
            for work in works:
                ratio = Ratio(work, way)
                for _ in range(work.rounds):
                    for nic in NICS:
                        self.measure(ratio, nic)
                results.append(ratio)
                shown = ", ".join(f"{nic} {describe(ratio, nic)}" for nic in NICS)
                factor = ratio.ratio()
                self.say(f"{way}: {work.name}: {shown}" + (f", ratio {factor:.2f}" if factor else "") + "".join(f"\n          {text}" for text in ratio.troubles))
        return results


def describe(ratio, nic):
    value = ratio.figure(nic)
    if value is None:
        return "none"
    return f"{value:.0f} µs" if ratio.work.is_latency else f"{value:.3g} MB/s"


def table(results):
    yield "| programs on | work | rxe | RRDMA | RRDMA is faster by |"
    yield "|---|---|---|---|---|"
    for ratio in results:
        factor = ratio.ratio()
        yield f"| {ratio.way} | `{ratio.work.name}` | {describe(ratio, 'rxe')} | {describe(ratio, 'RRDMA')} | {f'{factor:.2f}' if factor else 'not measured'} |"
