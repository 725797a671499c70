#!/usr/bin/env python3
"""What two ranks lose against the machine's own limit: two independent processes, a processor each, that train with half of the
batch each and do not talk to each other. In turn, in one run; medians of the rounds.

    bench/scaling.py --rounds 3
    bench/scaling.py --models mnist --steps 900
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import tarfile
import tempfile

from figures import ROOT, Figures

SULLAE = os.path.join(ROOT, "build", "release", "bin", "sullae")
# (data, global batch, steps)
MODELS = {"mnist": ("mnist", 64, 900), "nsmc": ("nsmc", 64, 200), "resnet18": ("cifar10", 64, 30)}


def few_images(archive, path):
    """Two images of each class: what is measured is training, and ResNet would be tested for longer."""
    with tarfile.open(archive) as source, tarfile.open(path, "w") as few:
        of_class = collections.Counter()
        for member in source:
            name = os.path.dirname(member.name)
            if member.isfile() and of_class[name] < 2:
                of_class[name] += 1
                few.addfile(member, source.extractfile(member))
    return path


def command(model, data, batch, steps, report, sullae=SULLAE):
    folder = os.path.join(data, MODELS[model][0])
    words = [sullae, "train", model, "--data", folder, "--batch-size", str(batch), "--max-steps", str(steps), "--report", report]
    if model == "resnet18":
        words += ["--test-data", few_images(os.path.join(folder, "test.tar"), f"{report}.tar")]
    return words


def speed(report):
    return json.load(open(report))["samples_per_second"]


def finish(process):
    output, _ = process.communicate(timeout=3000)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(process.args)}\n{output}")


def start(words, environment=None):
    return subprocess.Popen(words, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def together(model, data, batch, steps, sullae=SULLAE):
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        finish(start([sullae, "run", "-np", "2", "--cpus-per-rank", "1", *command(model, data, batch, steps, report, sullae)]))
        return speed(report)


def apart(model, data, batch, steps):
    with tempfile.TemporaryDirectory() as folder:
        reports = [f"{folder}/{i}.json" for i in range(2)]
        cpus = sorted(os.sched_getaffinity(0))[:2]
        processes = [start(["taskset", "-c", str(cpu), *command(model, data, batch // 2, steps, report)], {"OMP_NUM_THREADS": "1"})
                     for cpu, report in zip(cpus, reports)]
        for process in processes:
            finish(process)
        return sum(speed(report) for report in reports)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--steps", type=int, help="default: by model")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("bench/scaling.py: one processor, expected two or more")
    with Figures("scaling") as figures:
        figures.print(f"{'samples/s':<16}{'two ranks':>12}{'two processes':>16}{'ratio':>8}")
        for model in args.models:
            _, batch, steps = MODELS[model]
            steps = args.steps or steps
            rounds = [(together(model, args.data, batch, steps), apart(model, args.data, batch, steps)) for _ in range(args.rounds)]
            figures[f"{model}, ratio"] = ratio = statistics.median(a / b for a, b in rounds)
            ranks, processes = (statistics.median(side) for side in zip(*rounds))
            figures.print(f"{model:<16}{ranks:>12.0f}{processes:>16.0f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
