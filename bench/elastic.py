#!/usr/bin/env python3
"""How long training stands still when a rank is killed, leaves or comes, and what an elastic job costs when nothing happens.

    bench/elastic.py [--kills 50] [--state MEGABYTES] [--ranks 4] [--build build/release]
    bench/elastic.py --torture SIGNALS [--ranks 4]
    bench/elastic.py --link [--kills 10]
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
import threading
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


def newest_members(folder):
    """{worker: pid} of those that have done a step in the newest world, and so have the state."""
    last = {}
    for file in folder.glob("samples-*"):
        words = (file.read_text().splitlines() or [""])[-1].split()
        if len(words) == 5:
            last[int(file.name.split("-")[1])] = int(words[3])
    newest = max(last.values(), default=-1)
    return {worker: pid for worker, pid in ranks_of(folder).items() if last.get(worker) == newest}


def descriptors(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def files_in(*folders):
    return {str(file) for folder in folders for file in pathlib.Path(folder).rglob("*") if not file.is_dir()}


def torture(build, ranks, wanted):
    """So many ranks are killed or asked to go at any moment, one or two at once, the first one too. The job must end well, and leave
    nothing: no process, no file, and in the launcher no descriptor."""
    with Figures("elastic torture") as figures, tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
        folder, own, shared = pathlib.Path(name) / "job", pathlib.Path(name) / "tmp", files_in("/dev/shm")
        folder.mkdir()
        own.mkdir(mode=0o700)
        stop = folder / "samples-1000000"  # nobody takes the last step before it is there
        words = [str(build / "bin" / "sullae"), "run", "-np", str(ranks), "--min-np", "1", "--cooldown", "0.05:0.05"]
        words += [str(build / "bin" / "elastic_program"), str(folder), str(200 * wanted), "--pause", "1", "--wait", f"{200 * wanted - 1}:1000000"]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(own), "XDG_RUNTIME_DIR": str(own)}
        job = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=variables)
        said = []
        reader = threading.Thread(target=lambda: said.extend(job.stderr))
        reader.start()
        signals = first = open_at_first = 0
        most = 1
        while signals < wanted:
            assert job.poll() is None, "".join(said)
            time.sleep(random.uniform(0.05, 0.8))
            members = newest_members(folder)
            if len(members) < 3:
                continue  # one has to be left
            if len(members) == ranks:
                most = max(most, descriptors(job.pid))
                open_at_first = open_at_first or descriptors(job.pid)
            for worker in random.sample(sorted(members), random.choice([1, 1, 2])):
                first += worker == min(members)  # the oldest is the first rank
                with contextlib.suppress(ProcessLookupError):
                    os.kill(members[worker], random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                    signals += 1
        stop.touch()
        assert job.wait(600) == 0, "".join(said)
        reader.join()
        stop.unlink()
        check(folder, 200 * wanted)
        assert most <= open_at_first + 2 * ranks, f"the launcher's descriptors grew from {open_at_first} to {most}"
        left = ranks_of(folder), files_in("/dev/shm") - shared, files_in(own)
        assert not any(left), f"what is left: {left}"
        changes = sum(" after " in line for line in said)
        figures.print(
            f"{signals} ranks killed or asked to go, {first} of them the first rank, {changes} changes: each step done once, no process "
            f"and no file left; descriptors of the launcher: {open_at_first} at first, {most} at most"
        )
        figures["ranks lost"] = signals


def in_host(host, *words):
    return ["ip", "netns", "exec", host, *map(str, words)]


@contextlib.contextmanager
def two_hosts():
    """Network namespaces with a link; needs root."""
    names = ("sullae-ea", "sullae-eb")
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        link = ["link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v1", "netns", names[1]]
        subprocess.run(["ip", *link], check=True)
        for i, name in enumerate(names):
            for words in (["addr", "add", f"10.79.0.{i + 1}/24", "dev", f"v{i}"], ["link", "set", "lo", "up"], ["link", "set", f"v{i}", "up"]):
                subprocess.run(["ip", "-n", name, *words], check=True)
        time.sleep(1)  # until the kernel has noticed that the link is up
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def link(build, times):
    """Seconds from the moment the link of one of two hosts goes down to the end of the next step of the other."""
    with Figures("elastic link") as figures:
        waits = []
        for _ in range(times):
            with two_hosts() as (here, there), tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
                folder = pathlib.Path(name)
                shell = folder / "rsh"
                shell.write_text('#!/bin/sh\nhost=$1; shift; name=sullae-ea; [ "$host" = 10.79.0.2 ] && name=sullae-eb\n'
                                 'exec ip netns exec $name sh -c "$*"\n')
                shell.chmod(0o700)
                words = [build / "bin/sullae", "run", "-H", "10.79.0.1:1,10.79.0.2:1", "--min-np", "1", "--store-host", "10.79.0.1"]
                words += ["--rsh", shell, build / "bin/elastic_program", name, "400", "--pause", "20"]
                job = subprocess.Popen(in_host(here, *words), stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "OMP_NUM_THREADS": "1", "UCX_TLS": "tcp,self"})
                while max((line[0] for line in lines_of(folder)), default=0) < 50:
                    time.sleep(0.05)
                began = time.monotonic_ns()
                subprocess.run(["ip", "-n", there, "link", "set", "v1", "down"], check=True)
                _, said = job.communicate(timeout=120)
                assert job.returncode == 0, said
                waits.append((min(line[4] for line in lines_of(folder) if line[3] > 0) - began) / 1e9)
        figures.print(f"the link of one of two hosts goes down, {times} times: to the next step {percentile(waits, 0.5):.1f} s in the median, {max(waits):.1f} s at most")
        figures["most, s"] = max(waits)


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
    parser.add_argument("--torture", type=int, metavar="SIGNALS", help="kill so many ranks at any moment, and measure nothing")
    parser.add_argument("--link", action="store_true", help="take a host's link down instead, --kills times; needs root")
    parser.add_argument("--accuracy", metavar="RECIPE", help="compare what is trained with and without kills, and measure nothing else")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    random.seed(options.seed)
    if options.accuracy:
        return accuracy(options.build, options.accuracy, options.seeds, min(options.kills, 10))
    if options.torture:
        return torture(options.build, options.ranks, options.torture)
    if options.link:
        return link(options.build, min(options.kills, 10))
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
