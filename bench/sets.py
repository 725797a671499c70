#!/usr/bin/env python3
"""64 groups of ranks on this host: World::process_set and MPI_Comm_create in turn, in one run; medians of the rounds.

    bench/sets.py --ranks 2 8 --rounds 5
"""

import argparse
import statistics

from allreduce import BIN, OneHost
from figures import Figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 8])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with Figures("sets") as figures:
        figures.print(f"{'microseconds':<33}{'sullae':>10}{'Open MPI':>10}{'ahead':>10}")
        for ranks in args.ranks:
            place = OneHost(ranks)
            rounds = [(place.sullae(f"{BIN}/bench_sets_sullae", key=str), place.mpi([f"{BIN}/bench_sets_mpi"], key=str))
                      for _ in range(args.rounds)]
            for key, title in (("make", "making one of 64"), ("first", "the first barrier in a set")):
                ours, peer = (statistics.median(times[key] for times in side) for side in zip(*rounds))
                figures[f"{ranks} ranks, {key}"] = ours
                line = f"{ranks} ranks, {title:<24}{ours:>10.1f}{peer:>10.1f}"
                if key == "make":  # what it leaves to the first use, Open MPI does here
                    figures[f"{ranks} ranks, make, ahead"] = peer / ours
                    line += f"{peer / ours:>8.2f} x"
                figures.print(line)


if __name__ == "__main__":
    main()
