"""Seconds a step of the model of step.cc with torch.distributed.pipelining, over gloo; alone with one process.

    torchrun --nproc-per-node 2 bench/stages/pytorch.py gpipe|1f1b MICRO_BATCHES STEPS

Rank 0 prints {"seconds": median}."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

WIDTH, LAYERS, SAMPLES = 512, 16, 64


def main():
    schedule, micro_batches, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    each = len(layers) // size
    own = torch.nn.Sequential(*layers[rank * each:(rank + 1) * each])
    batch = torch.randn(SAMPLES * micro_batches, WIDTH)
    optimizer = torch.optim.SGD(own.parameters(), 1e-3)

    def loss(output, _target):
        return output.square().mean()

    if size > 1:
        stage = PipelineStage(own, rank, size, torch.device("cpu"))
        kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[schedule]
        pipe = kind(stage, n_microbatches=micro_batches, loss_fn=loss)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        if size == 1:
            for part in batch.chunk(micro_batches):
                (loss(own(part), part) / micro_batches).backward()
        elif rank == 0:
            pipe.step(batch)
        elif rank == size - 1:
            pipe.step(target=batch)
        else:
            pipe.step()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"seconds": statistics.median(seconds)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
