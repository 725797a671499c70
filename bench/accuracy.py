#!/usr/bin/env python3
"""Accuracy, in per cent, or perplexity on the test split, over seeds and numbers of ranks: the figures of README.md and docs/performance.md.

    bench/accuracy.py mnist --ranks 1 2 4 --seeds 1 2 3 -- --epochs 3
    bench/accuracy.py nsmc --ranks 1 2 --seeds 1 2 3 --peer
    bench/accuracy.py gpt --ranks 1 2 -- --text-columns 2,3 --label-column 1

Prints each run and, for each number of ranks, the least, the median and the greatest. With --peer PyTorch trains the same in one
process, in turn.
"""

import argparse
import os
import re
import statistics
import sys

from figures import BUILD, ROOT, Figures, output_of, train_report

FOLDERS = {"text": "ag_news", "lstm": "ag_news", "resnet18": "cifar10", "transformer": "nsmc", "gpt": "ag_news"}
SULLAE = BUILD / "bin" / "sullae"
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def ours(model, data, ranks, seed, options):
    found = train_report(SULLAE, "run", "-np", ranks, SULLAE, "train", model, "--data", data, "--seed", seed, *options)
    return found["test_perplexity"] if "test_perplexity" in found else 100 * found["test_accuracy"]


def peer(model, data, seed):
    output = output_of([PYTHON, f"{ROOT}/bench/training/peer.py", model, "--data", data, "--seed", str(seed), "--epochs", "2", "--sparse"])
    return 100 * float(re.findall(r"accuracy\D*([0-9.]+)", output)[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", help="default: the model's folder in ../shared/data")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--peer", action="store_true")
    parser.epilog = "What stands behind -- are options of `sullae train`."
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args, options = parser.parse_args(words[:end]), words[end + 1:]
    data = args.data or os.path.join(ROOT, "..", "shared", "data", FOLDERS.get(args.model, args.model))
    unit = "" if args.model == "gpt" else " %"
    found = {}
    with Figures(f"accuracy {args.model}") as figures:
        for seed in args.seeds:
            ways = [(f"{ranks} ranks", lambda ranks=ranks: ours(args.model, data, ranks, seed, options)) for ranks in args.ranks]
            if args.peer:
                ways.append(("PyTorch", lambda: peer(args.model, data, seed)))
            for name, measure in ways:
                found.setdefault(name, []).append(measure())
                print(f"{args.model}, seed {seed}, {name}: {found[name][-1]:.2f}{unit}", flush=True)
        figures.print(f"{args.model + ', seeds ' + ', '.join(map(str, args.seeds)):<24}{'least':>8}{'median':>8}{'most':>8}")
        for name, values in found.items():
            summary = {"least": min(values), "median": statistics.median(values), "most": max(values)}
            for word, value in summary.items():
                figures[f"{name}, {word}"] = value
            figures.print(f"{name:<24}" + "".join(f"{value:>8.2f}" for value in summary.values()) + unit)


if __name__ == "__main__":
    main()
