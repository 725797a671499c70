#!/usr/bin/env python3
"""Sullae's Python package against PyTorch's own gloo, and against Sullae in C++: run it with the Python that has the package.

    build/python/bin/python bench/python.py [--rounds 5]

Two ranks, a thread each; ours and the peer in turn; medians."""

import argparse
import json
import os
import statistics
import subprocess
import sys

from figures import Figures
from steps import linears, step_time, timed

SIZES = (4, 65536, 16 << 20)
# Layers, their width, steps of a round.
MODELS = {"24 x Linear(256)": (24, 256, 60), "8 x Linear(2048)": (8, 2048, 8)}


def iterations_of(size):
    return {4: 2000, 65536: 400}.get(size, 15)


def exchange_nothing(_, bucket):
    """What is left of a step is DDP's own: it copies gradients into its buckets and back."""
    import torch

    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def rank_main(kind):
    import torch

    torch.set_num_threads(1)
    figures = {}

    def step(wrap, layers, width, steps):
        model, optimizer = wrap(linears(torch, layers, width))
        return step_time(model, optimizer, torch.randn(16, width), steps)

    def sgd(model):
        return torch.optim.SGD(model.parameters(), lr=0.01)

    def ddp(model, hook=None):
        model = torch.nn.parallel.DistributedDataParallel(model)
        if hook is not None:
            model.register_comm_hook(None, hook)
        return model, sgd(model)

    if kind == "hvd":
        import sullae.torch as hvd

        hvd.init()
        rank = hvd.rank()
        for size in SIZES:
            tensor = torch.zeros(size // 4)
            figures[f"async {size}"] = timed(
                lambda t=tensor: hvd.synchronize(hvd.allreduce_async_(t, name="t", op=hvd.Sum)), iterations_of(size)
            )
        for name, shape in MODELS.items():
            figures[f"step of {name}"] = step(lambda m: (m, hvd.DistributedOptimizer(sgd(m), m.named_parameters())), *shape)
    else:
        import torch.distributed as dist

        if kind == "sullae":
            import sullae.c10d  # noqa: F401
        dist.init_process_group(kind)
        rank = dist.get_rank()
        for size in SIZES:
            tensor = torch.zeros(size // 4)
            figures[f"blocking {size}"] = timed(lambda t=tensor: dist.all_reduce(t), iterations_of(size))
            figures[f"async {size}"] = timed(lambda t=tensor: dist.all_reduce(t, async_op=True).wait(), iterations_of(size))
        for name, shape in MODELS.items():
            figures[f"step of {name} alone"] = step(lambda m: (m, sgd(m)), *shape)
            figures[f"step of {name}"] = step(ddp, *shape)
            figures[f"step of {name} of DDP alone"] = step(lambda m: ddp(m, exchange_nothing), *shape)
        dist.barrier()
        dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(figures))


def run(kind):
    folder = os.path.dirname(sys.executable)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [os.path.join(folder, "torchrun"), "--nproc-per-node", "2", os.path.abspath(__file__), "--rank", kind]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return json.loads(output.strip().splitlines()[-1])


def native():
    """The engine's 4 bytes in C++."""
    program = os.path.join(os.path.dirname(sys.executable), "sullae")
    output = subprocess.run(
        [program, "bench", "allreduce", "--async", "--sizes", "4:4", "--json"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return json.loads(output)["results"][0]["latency_us"]


def show(figures, medians):
    figures.print(f"{'microseconds':26}{'sullae.torch':>14}{'c10d, sullae':>14}{'c10d, gloo':>14}{'ahead':>8}")
    for name in ("blocking", "async"):
        for size in SIZES:
            key = f"{name} {size}"
            own, ours, gloo = (medians[kind].get(key) for kind in ("hvd", "sullae", "gloo"))
            figures[f"{key}, ahead"] = gloo / ours
            title = f"allreduce {name}, {size if size < 1 << 20 else f'{size >> 20} Mi'}B"
            figures.print(f"{title:26}{f'{own:.1f}' if own else '':>14}{ours:>14.1f}{gloo:>14.1f}{gloo / ours:>8.1f}")
    for name in MODELS:
        step = f"step of {name}"
        own, ours, gloo = (medians[kind][step] for kind in ("hvd", "sullae", "gloo"))
        figures[f"{step}, ahead"], figures[f"{step}, sullae.torch"] = gloo / ours, own / gloo
        figures.print(f"{step:26}{own:>14.1f}{ours:>14.1f}{gloo:>14.1f}{gloo / ours:>8.1f}")
        for what, title in (("alone", "  ranks without exchange"), ("of DDP alone", "  DDP without exchange")):
            alone = medians["sullae"][f"{step} {what}"]
            figures[f"{step} {what}, ahead"] = gloo / alone
            figures.print(f"{title:26}{'':>14}{alone:>14.1f}{'':>14}{gloo / alone:>8.1f}")
    native_us, python_us = medians["c++"]["async 4"], medians["hvd"]["async 4"]
    figures["async 4, of c++"] = python_us / native_us
    figures.print(f"4 bytes through the engine: {native_us:.1f} from C++, {python_us:.1f} from Python, {python_us / native_us:.1f} times")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rank", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.rank:
        return rank_main(options.rank)
    rounds = {"hvd": [], "sullae": [], "gloo": [], "c++": []}
    for _ in range(options.rounds):
        for kind in ("hvd", "sullae", "gloo"):
            rounds[kind].append(run(kind))
        rounds["c++"].append({"async 4": native()})
    with Figures("python") as figures:
        show(
            figures,
            {kind: {name: statistics.median(one[name] for one in found) for name in found[0]} for kind, found in rounds.items()},
        )


if __name__ == "__main__":
    main()
