#!/usr/bin/env python3
"""How long a private cluster takes to start, a job to begin on nodes that do not run yet, and what users wait for.

    bench/cluster.py [--build build/release] [--jobs 1000]"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from figures import BUILD, Figures


class Cluster:
    def __init__(self, build, folder):
        self.program = str(build / "bin" / "sullae")
        self.folder = folder
        self.environment = {**os.environ, "SULLAE_CLUSTER": str(folder), "SLURM_CONF": str(folder / "slurm.conf"), "OMP_NUM_THREADS": "1"}

    def __call__(self, *words):
        ended = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, cwd=self.folder.parent)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def timed(self, *words):
        began = time.monotonic()
        self(*words)
        return time.monotonic() - began

    def show(self, job):
        return json.loads(self("jobs", "show", job, "--json"))

    def wait(self, what, limit=180):
        """Seconds until `what()`."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() - began < limit, self("jobs", "list")
            time.sleep(0.1)
        return time.monotonic() - began

    def running_nodes(self):
        return [name for name in ("n1", "n2", "n3") if (self.folder / "run" / f"{name}.pid").exists()]


def first_step(folder):
    return any(file.stat().st_size > 0 for file in folder.glob("samples-*"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--jobs", type=int, default=1000, help="of `sullae jobs list`")
    options = parser.parse_args()
    build = options.build.absolute()
    trainer = str(build / "bin" / "elastic_program")
    with tempfile.TemporaryDirectory(prefix="sullae-cluster-") as name, Figures("cluster") as figures:
        folder = pathlib.Path(name) / "c"
        cluster = Cluster(build, folder)
        up = cluster.timed("cluster", "up", "--nodes", "3", "--idle", "10")
        figures["up, s"] = up
        figures.print(f"cluster up: {up:.2f} s")
        try:
            # From nothing to three nodes.
            out = pathlib.Path(name) / "out"
            out.mkdir()
            began = time.monotonic()
            job = cluster("jobs", "submit", "--name", "cold", "--nodes", "3", "--cpus-per-rank", "2",
                          trainer, str(out), "100", "--pause", "20").strip()
            cluster.wait(lambda: first_step(out))
            cold = time.monotonic() - began
            figures["cold 0 to 3 nodes, s"] = cold
            figures.print(f"cold, 0 to 3 nodes: {cold:.1f} s from the submit to the first step")
            cluster.wait(lambda: cluster.show(job)["state"] == "completed")
            gone = cluster.wait(lambda: not cluster.running_nodes())
            figures["nodes gone, s"] = gone
            figures.print(f"idle nodes have stopped {gone:.1f} s after the job (--idle 10)")

            # Preempted, and whole again; nodes start first.
            out = pathlib.Path(name) / "low"
            out.mkdir()
            low = cluster("jobs", "submit", "--name", "low", "--min-nodes", "1", "--max-nodes", "3", "--cpus-per-rank", "2", "--priority", "low",
                          trainer, str(out), "9000", "--pause", "50").strip()
            cluster.wait(lambda: cluster.show(low)["nodes"] == 3)
            high = cluster("jobs", "submit", "--name", "high", "--nodes", "2", "--cpus-per-rank", "2", "--priority", "high", "sleep", "3").strip()
            preempted = cluster.wait(lambda: cluster.show(high)["state"] in ("running", "completed"))
            cluster.wait(lambda: cluster.show(high)["state"] == "completed")
            again = cluster.wait(lambda: cluster.show(low)["nodes"] == 3)
            figures["preemption, s"] = preempted
            figures["grown again, s"] = again
            figures.print(f"a high job has two nodes of a low elastic one {preempted:.1f} s after its submit, and {again:.1f} s after its end the other has them again")
            node = cluster.show(low)["hosts"][0]
            os.kill(int((folder / "run" / f"{node}.pid").read_text()), 9)
            given_up = cluster.wait(lambda: node not in cluster.show(low)["hosts"])
            whole = given_up + cluster.wait(lambda: cluster.show(low)["nodes"] == 3)
            log = folder / "jobs" / low / "attempts" / "1" / "log"
            changes = re.compile(r"generation \d+: .* after (\d+\.\d+) s")
            cluster.wait(lambda: len(changes.findall(log.read_text())) >= 4)  # smaller and larger, twice
            pauses = [float(pause) for pause in changes.findall(log.read_text())]
            figures["whole again, s"] = whole
            figures["longest pause, s"] = max(pauses)
            figures.print(f"kill -9 of a node's daemon: three nodes again after {whole:.1f} s, {given_up:.1f} of them until Slurm has given it up; in all {len(pauses)} changes, the others stood still for {max(pauses):.2f} s at most")
            cluster("jobs", "cancel", low)
            cluster.wait(lambda: cluster.show(low)["state"] == "cancelled")

            # What users wait for.
            submits = [cluster.timed("jobs", "submit", "--name", "s", "--deadline", "2099-01-01T00:00:00", "true") for _ in range(20)]
            submit = 1e3 * statistics.median(submits)
            figures["submit, ms"] = submit
            jobs = folder / "jobs"
            number = 1 + max(int(path.name.rsplit("-", 1)[1]) for path in jobs.iterdir() if not path.name.startswith("."))
            while len(list(jobs.iterdir())) < options.jobs + 1:
                shutil.copytree(jobs / job, jobs / f"many-{number}")
                number += 1
            lists = [cluster.timed("jobs", "list") for _ in range(11)]
            listed = 1e3 * statistics.median(lists)
            figures["list, ms"] = listed
            figures.print(f"submit: {submit:.0f} ms; list of {options.jobs:,} jobs: {listed:.0f} ms, one question to Slurm (medians)")
        finally:
            cluster("cluster", "down")


if __name__ == "__main__":
    main()
