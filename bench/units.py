#!/usr/bin/env python3
"""`sullae train gpt` with more and more of it in parts, with layers in parts, and with layers on ranks one after the other: pieces a second on two ranks, in turn, and the memory of a rank of four.

    bench/units.py [--data ../shared/data/ag_news] [--rounds 3] [--program build/release/bin/sullae]

GPT with 12 layers of 512 (42 million parameters, Adam's states included 671 MB). Memory is the most that any rank had, the program's own and a
test of the model included; a model of nothing much has what the program itself takes."""

import argparse
import os
import statistics
import tempfile

from figures import ROOT, Figures, train_report
from generation import make_texts

WAYS = {"none": "--shard none", "optimizer": "--shard optimizer", "gradients": "--shard gradients",
        "parameters": "--shard parameters", "layers": "--mesh tp={ranks}",
        "stages": "--mesh pp={ranks} --accumulation-steps 4"}
CONTEXT = 64
LAYERS, SIZE = 12, 512


def run(options, texts, ranks, way, size, steps):
    return train_report(
        options.program, "run", "--no-tag", "-np", ranks, "--cpus-per-rank", 1, options.program, "train", "gpt", "--data", texts,
        "--embedding-size", size, "--heads", 8, "--layers", LAYERS, "--pieces", 8000, "--context", CONTEXT, "--batch-size", 8,
        "--epochs", 1, "--max-steps", steps, *WAYS[way].format(ranks=ranks).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "ag_news"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/sullae"))
    options = parser.parse_args()
    with Figures("units") as figures, tempfile.TemporaryDirectory() as texts:
        make_texts(options.data, texts)
        speeds = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                speeds[way].append(CONTEXT * run(options, texts, 2, way, SIZE, 16)["samples_per_second"])
        program = run(options, texts, 4, "none", 16, 2)["peak_memory"]
        figures.print(f"{'':<38}{'pieces/s, 2 ranks':>18}{'/ none':>9}{'MB of a rank, 4 ranks':>24}")
        for way in WAYS:
            ratio = statistics.median(one / other for one, other in zip(speeds[way], speeds["none"]))
            memory = run(options, texts, 4, way, SIZE, 2)["peak_memory"]
            figures[f"{way}, speed"] = ratio
            figures[f"{way}, memory"] = memory
            figures.print(f"{WAYS[way].format(ranks='N'):<38}{statistics.median(speeds[way]):>18.0f}{ratio:>9.2f}{memory / 1e6:>24.0f}")
        figures["program, memory"] = program
        figures.print(f"of which the program has {program / 1e6:.0f}")


if __name__ == "__main__":
    main()
