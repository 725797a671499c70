"""Usage: ddp.py resnet50|small, as a rank of `sullae run`: what DDP's reducer adds to a backward pass that computes nothing else."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def sizes_of(name):
    if name == "small":
        return [256] * 1000
    sizes = []

    def convolution(before, after, width):
        sizes.extend([before * after * width * width, after, after])

    convolution(3, 64, 7)
    before, middle = 64, 64
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            convolution(before, middle, 1)
            convolution(middle, middle, 3)
            convolution(middle, 4 * middle, 1)
            if block == 0:
                convolution(before, 4 * middle, 1)
            before = 4 * middle
        middle *= 2
    return sizes + [2048 * 1000, 1000]


class Model(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(size)) for size in sizes])

    def forward(self):
        return sum(weight.sum() for weight in self.weights)


def measure(model, steps=20):
    times = []
    for step in range(steps + 3):
        dist.barrier()
        start = time.perf_counter()
        model().backward()
        if step >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main():
    torch.set_num_threads(1)
    rank, size = int(os.environ["SULLAE_RANK"]), int(os.environ["SULLAE_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{os.environ['GLOO_STORE']}/ddp", rank=rank, world_size=size)
    sizes = sizes_of(sys.argv[1])
    alone = measure(Model(sizes))
    together = measure(torch.nn.parallel.DistributedDataParallel(Model(sizes), gradient_as_bucket_view=True))
    if rank == 0:
        print(f"ddp {together - alone:.4f}")


main()
