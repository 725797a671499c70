#!/usr/bin/env python3
"""What reducing gradients during backward is worth: `sullae train mnist` with and without it, in turn; medians of the
rounds, and the share of the reduction that backward hides, from the timeline.

    bench/overlap.py --rounds 3                    two ranks on one host
    bench/overlap.py --rounds 3 --rate 1gbit       two network namespaces, with a link of that rate (root)
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile

from allreduce import BIN, OneHost, TwoHosts
from figures import ROOT, Figures


def train(place, data, *options):
    with tempfile.TemporaryDirectory() as folder:
        report, timeline = f"{folder}/report.json", f"{folder}/timeline.json"
        command = [f"{BIN}/sullae", "train", "mnist", "--data", data, "--epochs", "1", "--max-steps", "400", *options]
        place.sullae(*command, "--report", report, env={"OMP_NUM_THREADS": "1"})
        place.sullae(*command, env={"SULLAE_TIMELINE": timeline, "OMP_NUM_THREADS": "1"})
        summary = subprocess.run([f"{BIN}/sullae", "timeline", timeline], capture_output=True, text=True, check=True).stdout
        ranks = [line.split() for line in summary.splitlines() if line.split() and line.split()[0].isdigit() and "ms in" not in line]
        hidden = statistics.mean(float(words[6]) for words in ranks)
        return json.load(open(report))["samples_per_second"], hidden


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "mnist"))
    parser.add_argument("--rate", help="of a link between two hosts, e.g. 1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(TwoHosts(args.rate)) if args.rate else OneHost(2)
        data = os.path.abspath(args.data)
        found = {option: [] for option in ("overlap", "none")}
        for _ in range(args.rounds):
            found["overlap"].append(train(place, data))
            found["none"].append(train(place, data, "--no-overlap"))
    with Figures("overlap" + (f" {args.rate}" if args.rate else "")) as figures:
        figures.print(f"MNIST, {place.name:<36}{'samples/s':>10}{'hidden':>9}")
        for option, title in (("overlap", "during backward"), ("none", "after backward")):
            speed, hidden = (statistics.median(side) for side in zip(*found[option]))
            figures[f"{title}, hidden"] = hidden
            figures.print(f"{title:<43}{speed:>10.0f}{hidden:>7.0f} %")
        figures["ratio"] = ratio = statistics.median(a[0] / b[0] for a, b in zip(found["overlap"], found["none"]))
        figures.print(f"{'ratio':<43}{ratio:>10.2f} x")


if __name__ == "__main__":
    main()
