#!/usr/bin/env python3
"""`sullae predict` against the model alone: the same batches' network and nothing else, from memory (bench_model_speed).

    bench/predict.py MODEL [--data ../shared/data/nsmc/ratings_train.txt.gz] [--rounds 5] [--build build/release]

MODEL is one of texts, such as models/nsmc of `sullae train nsmc --export models`. Samples a second once the model and the data set are
open, as `sullae predict` prints them; with all threads in one rank, and with one and two ranks of a thread each. Medians of rounds, in turn."""

import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

from figures import BUILD, Figures, run_json


def predict(build, model, data, ranks, workers):
    sullae = build / "bin/sullae"
    with tempfile.TemporaryDirectory() as folder:
        words = [sullae, "run", "--no-tag", "-np", ranks, "--cpus-per-rank", workers, sullae, "predict", model, "--data", data,
                 "--columns", "id", "--output", folder + "/out", "--workers", workers]
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        found = re.search(r"([\d.]+) samples/s$", result.stdout.strip())
        if result.returncode != 0 or not found:
            raise SystemExit(result.stdout + result.stderr)
        return float(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", default="../shared/data/nsmc/ratings_train.txt.gz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    ways = {
        "model alone, 2 threads": lambda: run_json(options.build / "bin/bench_model_speed", options.model, options.data, 64, 2)["samples_per_second"],
        "one rank, 2 threads": lambda: predict(options.build, options.model, options.data, 1, 2),
        "model alone, 1 thread": lambda: run_json(options.build / "bin/bench_model_speed", options.model, options.data, 64, 1)["samples_per_second"],
        "one rank, 1 thread": lambda: predict(options.build, options.model, options.data, 1, 1),
        "two ranks, 1 thread each": lambda: predict(options.build, options.model, options.data, 2, 1),
    }
    rates = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, run in ways.items():
            rates[way].append(run())
    pairs = [("one rank, 2 threads", "model alone, 2 threads"), ("one rank, 1 thread", "model alone, 1 thread"),
             ("two ranks, 1 thread each", "one rank, 1 thread")]
    with Figures("predict") as figures:
        figures.print(f"{'':<26}{'samples/s':>11}{'of':>28}")
        for way in ways:
            line = f"{way:<26}{statistics.median(rates[way]):>11.0f}"
            for one, other in pairs:
                if one == way:
                    ratio = statistics.median(a / b for a, b in zip(rates[one], rates[other]))
                    figures[f"{one}, of {other}"] = ratio
                    line += f"{ratio:>8.2f} x {other}"
            figures[f"{way}, samples/s"] = statistics.median(rates[way])
            figures.print(line)


if __name__ == "__main__":
    main()
