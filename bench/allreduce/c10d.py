"""torch.distributed's all_reduce with gloo: the same measurement as measure.h."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

rank = int(os.environ["SULLAE_RANK"])
size = int(os.environ["SULLAE_SIZE"])
store = dist.FileStore(os.environ["GLOO_STORE"] + "/c10d", size)
dist.init_process_group("gloo", store=store, rank=rank, world_size=size)

for word in sys.argv[1:]:
    count = int(word) // 4
    data = torch.full((count,), 1e-30)
    dist.all_reduce(data)
    start = time.perf_counter()
    for _ in range(3):
        dist.all_reduce(data)
    seconds = torch.tensor([(time.perf_counter() - start) / 3 / size])
    dist.all_reduce(seconds)  # the ranks agree on the number
    iterations = min(max(int(0.04 / seconds.item()), 3), 20000)
    runs = []
    for _ in range(5):
        data.fill_(1e-30)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            dist.all_reduce(data)
        runs.append((time.perf_counter() - start) / iterations * 1e6)
    if rank == 0:
        print(word, f"{statistics.median(runs):.3f}", flush=True)
