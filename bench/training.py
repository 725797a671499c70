#!/usr/bin/env python3
"""Training throughput: `sullae train` and PyTorch DDP (gloo) in turn, in one run; medians of the rounds.

    bench/training.py --data ../shared/data --ranks 2 --rounds 3
"""

import argparse
import os
import shutil
import statistics
import tempfile

from figures import BUILD, ROOT, Figures, output_of, train_report

SULLAE = BUILD / "bin" / "sullae"
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def on_ranks(ranks, words, env=None):
    return output_of([SULLAE, "run", "-np", ranks, "--cpus-per-rank", "1", *words], env, timeout=3000)


def ours(ranks, model, data, steps):
    return train_report(SULLAE, "run", "-np", ranks, "--cpus-per-rank", 1, SULLAE, "train", model, "--data", data,
                        "--max-steps", steps + 1, timeout=3000)["samples_per_second"]


def peer(ranks, model, data, steps, *options):
    store = tempfile.mkdtemp()
    output = on_ranks(ranks, [PYTHON, f"{ROOT}/bench/training/peer.py", model, "--data", data, "--steps", str(steps), *options],
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
