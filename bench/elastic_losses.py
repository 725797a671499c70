#!/usr/bin/env python3
"""What an elastic job loses: nothing, whenever its ranks are killed or asked to go; and how soon it goes on without a host.

    bench/elastic_losses.py torture [--times 100] [--ranks 4] [--build build/release]
    bench/elastic_losses.py link [--times 5]                                                   needs root

A small network (tests/torch/elastic_program) trains. `torture`: so many ranks are lost, at any moment; measures nothing. `link`: one
of two hosts, network namespaces, loses its link without a word."""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time

from allreduce import TwoHosts
from elastic import check, lines_of, percentile, ranks_of
from figures import BUILD, Figures


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


def link(build, times):
    """Seconds from the moment the link of one of two hosts goes down to the end of the next step of the other."""
    with Figures("elastic link") as figures:
        waits = []
        for _ in range(times):
            with TwoHosts(None) as hosts, tempfile.TemporaryDirectory(prefix="sullae-elastic-") as name:
                folder = pathlib.Path(name)
                words = ["ip", "netns", "exec", "sullae-a", build / "bin/sullae", "run", "-H", "a:1,b:1", "--min-np", "1"]
                words += ["--store-host", hosts.A, "--rsh", hosts.rsh.name, build / "bin/elastic_program", name, "400", "--pause", "20"]
                job = subprocess.Popen(words, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "OMP_NUM_THREADS": "1", "UCX_TLS": "tcp,self"})
                while max((line[0] for line in lines_of(folder)), default=0) < 50:
                    time.sleep(0.05)
                began = time.monotonic_ns()
                subprocess.run(["ip", "-n", "sullae-b", "link", "set", "sullae-vb", "down"], check=True)
                _, said = job.communicate(timeout=120)
                assert job.returncode == 0, said
                waits.append((min(line[4] for line in lines_of(folder) if line[3] > 0) - began) / 1e9)
        figures.print(f"the link of one of two hosts goes down, {times} times: to the next step {percentile(waits, 0.5):.1f} s in the median, {max(waits):.1f} s at most")
        figures["most, s"] = max(waits)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("torture", "link"))
    parser.add_argument("--times", type=int)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    if options.what == "torture":
        torture(options.build, options.ranks, options.times or 100)
    else:
        link(options.build, options.times or 5)


if __name__ == "__main__":
    main()
