#!/usr/bin/env python3
"""Accuracy on the test split, over seeds and numbers of ranks: the figures of README.md and docs/performance.md.

    bench/accuracy.py mnist --ranks 1 2 4 --seeds 1 2 3 -- --epochs 3
    bench/accuracy.py nsmc --ranks 1 2 --seeds 1 2 3 --peer

Prints each run and, for each number of ranks, the least, the median and the greatest. With --peer PyTorch trains the same in one
process, in turn.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SULLAE = os.path.join(ROOT, "build", "release", "bin", "sullae")
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def ours(model, data, ranks, seed, options):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        run([SULLAE, "run", "-np", str(ranks), SULLAE, "train", model, "--data", data, "--seed", str(seed),
             "--report", report.name, *options])
        return 100 * json.load(open(report.name))["test_accuracy"]


def peer(model, data, seed):
    output = run([PYTHON, f"{ROOT}/bench/training/peer.py", model, "--data", data, "--seed", str(seed), "--epochs", "2", "--sparse"])
    return 100 * float(re.findall(r"accuracy\D*([0-9.]+)", output)[-1])


def summary(name, values):
    print(f"{name:<24}{min(values):>8.2f}{statistics.median(values):>8.2f}{max(values):>8.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", help="default: the model's folder in ../shared/data")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("options", nargs="*", help="of `sullae train`, behind --")
    args = parser.parse_args()
    data = args.data or os.path.join(ROOT, "..", "shared", "data", args.model)
    found = {}
    for seed in args.seeds:
        for ranks in args.ranks:
            accuracy = ours(args.model, data, ranks, seed, args.options)
            print(f"{args.model}, seed {seed}, ranks {ranks}: {accuracy:.2f} %", flush=True)
            found.setdefault(f"{args.model}, ranks {ranks}", []).append(accuracy)
        if args.peer:
            accuracy = peer(args.model, data, seed)
            print(f"{args.model}, seed {seed}, PyTorch: {accuracy:.2f} %", flush=True)
            found.setdefault(f"{args.model}, PyTorch", []).append(accuracy)
    print(f"{'':<24}{'least':>8}{'median':>8}{'most':>8}")
    for name, values in found.items():
        summary(name, values)


if __name__ == "__main__":
    main()
