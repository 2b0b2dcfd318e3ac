"""One rank of a NCCL job, for gpu_report.py: every collective at several sizes, each value checked.

  nccl_rank.py --rank N --ranks N --store FILE --result FILE --sizes BYTES,... --limit SECONDS [--die]

A size is that of the longer buffer of a collective, in bytes. Every step is printed before it begins, so that the last
line locates a hang. A rank that still runs after --limit seconds prints its stacks. Rank 0 decides before each size
whether the time is enough for it. With --die, rank 1 kills itself after the first size, and the other ranks must get an
error from the next collective.
"""
import argparse
import datetime
import faulthandler
import json
import os
import signal
import sys
import time

BEGIN = time.monotonic()
faulthandler.enable()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

ITEM = 4  # bytes of a float32 and of an int32


class Rank:
    def __init__(self, options):
        self.options = options
        self.rank, self.ranks = options.rank, options.ranks
        self.figures = {}
        torch.cuda.set_device(0)
        self.say("store")
        self.store = dist.FileStore(options.store, self.ranks)
        self.say("init_process_group")
        dist.init_process_group("nccl", store=self.store, rank=self.rank, world_size=self.ranks,
                                timeout=datetime.timedelta(seconds=options.limit + 60), device_id=torch.device("cuda", 0))

    def say(self, what):
        print(f"[rank {self.options.rank} +{time.monotonic() - BEGIN:5.1f} s] {what}", flush=True)

    def left(self):
        return self.options.limit - (time.monotonic() - BEGIN)

    def expect(self, found, wanted, what):
        wrong = int((found != wanted).sum())
        if wrong != 0:
            first = int((found != wanted).nonzero()[0])
            raise SystemExit(f"rank {self.rank}: {what}: {wrong} of {found.numel()} values are wrong, the first is {first}: "
                             f"{float(found[first])} instead of {float(wanted[first])}")

    @staticmethod
    def values(count, of_rank):
        """Different for each place and rank. Sums over all ranks are exact in a float32."""
        return (torch.arange(count, device="cuda") % 4099 + 1000 * of_rank).to(torch.float32)

    def step(self, what, call):
        self.say(what)
        torch.cuda.synchronize()
        begin = time.monotonic()
        call()
        torch.cuda.synchronize()
        return time.monotonic() - begin

    def all_reduce(self, octets):
        count = octets // ITEM
        mine = self.values(count, self.rank)
        seconds = self.step(f"{octets} bytes: all_reduce", lambda: dist.all_reduce(mine))
        self.expect(mine, sum(self.values(count, rank) for rank in range(self.ranks)), f"all_reduce of {octets} bytes")
        return seconds

    def gather_and_scatter(self, octets):
        count = max(1, octets // ITEM // self.ranks)
        mine = self.values(count, self.rank)
        every = torch.empty(count * self.ranks, device="cuda")
        self.step(f"{octets} bytes: all_gather", lambda: dist.all_gather_into_tensor(every, mine))
        for rank in range(self.ranks):
            self.expect(every[rank * count:(rank + 1) * count], self.values(count, rank), f"all_gather of {octets} bytes")
        self.step(f"{octets} bytes: reduce_scatter", lambda: dist.reduce_scatter_tensor(mine, every))
        self.expect(mine, self.values(count, self.rank) * self.ranks, f"reduce_scatter of {octets} bytes")

    def send_and_receive(self, octets):
        peer = self.rank ^ 1
        mine = torch.arange(octets // ITEM, dtype=torch.int32, device="cuda") + self.rank
        other = torch.empty_like(mine)

        def call():
            for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, other, peer)]):
                request.wait()

        self.step(f"{octets} bytes: send and receive", call)
        self.expect(other, mine - self.rank + peer, f"send and receive of {octets} bytes")

    def measure(self, octets):
        mine = torch.zeros(octets // ITEM, device="cuda")
        repeats = 20 if octets <= 1 << 20 else 5

        def call():
            for _ in range(repeats):
                dist.all_reduce(mine)

        return self.step(f"{octets} bytes: all_reduce, {repeats} times", call) / repeats

    def agree(self, octets, estimate):
        """Rank 0 decides; the others wait for its word."""
        name = f"go-{octets}"
        if self.rank == 0:
            self.store.set(name, "yes" if estimate < self.left() else "no")
        return self.store.get(name) == b"yes"

    def meet(self, name):
        """A barrier that does not need NCCL."""
        self.say(f"meeting: {name}")
        self.store.add(name, 1)
        while self.store.add(name, 0) < self.ranks:
            time.sleep(0.01)

    def every(self, octets):
        """Each collective once, checked. Returns the time of the first one."""
        first = self.all_reduce(octets)
        self.gather_and_scatter(octets)
        self.send_and_receive(octets)
        return first

    def die(self):
        """Rank 1 is dead before the others begin the next collective: one that it could still answer may need no answer."""
        if self.rank == 1:
            self.say("kills itself")
            self.store.set("dying", "yes")
            os.kill(os.getpid(), signal.SIGKILL)
        self.store.wait(["dying"])
        time.sleep(1)
        self.every(self.options.sizes[0])

    def run(self):
        # Connections and first launches cost more than any size, and say nothing about it.
        self.every(8)
        begin = time.monotonic()
        self.every(8)
        estimate = base = time.monotonic() - begin
        sizes = self.options.sizes
        for octets, following in zip(sizes, [*sizes[1:], 0]):
            if not self.agree(octets, estimate):
                self.say(f"{octets} bytes: left out, it may take {estimate:.0f} s and {self.left():.0f} s are left")
                break
            begin = time.monotonic()
            first = self.every(octets)
            seconds = self.measure(octets)
            self.figures[octets] = seconds
            self.say(f"{octets} bytes: all right; all_reduce first {first * 1e6:.0f} us, then {seconds * 1e6:.1f} us, {octets / seconds * 1e-9:.3f} GB/s")
            self.write()
            if self.options.die:
                self.die()
            # Turns of the GPU and checks cost the same for each small size.
            spent = time.monotonic() - begin
            base = max(base, spent) if octets <= 65536 else base
            estimate = spent + max(0.0, spent - base) * following / octets
        self.meet("done")
        self.say("destroy_process_group")
        dist.destroy_process_group()
        self.say("end")

    def write(self):
        if self.rank == 0:
            with open(self.options.result + ".new", "w", encoding="utf-8") as file:
                json.dump(self.figures, file)
            os.replace(self.options.result + ".new", self.options.result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--result", required=True)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--die", action="store_true")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(max(1, options.limit - (time.monotonic() - BEGIN)))
    Rank(options).run()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
