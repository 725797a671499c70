"""What a benchmark says, for people and for pages: lines on the terminal and, where SULLAE_FIGURES names a file, the same lines and
figures by name in that JSON file, with the command, commit, day and processors that they are from. bench/pages.py holds the pages against it."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = pathlib.Path(ROOT, "build", "release")


def processors():
    with open("/proc/cpuinfo") as file:
        name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    return f"{len(os.sched_getaffinity(0))} of {name}"


def commit():
    words = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def share_blas_kernels():
    """On a processor that OpenBLAS does not know `sullae` tells it which kernels to use. A peer gets the same, so that it is not the
    kernels that are compared."""
    ask = [os.path.join(ROOT, "build", "release", "bin", "sullae"), "run", "-np", "1", "--no-tag", "sh", "-c", "echo $OPENBLAS_CORETYPE"]
    if os.path.exists(ask[0]):
        kernels = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        if kernels:
            os.environ["OPENBLAS_CORETYPE"] = kernels


share_blas_kernels()


def output_of(words, env=None, timeout=None):
    """What a program prints, which ends well, or the benchmark with all that it has said."""
    words = [str(word) for word in words]
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{result.stdout}{result.stderr}")
    return result.stdout


def train_report(*words, timeout=None):
    """The report of a `sullae train`, perhaps behind a `sullae run`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        output_of([*words, "--report", report.name], timeout=timeout)
        with open(report.name) as written:  # by a rename, so not the file that is open
            return json.load(written)


def run_json(*words):
    """What a program, with a thread for each of its processes, prints last: JSON."""
    return json.loads(output_of(words, env={"OMP_NUM_THREADS": "1"}).strip().splitlines()[-1])


def torchrun(python, ranks, *words):
    return run_json(python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *words)


class Figures:
    """The figures of one part, for as long as a with statement: written when it ends, and not where it throws."""

    def __init__(self, part):
        self.part, self.lines, self.values = part, [], {}

    def print(self, line=""):
        self.lines.append(line.rstrip())
        print(line, flush=True)

    def __setitem__(self, name, value):
        self.values[name] = float(f"{value:.5g}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        path = os.environ.get("SULLAE_FIGURES")
        if kind is not None or not path:
            return
        parts = {}
        if os.path.exists(path):
            with open(path) as file:
                parts = json.load(file)
        parts[self.part] = {
            "command": " ".join([os.path.relpath(os.path.abspath(sys.argv[0]), ROOT), *sys.argv[1:]]),
            "commit": commit(), "day": datetime.date.today().isoformat(), "processors": processors(),
            "figures": self.values, "output": self.lines}
        with open(path + ".new", "w") as file:
            json.dump(dict(sorted(parts.items())), file, indent=1, ensure_ascii=False)
            file.write("\n")
        os.replace(path + ".new", path)
