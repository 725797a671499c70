#!/usr/bin/env python3
"""What another libtorch gives: the same trainings, two ranks with a processor each, with Debian's (build/release) and with the one that
`make build TORCH=pip` has built with. In turn, in one run; medians of the rounds.

    bench/libtorch.py --rounds 3
    bench/libtorch.py --other build/torch-libtorch --models mnist
"""

import argparse
import os
import re
import statistics
import subprocess

from figures import ROOT, Figures
from scaling import MODELS, SULLAE, together


def libtorch_of(sullae):
    return re.search(r"libtorch (\S+?),", subprocess.run([sullae, "--version"], capture_output=True, text=True, check=True).stdout)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    parser.add_argument("--other", default=os.path.join(ROOT, "build", "torch-pip"), help="its build folder")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    programs = [SULLAE, os.path.join(args.other, "bin", "sullae")]
    for program in programs:
        if not os.path.exists(program):
            raise SystemExit(f"bench/libtorch.py: there is no {program}; `make build` and `make build TORCH=pip` make both")
    with Figures("libtorch") as figures:
        figures.print(f"{'samples/s':<16}" + "".join(f"{libtorch_of(program):>12}" for program in programs) + f"{'ratio':>8}")
        for model in args.models:
            _, batch, steps = MODELS[model]
            rounds = [[together(model, args.data, batch, steps, program) for program in programs] for _ in range(args.rounds)]
            figures[f"{model}, ratio"] = ratio = statistics.median(other / debian for debian, other in rounds)
            debian, other = (statistics.median(side) for side in zip(*rounds))
            figures.print(f"{model:<16}{debian:>12.0f}{other:>12.0f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
