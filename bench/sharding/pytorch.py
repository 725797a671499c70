"""Seconds a step of the model of tests/parallel/sharded_program.cc with PyTorch over gloo: DDP, or FSDP2, which divides parameters, gradients and Adam's state.

    torchrun --nproc-per-node 2 bench/sharding/pytorch.py ddp|fsdp LAYERS WIDTH BATCH STEPS

Rank 0 prints {"seconds": median}."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.linear(x))


def main():
    way, layers, width, batch, steps = sys.argv[1], *(int(word) for word in sys.argv[2:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(*(Layer(width) for _ in range(layers)))
    if way == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    adam = torch.optim.Adam(model.parameters(), 1e-4)
    x = torch.randn(batch, width)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        adam.zero_grad()
        model(x).square().mean().backward()
        adam.step()
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": statistics.median(seconds)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
