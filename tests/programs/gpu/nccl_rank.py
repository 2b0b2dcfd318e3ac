"""One rank of a NCCL job on one GPU, for gpu_report.py: every collective at several sizes, each value checked.

  nccl_rank.py RANK RANKS STORE_FILE RESULT_FILE SIZES [--die]
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist


def check(tensor, value, what):
    wrong = int((tensor != value).sum())
    if wrong != 0:
        raise SystemExit(f"{what}: {wrong} of {tensor.numel()} values are wrong")


def measure(call, repeats):
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    return (time.monotonic() - begin) / repeats


def main():
    rank, ranks, store, result = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    sizes = [int(size) for size in sys.argv[5].split(",")]
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=ranks)
    peer = rank ^ 1
    figures = {}
    for octets in sizes:
        count = max(octets // 4, 1)
        if "--die" in sys.argv and rank == 1:
            os._exit(9)
        mine = torch.empty(count, dtype=torch.float32, device="cuda")
        mine.fill_(rank + 1)
        dist.all_reduce(mine)
        check(mine, ranks * (ranks + 1) / 2, f"all_reduce of {octets} bytes")

        mine = torch.full((count,), float(rank + 1), device="cuda")
        every = torch.empty(count * ranks, device="cuda")
        dist.all_gather_into_tensor(every, mine)
        for i in range(ranks):
            check(every[i * count:(i + 1) * count], i + 1, f"all_gather of {octets} bytes")
        dist.reduce_scatter_tensor(mine, every)
        check(mine, (rank + 1) * ranks, f"reduce_scatter of {octets} bytes")

        mine = torch.arange(count, dtype=torch.float32, device="cuda") + rank
        other = torch.empty_like(mine)
        for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, other, peer)]):
            request.wait()
        check(other - peer - torch.arange(count, dtype=torch.float32, device="cuda"), 0, f"send and receive of {octets} bytes")

        mine.zero_()
        repeats = 20 if octets <= 1 << 20 else 5
        measure(lambda: dist.all_reduce(mine), 2)
        figures[octets] = measure(lambda: dist.all_reduce(mine), repeats)
    if rank == 0:
        with open(result, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
