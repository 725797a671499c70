#!/usr/bin/env python3
"""Training a language model: `sullae train gpt` and PyTorch DDP over gloo in turn, in one run; medians of the rounds.

    bench/language.py --data ../shared/data/ag_news --rounds 3

Two ranks with a thread each, 32 samples of 128 pieces a step, 1.3 million parameters with 4,000 pieces. Both are those of
build/python (`make python`), and so of one libtorch, unless --environment says otherwise."""

import argparse
import os
import statistics

from figures import ROOT, Figures, torchrun, train_report

RANKS = 2


def ours(sullae, data, pieces, steps):
    return train_report(sullae, "run", "-np", RANKS, "--cpus-per-rank", 1, sullae, "train", "gpt", "--data", data, "--text-columns", "2,3",
                        "--label-column", 1, "--pieces", pieces, "--max-steps", steps)["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "ag_news"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pieces", type=int, nargs="+", default=[4000, 16000])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--environment", default=os.path.join(ROOT, "build", "python"))
    args = parser.parse_args()
    python, sullae = (os.path.join(args.environment, "bin", name) for name in ("python", "sullae"))
    with Figures("language") as figures:
        figures.print(f"{'samples/s, 2 ranks':<24}{'sullae':>10}{'DDP':>10}{'ratio':>9}")
        for pieces in args.pieces:
            rounds = []
            for _ in range(args.rounds):
                peer = torchrun(python, RANKS, os.path.join(ROOT, "bench/language/pytorch.py"), args.steps, pieces)
                rounds.append((ours(sullae, args.data, pieces, args.steps), peer["samples_per_second"]))
            mine, theirs = (statistics.median(side) for side in zip(*rounds))
            figures[f"{pieces} pieces, ratio"] = statistics.median(one / other for one, other in rounds)
            figures.print(f"{f'gpt, {pieces:,} pieces':<24}{mine:>10.1f}{theirs:>10.1f}{mine / theirs:>7.2f} x")


if __name__ == "__main__":
    main()
