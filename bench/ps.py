#!/usr/bin/env python3
"""Parameter servers: a step without a model beside ZeroMQ that carries as much, in turn; a worker that is slow; and what MNIST learns.

    bench/ps.py [--rounds 5] [--build build/release] [--data ../shared/data/mnist]

Workers of the first two are threads of one process (bench_ps), and servers are `sullae ps`, or threads that speak ZeroMQ alone. MNIST trains as in `sullae run --ps 2 -np 2 sullae train mnist
--epochs 3`, with three seeds."""

import argparse
import pathlib
import statistics

from figures import BUILD, Figures, run_json, train_report

# Megabytes, workers, servers, steps.
SIZES = [(1, 1, 1, 200), (64, 1, 1, 20), (64, 1, 2, 20), (16, 4, 2, 20)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data/mnist"))
    options = parser.parse_args()
    program = options.build / "bin/bench_ps"
    with Figures("ps") as figures:
        figures.print(f"{'MB':>4}{'workers':>9}{'servers':>9}{'ms a step':>11}{'GB/s':>7}{'ZeroMQ ms':>11}{'ZeroMQ / ours':>15}")
        for size in SIZES:
            rounds = [[run_json(program, way, *size) for way in ("ours", "zeromq")] for _ in range(options.rounds)]
            ours, peer = (statistics.median(one[i]["seconds"] for one in rounds) for i in (0, 1))
            speed = statistics.median(one[0]["gigabytes_a_second"] for one in rounds)
            ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in rounds)
            figures["{} MB, {} workers, {} servers: of ZeroMQ alone".format(*size)] = ratio
            figures.print(f"{size[0]:>4}{size[1]:>9}{size[2]:>9}{1e3 * ours:>11.2f}{speed:>7.2f}{1e3 * peer:>11.2f}{ratio:>15.2f}")
        rates = {bound: statistics.median(run_json(program, "slow", bound, 4, 3)["steps_a_second"] for _ in range(3)) for bound in (0, 4, -1)}
        figures.print()
        figures.print("4 workers, one five times as slow as the others, steps a second of all")
        for bound, rate in rates.items():
            figures[f"one slow worker, staleness {bound}: ahead of synchronous"] = rate / rates[0]
            figures.print(f"  staleness {bound:>2}: {rate:.1f}, {rate / rates[0]:.2f} times synchronous")
        if not options.data.exists():
            return
        figures.print()
        figures.print("MNIST, 2 workers, 2 servers, 3 epochs, seeds 1 to 3: test accuracy")
        for bound in (0, 4, -1):
            accuracies = [mnist(options, bound, seed) for seed in (1, 2, 3)]
            figures[f"MNIST, staleness {bound}"] = statistics.mean(accuracies)
            figures.print(f"  staleness {bound:>2}: " + " ".join(f"{100 * one:.2f}" for one in accuracies) + " %")


def mnist(options, bound, seed):
    sullae = options.build / "bin/sullae"
    return train_report(sullae, "run", "--ps", 2, "--staleness", bound, "-np", 2, sullae, "train", "mnist", "--data", options.data,
                        "--epochs", 3, "--seed", seed)["test_accuracy"]


if __name__ == "__main__":
    main()
