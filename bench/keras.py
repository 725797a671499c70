#!/usr/bin/env python3
"""The Keras example scaled up and scaled out: one process with N threads against N ranks with one, each with the same batch of
all together; what they reach and how fast. Run it with the Python that has the package and Keras.

    build/python/bin/python bench/keras.py --data ../shared/data/mnist [--workers 1 2 4] [--seeds 1 2] [--epochs 4]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

from figures import Figures

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "examples", "python", "keras_mnist.py")
BATCH = 32  # of each worker


def run(options, ranks, threads, seed):
    """Test accuracy in per cent, samples/s."""
    command = [os.path.join(os.path.dirname(sys.executable), "sullae"), "run", "-np", str(ranks), sys.executable, EXAMPLE]
    command += ["--data", options.data, "--epochs", options.epochs, "--threads", threads, "--seed", seed]
    # What one process trains with by itself: the batch and the learning rate of all workers together.
    command += ["--batch-size", BATCH * threads, "--lr", 0.01 * threads]
    output = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"test accuracy ([\d.]+) %, (\d+) samples/s", output)
    return float(found[1]), float(found[2])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", default="../shared/data/mnist")
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--epochs", type=int, default=4)
    options = arguments.parse_args()
    with Figures("keras") as figures:
        figures.print(f"{'':8}{'one process, N threads':>28}{'N ranks, one thread each':>28}{'ahead':>8}")
        figures.print(f"{'workers':8}{'samples/s':>16}{'accuracy':>12}{'samples/s':>16}{'accuracy':>12}{'':8}")
        for workers in options.workers:
            up, out = [], []
            for seed in options.seeds:
                up.append(run(options, 1, workers, seed))
                out.append(run(options, workers, 1, seed) if workers > 1 else up[-1])
            cells, speeds = "", []
            for title, rounds in (("up", up), ("out", out)):
                accuracy, speed = (statistics.mean(column) for column in zip(*rounds))
                figures[f"{workers} {title}, accuracy"] = accuracy
                speeds.append(speed)
                cells += f"{speed:16.0f}{accuracy:10.2f} %"
            figures[f"{workers} workers, ahead"] = speeds[1] / speeds[0]
            figures.print(f"{workers:<8}{cells}{speeds[1] / speeds[0]:8.2f}")


if __name__ == "__main__":
    main()
