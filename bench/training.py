#!/usr/bin/env python3
"""Training throughput: `sullae train` and PyTorch DDP (gloo) in turn, in one run; medians of the rounds.

    bench/training.py --data ../shared/data --ranks 2 --rounds 3
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile

from figures import ROOT, Figures, train_report

SULLAE = os.path.join(ROOT, "build", "release", "bin", "sullae")
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def run(ranks, words, env=None):
    command = [SULLAE, "run", "-np", str(ranks), "--cpus-per-rank", "1", *words]
    result = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=3000)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def ours(ranks, model, data, steps):
    return train_report(SULLAE, "run", "-np", ranks, "--cpus-per-rank", 1, SULLAE, "train", model, "--data", data,
                        "--max-steps", steps + 1, timeout=3000)["samples_per_second"]


def peer(ranks, model, data, steps, *options):
    store = tempfile.mkdtemp()
    output = run(ranks, [PYTHON, f"{ROOT}/bench/training/peer.py", model, "--data", data, "--steps", str(steps), *options],
                 {"GLOO_STORE": store})
    shutil.rmtree(store)
    return float(next(line for line in output.splitlines() if "samples_per_second" in line).split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"), help="folder with mnist/ and nsmc/")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    # (title, model, steps of ours, steps of the peer, the peer's options)
    cases = [("MNIST CNN, DDP", "mnist", 900, 900, []),
             ("NSMC LSTM, DDP with dense gradients", "nsmc", 200, 12, []),
             ("NSMC LSTM, DDP with sparse gradients", "nsmc", 200, 200, ["--sparse"])]
    with Figures("training") as figures:
        figures.print(f"{'samples/s':<40}{'ranks':>6}{'sullae':>10}{'DDP':>10}{'ratio':>9}")
        for ranks in args.ranks:
            for title, model, our_steps, steps, options in cases:
                data = os.path.join(args.data, model)
                rounds = [(ours(ranks, model, data, our_steps), peer(ranks, model, data, steps, *options)) for _ in range(args.rounds)]
                a, b = (statistics.median(side) for side in zip(*rounds))
                figures[f"{title}, {ranks} ranks, ratio"] = a / b
                figures.print(f"{title:<40}{ranks:>6}{a:>10.0f}{b:>10.0f}{a / b:>7.2f} x")


if __name__ == "__main__":
    main()
