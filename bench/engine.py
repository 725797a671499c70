#!/usr/bin/env python3
"""4 bytes through the engine (by name, from any thread, in any order) beside the bare collective, in turn, in one run; medians of the
rounds. Beside it what two threads take to hand a word to and fro by a futex: what an engine costs at least that has a thread woken for
each operation.

    bench/engine.py --rounds 5
"""

import argparse
import json
import statistics

from allreduce import BIN, run
from figures import Figures, output_of


def measured(*options):
    words = [f"{BIN}/sullae", "bench", "allreduce", "--np", "2", "--sizes", "4", "--json", *options]
    return json.loads(output_of(words, timeout=600))["results"][0]["latency_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    ways = {"bare collective": lambda: measured(), "through the engine": lambda: measured("--async"),
            "two wake-ups of threads": lambda: run([f"{BIN}/bench_wake_up"], key=str)["to_and_fro"]}
    rounds = [{name: measure() for name, measure in ways.items()} for _ in range(args.rounds)]
    with Figures("engine") as figures:
        figures.print(f"{'4 bytes, 2 ranks':<24}{'microseconds':>14}")
        for name in ways:
            figures[name] = median = statistics.median(found[name] for found in rounds)
            figures.print(f"{name:<24}{median:>14.2f}")
        figures["of two wake-ups"] = ratio = statistics.median(found["through the engine"] / found["two wake-ups of threads"] for found in rounds)
        figures.print(f"{'engine / wake-ups':<24}{ratio:>12.2f} x")


if __name__ == "__main__":
    main()
