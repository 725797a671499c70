#!/usr/bin/env python3
"""How long training stands still when a rank is killed, leaves or comes, and what an elastic job costs when nothing happens.

    bench/elastic.py [--kills 50] [--state MEGABYTES] [--ranks 4] [--build build/release]
    bench/elastic.py --accuracy mnist|nsmc [--seeds 3] [--kills 10]

A small network (tests/torch/elastic_program) trains on ranks of this host. From the signal to the end of the first step of the
next world, medians and 95th percentiles. Each run must end well, with each sample used once."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import time

from figures import BUILD, Figures

BATCH = 12
SHARED = pathlib.Path(__file__).parents[2] / "shared" / "data"


def ranks_of(folder, program=b"elastic_program"):
    """{worker: pid} of the job's ranks, which have the folder, or a file, among their words."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if not words[0].endswith(program) or str(folder).encode() not in words:
                continue
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue  # it has ended
        number = re.search(rb"SULLAE_ELASTIC_WORKER=(\d+)", variables)
        if number:
            found[int(number.group(1))] = int(entry.name)
    return found


def lines_of(folder):
    for file in folder.glob("samples-*"):
        for line in file.read_text().splitlines():
            words = line.split()
            if len(words) == 5:
                yield [int(word) for word in words]


def check(folder, steps):
    """Each step was done in one world, with each sample once. Whoever was killed at the end of a step may not have written it down."""
    worlds, samples = collections.defaultdict(set), collections.Counter()
    for step, first, last, generation, _ in lines_of(folder):
        worlds[step].add(generation)
        samples.update(range(first, last))
    wrong = [step for step in range(steps) if len(worlds[step]) != 1]
    assert not wrong and len(worlds) == steps, f"steps that were not done in one world: {wrong[:10]}"
    assert max(samples.values()) == 1, "samples were used twice"


def wait_for_all(folder, ranks):
    """Until the newest world has all ranks: their parts of a step are as small as can be."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        newest = max(lines_of(folder), key=lambda line: line[4], default=None)
        if newest and newest[2] - newest[1] <= BATCH // ranks:
            return
        time.sleep(0.05)
    raise AssertionError(f"{ranks} ranks did not come within a minute")


def joins(folder):
    """Seconds between two steps of ranks that stay, where others have come between them."""
    ranks = collections.Counter((step, generation) for step, _, _, generation, _ in lines_of(folder))
    ranks = {generation: count for (_, generation), count in ranks.items()}
    waits = []
    for file in folder.glob("samples-*"):
        lines = [[int(word) for word in line.split()] for line in file.read_text().splitlines() if len(line.split()) == 5]
        for before, after in zip(lines, lines[1:]):
            if ranks[after[3]] > ranks[before[3]]:
                waits.append((after[4] - before[4]) / 1e9)
    return waits


def disturb(build, options, what, times, pause_ms=5):
    """Sends a signal to a rank that is drawn, `times` times, while steps go on. Returns seconds to the next world's first step,
    and those for which the others stand still where one comes in its place."""
    program = str(build / "bin" / "elastic_program")
    waits = []
    with tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
        folder = pathlib.Path(name)
        steps = 400 * times
        words = [str(build / "bin" / "sullae"), "run", "-np", str(options.ranks), "--min-np", "1", "--cooldown", "0.05:0.05"]
        words += [program, name, str(steps), "--pause", str(pause_ms), "--state", str(options.state)]
        job = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            for _ in range(times):
                wait_for_all(folder, options.ranks)
                time.sleep(random.uniform(0.2, 0.5))
                alive = ranks_of(folder)
                generation = max(line[3] for line in lines_of(folder))
                began = time.monotonic_ns()
                os.kill(alive[random.choice(sorted(alive))], what)
                while True:
                    after = [line[4] for line in lines_of(folder) if line[3] > generation and line[4] > began]
                    if after:
                        break
                    assert job.poll() is None and time.monotonic_ns() - began < 60e9, "the job does not go on"
                    time.sleep(0.01)
                waits.append((min(after) - began) / 1e9)
            _, said = job.communicate(timeout=600)
            assert job.returncode == 0, said
            check(folder, steps)
            stands_still = joins(folder)
        finally:
            job.kill()
            job.wait()
        left = ranks_of(folder)
        assert not left, f"processes are left: {left}"
    return waits, stands_still


def cost(build, rounds=15):
    """Seconds a step of an elastic job and of another, in turn, and the median of the rounds' ratios."""
    times = {"elastic": [], "fixed": []}
    kinds = [("elastic", ["--min-np", "1"]), ("fixed", [])]
    for _ in range(rounds):
        kinds.reverse()  # whoever comes second may find another machine
        for kind, flags in kinds:
            with tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
                words = [str(build / "bin" / "sullae"), "run", "-np", "2", *flags, str(build / "bin" / "elastic_program"), name, "4000"]
                subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
                ends = sorted(line[4] for line in lines_of(pathlib.Path(name)) if line[1] % BATCH == 0)
                times[kind].append((ends[-1] - ends[200]) / (len(ends) - 201) / 1e9)
    ratios = [one / other for one, other in zip(times["elastic"], times["fixed"])]
    return {kind: statistics.median(values) for kind, values in times.items()}, statistics.median(ratios)


