#!/usr/bin/env python3
"""A step's gradients: the planned and the negotiated path, one MPI call a tensor, and DDP's reducer, in turn, in one run.

    bench/gradients.py --ranks 2 4 --rounds 3
"""

import argparse
import shutil
import statistics
import tempfile

from figures import BUILD, ROOT, Figures, output_of

BIN = BUILD / "bin"
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def times(command, env=None):
    return {line.split()[0]: float(line.split()[1]) for line in output_of(command, env, timeout=600).splitlines() if len(line.split()) == 2}


def one_round(ranks, model):
    run = [f"{BIN}/sullae", "run", "--no-tag", "-np", str(ranks)]
    found = times([*run, f"{BIN}/bench_gradients_sullae", model])
    found |= times(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), f"{BIN}/bench_gradients_mpi", model])
    store = tempfile.mkdtemp()
    found |= times([*run, PYTHON, f"{ROOT}/bench/gradients/ddp.py", model], {"GLOO_STORE": store})
    shutil.rmtree(store)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    names = ["planned", "negotiated", "ordinary", "grouped", "mpi", "ddp"]
    with Figures("gradients") as figures:
        figures.print("milliseconds a step" + " " * 11 + "".join(f"{name:>12}" for name in names))
        for model, title in (("resnet50", "ResNet-50, 161 tensors"), ("small", "1,000 tensors of 1 KB")):
            for ranks in args.ranks:
                rounds = [one_round(ranks, model) for _ in range(args.rounds)]
                medians = {name: statistics.median(found[name] for found in rounds) for name in names}
                for peer in ("mpi", "ddp"):
                    for ours in ("planned", "grouped"):
                        figures[f"{model}, {ranks} ranks, {ours} ahead of {peer}"] = medians[peer] / medians[ours]
                figures.print(f"{title:<24}{ranks:>2} ranks" + "".join(f"{m:12.3f}" for m in medians.values())[2:])


if __name__ == "__main__":
    main()
