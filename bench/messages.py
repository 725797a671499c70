#!/usr/bin/env python3
"""Messages to and fro between two ranks of this host: Sullae and Open MPI in turn, in one run.

Half of a round trip, the median of the rounds, of what users call first on either side: World::send and World::receive, MPI_Send and
MPI_Recv. The last column is Open MPI's time divided by ours: above 1 we are ahead.

    bench/messages.py --rounds 5
"""

import argparse
import statistics

from allreduce import BIN, OneHost, human
from figures import Figures

SIZES = [8, 64, 512, 4096, 16384, 65536, 262144] + [2 ** i for i in range(20, 27)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    args = parser.parse_args()
    words = [str(size) for size in args.sizes]
    place = OneHost(2)
    rounds = [(place.sullae(f"{BIN}/bench_messages_sullae", *words), place.mpi([f"{BIN}/bench_messages_mpi", *words]))
              for _ in range(args.rounds)]
    with Figures("messages") as figures:
        figures.print(f"{'':>8}{'sullae':>12}{'Open MPI':>12}{'GB/s':>8}{'ahead':>10}    microseconds one way")
        for size in args.sizes:
            ours, peer = (statistics.median(times[size] for times in side) for side in zip(*rounds))
            figures[human(size)] = ours
            figures[f"{human(size)}, ahead"] = peer / ours
            figures.print(f"{human(size):>8}{ours:12.2f}{peer:12.2f}{size / ours / 1e3:8.2f}{peer / ours:8.2f} x")


if __name__ == "__main__":
    main()