def trained(build, recipe, seed, kills):
    """The report of a training of three ranks, `kills` of which, drawn, are killed one after the other, while others take their places."""
    with tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
        report = pathlib.Path(name) / "report.json"
        words = [str(build / "bin" / "sullae"), "run", "-np", "3", "--min-np", "1", "--cooldown", "0.2:0.2", str(build / "bin" / "sullae")]
        words += ["train", recipe, "--data", str(SHARED / recipe), "--seed", str(seed), "--report", str(report)]
        job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, done = [], 0
        try:
            for line in job.stdout:
                said.append(line)
                # Each line of progress is a chance, so that kills are spread over the training.
                if " step " not in line or done == kills:
                    continue
                alive = ranks_of(report, b"sullae")
                if len(alive) == 3:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(alive[random.choice(sorted(alive))], signal.SIGKILL)
                        done += 1
            assert job.wait() == 0, "".join(said[-20:])
        finally:
            job.kill()
            job.wait()
        return done, json.loads(report.read_text())


def accuracy(build, recipe, seeds, kills):
    with Figures(f"elastic accuracy {recipe}") as figures:
        differences = []
        for seed in range(1, seeds + 1):
            random.seed(seed)
            _, plain = trained(build, recipe, seed, 0)
            done, disturbed = trained(build, recipe, seed, kills)
            difference = 100 * (disturbed["test_accuracy"] - plain["test_accuracy"])
            differences.append(difference)
            figures.print(
                f"{recipe}, seed {seed}: {100 * plain['test_accuracy']:.2f} % undisturbed, {100 * disturbed['test_accuracy']:.2f} % with "
                f"{done} ranks killed and replaced ({len(disturbed['world_changes'])} changes seen by the last rank 0): {difference:+.2f} points"
            )
        figures["largest difference, points"] = max(map(abs, differences))


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--state", type=int, default=0, help="megabytes that a rank that comes is given beside the network")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accuracy", metavar="RECIPE", help="compare what is trained with and without kills, and measure nothing else")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    random.seed(options.seed)
    if options.accuracy:
        return accuracy(options.build, options.accuracy, options.seeds, min(options.kills, 10))
    with Figures(f"elastic with {options.state} MB" if options.state else "elastic") as figures:
        pauses = []
        for name, what, times in (("kill -9", signal.SIGKILL, options.kills), ("SIGTERM", signal.SIGTERM, max(1, options.kills // 5))):
            waits = []
            while len(waits) < times:
                more, joined = disturb(options.build, options, what, min(10, times - len(waits)))
                waits += more
                pauses += joined
            figures.print(
                f"{name}, {options.ranks} ranks, {options.state} MB more: {len(waits)} times, to the next step median "
                f"{percentile(waits, 0.5):.3f} s, 95th percentile {percentile(waits, 0.95):.3f} s, most {max(waits):.3f} s"
            )
            figures[f"{name}, 95th percentile"] = percentile(waits, 0.95)
        figures.print(
            f"a rank comes: the others stand still for {percentile(pauses, 0.5):.3f} s in the median, "
            f"{percentile(pauses, 0.95):.3f} s at the 95th percentile, {max(pauses):.3f} s at most ({len(pauses)} waits)"
        )
        figures["a rank comes, 95th percentile"] = percentile(pauses, 0.95)
        if options.state:
            return
        steps, ratio = cost(options.build)
        figures.print(
            f"a step, 2 ranks: {1e6 * steps['elastic']:.1f} us elastic, {1e6 * steps['fixed']:.1f} us fixed, median ratio {ratio:.3f}"
        )
        figures["a step, ratio to a fixed job"] = ratio


if __name__ == "__main__":
    main()
