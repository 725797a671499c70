#!/usr/bin/env python3
"""Tables of embeddings on parameter servers: a step on a small and on a large one, in turn; and what NSMC learns.

    bench/ps_tables.py [--rounds 5] [--build build/release] [--data ../shared/data/nsmc] [--seeds 1,2,3]

A step looks 4,096 rows of 64 numbers up and sends their gradients, between two processes (bench_ps_table). NSMC trains as in
`sullae run --ps 2 -np 2 sullae train nsmc --ps-mode ps-sparse`, with the dense gradients averaged among two ranks, beside two ranks
without servers."""

import argparse
import pathlib
import statistics

from figures import BUILD, Figures, run_json, train_report

ROWS = [1_000_000, 10_000_000]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data/nsmc"))
    parser.add_argument("--seeds", default="1,2,3", type=lambda text: [int(seed) for seed in text.split(",")])
    options = parser.parse_args()
    with Figures("ps_tables") as figures:
        rounds = [[run_json(options.build / "bin/bench_ps_table", rows, 64, 4096, 1, 500) for rows in ROWS] for _ in range(options.rounds)]
        figures.print(f"{'rows':>10}{'ms a step':>11}{'bytes / needed':>16}")
        for i, rows in enumerate(ROWS):
            bytes_ratio = statistics.median(one[i]["bytes_a_step"] / one[i]["bytes_needed"] for one in rounds)
            figures[f"{rows} rows: bytes of those needed"] = bytes_ratio
            figures.print(f"{rows:>10}{1e3 * statistics.median(one[i]['seconds'] for one in rounds):>11.2f}{bytes_ratio:>16.3f}")
        ratio = statistics.median(large["seconds"] / small["seconds"] for small, large in rounds)
        figures["ten times the rows: of a step's time"] = ratio
        figures.print(f"ten times the rows: {ratio:.2f} times a step's time")
        if not options.data.exists():
            return
        figures.print()
        figures.print(f"NSMC, 2 ranks, 2 servers, seeds {', '.join(map(str, options.seeds))}: test accuracy")
        for name, flags, more in [
            ("without servers", [], []),
            *((f"ps-sparse, staleness {bound}", ["--ps", 2, "--staleness", bound], ["--ps-mode", "ps-sparse"]) for bound in (0, 4, -1)),
        ]:
            reports = [nsmc(options, flags, more, seed) for seed in options.seeds]
            figures[f"NSMC, {name}"] = statistics.mean(one["test_accuracy"] for one in reports)
            figures.print(f"  {name:<26}" + " ".join(f"{100 * one['test_accuracy']:.2f}" for one in reports) + " %")


def nsmc(options, flags, more, seed):
    sullae = options.build / "bin/sullae"
    return train_report(sullae, "run", *flags, "-np", 2, sullae, "train", "nsmc", "--data", options.data, *more, "--seed", seed)


if __name__ == "__main__":
    main()
