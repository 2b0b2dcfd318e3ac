# A ring all-reduce of NumPy arrays among processes: each one ends with the sum of all arrays. A rank sends parts of its
# array to the next rank, without copying them first, and receives parts from the previous one in registered memory.
#
#   all_reduce.py RANKS [NUMBERS]      starts RANKS processes and checks the sum
import asyncio
import sys

import numpy

import rrdma


class Ring:
    """One rank: a server for the previous rank and a channel to the next one."""

    def __init__(self, context, rank, ranks):
        self.context, self.rank, self.ranks = context, rank, ranks
        self.parts = {}  # by step: a future for the part of the previous rank
        self.server = rrdma.Server(context)
        self.server.add("Ring", "pass", self.take, argument=numpy.float64)
        self.port = self.server.listen()

    def part(self, step):
        if step not in self.parts:
            self.parts[step] = asyncio.get_running_loop().create_future()
        return self.parts[step]

    async def take(self, call, part):
        step = int(dict(call.metadata)["step"])
        self.part(step).set_result(part)

    def connect(self, address):
        self.next = rrdma.Channel(self.context, address, wait_for_ready=True)

    async def exchange(self, step, part):
        """Sends a part to the next rank, and returns the one of the previous rank."""
        sent = self.next.unary("Ring", "pass", part, metadata={"step": str(step)}, timeout=60)
        received, _ = await asyncio.gather(self.part(step), sent)
        del self.parts[step]
        return received

    async def all_reduce(self, array):
        parts = numpy.array_split(array, self.ranks)
        for step in range(self.ranks - 1):  # sum up
            send, into = (self.rank - step) % self.ranks, (self.rank - step - 1) % self.ranks
            parts[into] += await self.exchange(step, parts[send])
        for step in range(self.ranks - 1):  # hand the sums on
            send, into = (self.rank - step + 1) % self.ranks, (self.rank - step) % self.ranks
            parts[into][:] = await self.exchange(self.ranks + step, parts[send])


async def run_rank(rank, ranks, count):
    async with rrdma.Context() as context:
        ring = Ring(context, rank, ranks)
        print(f"{context.address}:{ring.port}", flush=True)
        ring.connect((await asyncio.to_thread(sys.stdin.readline)).strip())
        array = numpy.arange(count, dtype=numpy.float64) * (rank + 1)
        await ring.all_reduce(array)
        expected = numpy.arange(count, dtype=numpy.float64) * (ranks * (ranks + 1) // 2)
        print("right" if numpy.array_equal(array, expected) else "wrong", flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # until all are done


async def start_all(ranks, count):
    processes = []
    for rank in range(ranks):
        words = [sys.executable, *([] if not sys.dont_write_bytecode else ["-B"]), __file__, "--rank", str(rank), str(ranks), str(count)]
        pipe = asyncio.subprocess.PIPE
        processes.append(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe))
    addresses = [await process.stdout.readline() for process in processes]
    for rank, process in enumerate(processes):
        process.stdin.write(addresses[(rank + 1) % ranks])
    sums = [(await process.stdout.readline()).decode().strip() for process in processes]
    for process in processes:
        process.stdin.write(b"\n")
    ended = [await process.wait() for process in processes]
    print(f"{ranks} ranks, {count} numbers: {' '.join(sums)}")
    return 0 if sums == ["right"] * ranks and ended == [0] * ranks else 1


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        asyncio.run(run_rank(*map(int, sys.argv[2:5])))
    else:
        sys.exit(asyncio.run(start_all(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 1 << 20)))
