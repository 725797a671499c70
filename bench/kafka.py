#!/usr/bin/env python3
"""A topic's messages of 1 KB, read with one core: by Sullae's consumer, as a window (what `sullae train --source` reads), and by librdkafka
alone, which both are built on. The brokers, librdkafka's mock cluster, have the other core.

    bench/kafka.py [--rounds 5] [--build build/release]

Medians of rounds, in turn."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

from figures import BUILD, Figures, run_json

PARTITIONS, EACH, BYTES = 64, 4500, 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    program = options.build / "bin/bench_kafka"
    cores = sorted(os.sched_getaffinity(0))
    own, brokers_core = str(cores[0]), str(cores[-1])
    count = str(PARTITIONS * EACH)
    rates = {"ours": [], "window": [], "librdkafka": []}
    with Figures("kafka") as figures:
        for _ in range(options.rounds):
            # Anew each time: whoever was a member of a group is remembered.
            server = subprocess.Popen(["taskset", "-c", brokers_core, program, "serve", str(PARTITIONS), str(EACH), str(BYTES)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
            brokers = json.loads(server.stdout.readline())["brokers"]
            pin = ["taskset", "-c", own, program]
            rates["ours"].append(run_json(*pin, "ours", brokers, count)["messages_per_second"])
            rates["window"].append(run_json(*pin, "window", brokers)["messages_per_second"])
            rates["librdkafka"].append(run_json(*pin, "raw", brokers, count, str(PARTITIONS))["messages_per_second"])
            server.stdin.close()
            server.wait()
        figures.print(f"{PARTITIONS * EACH} messages of {BYTES} bytes, one core; 1000 a second, of librdkafka's")
        for way, found in rates.items():
            ratio = statistics.median(a / b for a, b in zip(found, rates["librdkafka"]))
            figures[f"{way}: a second"] = statistics.median(found)
            figures[f"{way}, of librdkafka"] = ratio
            figures.print(f"  {way:<12}{statistics.median(found) / 1e3:8.0f}{ratio:8.2f} x")


if __name__ == "__main__":
    main()
