#!/usr/bin/env python3
"""What DistributedOptimizer costs a program that has one rank: a training step of many small layers with libtorch alone,
and wrapped, in turn; medians of the rounds.

    bench/wrapper.py --rounds 5
"""

import argparse
import statistics

from figures import BUILD, Figures, output_of

STEP = BUILD / "bin" / "bench_step"
WAYS = {"plain": "libtorch, gradients filled with zeros", "to_none": "libtorch, gradients removed", "wrapped": "DistributedOptimizer"}


def milliseconds(way):
    return float(output_of([STEP, way], {"OMP_NUM_THREADS": "1"}, timeout=600).split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    rounds = [{way: milliseconds(way) for way in WAYS} for _ in range(args.rounds)]
    with Figures("wrapper") as figures:
        figures.print(f"{'milliseconds a step':<42}{'median':>8}{'ratio':>8}")
        for way, title in WAYS.items():
            figures[f"{way}, ratio"] = ratio = statistics.median(found[way] / found["plain"] for found in rounds)
            figures.print(f"{title:<42}{statistics.median(found[way] for found in rounds):>8.3f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
