#!/usr/bin/env python3
"""A model in two stages beside one process, ours and torch.distributed.pipelining's over gloo, in turn.

    bench/stages.py [--rounds 5] [--build build/release]

Computing: 16 linear layers of 512 and 8 micro-batches of 64, a thread a rank; how much faster two ranks are than one process with the same
libtorch. Sleeping: stages that sleep; the share of the time in which ranks idle, which is (P - 1) / (m + P - 1) for P ranks and m
micro-batches where nothing is lost. PyTorch's is measured where `make python` has made build/python."""

import argparse
import pathlib
import statistics

from figures import BUILD, Figures, run_json, torchrun

HERE = pathlib.Path(__file__).parent
MICRO_BATCHES = 8


def ours(build, ranks, *words):
    return run_json(build / "bin/sullae", "run", "--no-tag", "-np", ranks, build / "bin/bench_stages", *words)["seconds"]


def theirs(python, ranks, schedule, steps):
    return torchrun(python, ranks, HERE / "stages/pytorch.py", schedule, MICRO_BATCHES, steps)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path("build/python/bin/python"))
    options = parser.parse_args()
    with Figures("stages") as figures:
        speedups = {}
        for _ in range(options.rounds):
            alone = ours(options.build, 1, "computing", "1f1b", MICRO_BATCHES, 20)
            for schedule in ("gpipe", "1f1b", "interleaved"):
                two = ours(options.build, 2, "computing", schedule, MICRO_BATCHES, 20)
                speedups.setdefault(("Sullae", schedule), []).append(alone / two)
            if not options.python.exists():
                continue
            alone = theirs(options.python, 1, "1f1b", 20)
            for schedule in ("gpipe", "1f1b"):
                speedups.setdefault(("PyTorch", schedule), []).append(alone / theirs(options.python, 2, schedule, 20))
        figures.print(f"{'two ranks, 8 micro-batches':<28}{'times one process':>18}{'at most':>10}")
        for (who, schedule), ratios in speedups.items():
            chunks = 2 if schedule == "interleaved" else 1
            most = 2 * MICRO_BATCHES * chunks / (MICRO_BATCHES * chunks + 1)
            figures[f"{who}, {schedule}"] = statistics.median(ratios)
            figures.print(f"{who + ', ' + schedule:<28}{statistics.median(ratios):>18.2f}{most:>10.2f}")
        figures.print()
        figures.print(f"{'stages that sleep':<28}{'idle, %':>18}{'expected':>10}")
        for schedule in ("gpipe", "1f1b", "interleaved"):
            for ranks, micro_batches in ((2, 4), (2, 8)):
                chunks = 2 if schedule == "interleaved" else 1
                alone = ours(options.build, 1, "sleeping", schedule, micro_batches, 10)
                took = statistics.median(ours(options.build, ranks, "sleeping", schedule, micro_batches, 10) for _ in range(3))
                idle, expected = 100 * (1 - alone / ranks / took), 100 * (ranks - 1) / (micro_batches * chunks + ranks - 1)
                figures[f"idle, {schedule}, {micro_batches} micro-batches"] = idle
                figures.print(f"{f'{schedule}, {micro_batches} micro-batches':<28}{idle:>18.1f}{expected:>10.1f}")


if __name__ == "__main__":
    main()
