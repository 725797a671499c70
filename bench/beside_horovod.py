#!/usr/bin/env python3
"""One program, with `import horovod.torch as hvd` and with `import sullae.torch as hvd`: collectives and training steps of two ranks
with a thread each, Horovod over Gloo and over MPI, both with Debian's PyTorch; medians of rounds in turn.

    make python TORCH=debian; scripts/setup.sh horovod
    bench/beside_horovod.py [--rounds 3]
"""

import argparse
import importlib
import json
import os
import statistics
import tempfile

from figures import ROOT, Figures, output_of
from steps import linears, step_time, timed

SIZES = {"4 B": 4, "64 KiB": 65536, "16 MiB": 16 << 20}
MANY = 100  # small gradients that are ready together


def networks(torch):
    yield "step of 24 x Linear(256)", linears(torch), torch.randn(16, 256)
    yield "step of MNIST's network", torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(1600, 10)
    ), torch.randn(32, 1, 28, 28)


def rank_main(module, output):
    import torch

    hvd = importlib.import_module(module)
    torch.set_num_threads(1)
    hvd.init()
    found = {}
    for title, size in SIZES.items():
        tensor = torch.zeros(size // 4)
        found[f"allreduce, {title}"] = timed(
            lambda t=tensor: hvd.allreduce_(t, name="t", op=hvd.Sum), {4: 1000, 65536: 300}.get(size, 15)
        )
    many = [torch.zeros(4096) for _ in range(MANY)]

    def reduce_many():
        handles = [hvd.allreduce_async_(t, name=str(i), op=hvd.Sum) for i, t in enumerate(many)]
        for handle in handles:
            hvd.synchronize(handle)

    found[f"{MANY} allreduces of 16 KiB"] = timed(reduce_many, 30)
    for title, model, x in networks(torch):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        found[title] = step_time(model, optimizer, x)
    if hvd.rank() == 0:
        with open(output, "w") as file:
            json.dump(found, file)


def run(words, module):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "found.json")
        output_of([*words, os.path.abspath(__file__), "--rank", module, output], {"OMP_NUM_THREADS": "1"})
        with open(output) as file:
            return json.load(file)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--sullae", default=os.path.join(ROOT, "build/python-debian/bin"), help="folder of programs")
    arguments.add_argument("--horovod", default=os.path.join(ROOT, "build/horovod/bin"), help="folder of programs")
    arguments.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.rank:
        return rank_main(*options.rank)
    ours, theirs = options.sullae, options.horovod
    horovod = [f"{theirs}/horovodrun", "-np", "2"]
    kinds = {
        "sullae": ([f"{ours}/sullae", "run", "-np", "2", f"{ours}/python"], "sullae.torch"),
        "gloo": ([*horovod, "--gloo", f"{theirs}/python"], "horovod.torch"),
        "mpi": ([*horovod, "--mpi", f"{theirs}/python"], "horovod.torch"),
    }
    rounds = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, words in kinds.items():
            rounds[kind].append(run(*words))
    with Figures("horovod") as figures:
        figures.print(f"{'microseconds':28}{'sullae.torch':>14}{'Horovod, Gloo':>16}{'Horovod, MPI':>15}{'ahead':>8}")
        for name in rounds["sullae"][0]:
            own, gloo, mpi = (statistics.median(one[name] for one in found) for found in rounds.values())
            ahead = min(gloo, mpi) / own
            figures[f"{name}, ahead"] = ahead
            figures.print(f"{name:28}{own:14.1f}{gloo:16.1f}{mpi:15.1f}{ahead:8.1f}")


if __name__ == "__main__":
    main()
