#!/usr/bin/env python3
"""The dashboard over many runs, and TensorBoard over the same curves.

    bench/dashboard.py [--runs 2000] [--points 10000] [--tensorboard RUNS] [--build build/release]

Writes runs as --run-dir does, starts `sullae dashboard` over them, and measures what a browser waits for: the table of runs from the program's start on
and again, a chart of ten runs that nobody has looked at yet and again, a line that is written until it is answered; and the program's memory. With
--tensorboard so many of the runs are written as event files too, and TensorBoard (pip install tensorboard) is started over them.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from figures import ROOT, Figures

TAGS = ["train/loss", "train/learning_rate"]


def curve(seed, points):
    """A line each: what a run writes."""
    draw = random.Random(seed)
    begin = 1764150000 + seed
    return [(step, begin + step * 0.05, 2.3 / (1 + step / 500) + 0.05 * draw.random(), 0.1 * (1 - step / points)) for step in range(1, points + 1)]


def write_runs(folder, runs, points):
    kinds = []
    for kind in range(10):
        lines = [json.dumps({"step": step, "time": round(when, 3), TAGS[0]: loss, TAGS[1]: rate}) for step, when, loss, rate in curve(kind, points)]
        kinds.append("\n".join(lines) + "\n")
    for number in range(runs):
        run = folder / f"run-{number:04}"
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text(kinds[number % len(kinds)])
        record = {"sullae_run": 1, "name": run.name, "started": 1764150000 + number, "written": 1764151000 + number, "host": "node", "pid": 1, "ranks": 4, "job": "",
                  "settings": {f"setting-{i}": str(i * number % 7) for i in range(40)}, "step": points, "steps": points,
                  "latest": {TAGS[0]: 0.1 + number / runs, TAGS[1]: 0.0, "test/accuracy": 0.9 + number / runs / 10}}
        if number % 10:
            record["ended"] = {"how": "completed", "time": 1764151000 + number, "reason": ""}
        (run / "run.json").write_text(json.dumps(record))


def write_events(folder, runs, points):
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter
    for number in range(runs):
        run = folder / f"run-{number:04}"
        run.mkdir(parents=True)
        with open(run / "events.out.tfevents.1764150000.node.1", "wb") as file:
            writer = RecordWriter(file)
            for step, when, loss, rate in curve(number % 10, points):
                values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in zip(TAGS, (loss, rate))]
                writer.write(event_pb2.Event(wall_time=when, step=step, summary=summary_pb2.Summary(value=values)).SerializeToString())


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.read()


def seconds_of(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def resident(pid):
    """MB of a process and of those that it has started."""
    total = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        if int(lines["Pid"]) == pid or int(lines["PPid"]) == pid:
            total += int(lines.get("VmHWM", "0 kB").split()[0])
    return total / 1024


def charts(port, numbers, tag=TAGS[0]):
    runs = "&".join(f"run=run-{number:04}" for number in numbers)
    return ask(port, f"/api/curves?{runs}&tag={urllib.parse.quote(tag)}&points=800")


def measure(build, folder, runs):
    environment = dict(os.environ, SULLAE_CLUSTER="/nonexistent")
    begin = time.perf_counter()
    program = subprocess.Popen([build / "bin" / "sullae", "dashboard", folder, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        port = int(program.stdout.readline().rsplit(":", 1)[1].strip().strip("/"))
        ask(port, "/api/runs?limit=100")
        results = {"first page": time.perf_counter() - begin}
        results["page again"] = statistics.median(seconds_of(lambda: ask(port, "/api/runs?limit=100&sort=train/loss")) for _ in range(9))
        fresh, again = [], []
        for turn in range(9):
            numbers = random.Random(turn).sample(range(turn * runs // 9, (turn + 1) * runs // 9), 10)
            fresh.append(seconds_of(lambda: charts(port, numbers)))
            again.append(seconds_of(lambda: charts(port, numbers)))
        results["chart of 10"] = statistics.median(fresh)
        results["chart again"] = statistics.median(again)
        delays = []
        for turn in range(5):
            step = 10**9 + turn
            with open(folder / "run-0000" / "metrics.jsonl", "a") as file:
                file.write(json.dumps({"step": step, "time": time.time(), TAGS[0]: 0.5}) + "\n")
            begin = time.perf_counter()
            while json.loads(charts(port, [0]))["runs"][0]["curves"][0]["x"][-1] != step:
                time.sleep(0.01)
            delays.append(time.perf_counter() - begin)
        results["a new point"] = statistics.median(delays)
        results["memory"] = resident(program.pid)
    finally:
        program.terminate()
        program.wait()
    return results


def measure_tensorboard(folder, runs, points):
    begin = time.perf_counter()
    program = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", "6106"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def last_step(number):
        try:
            return json.loads(ask(6106, f"/data/plugin/scalars/scalars?run=run-{number:04}&tag={TAGS[0]}"))[-1][1]
        except (OSError, IndexError):
            return 0

    try:
        # It answers at once, with what it has read so far: the page is what it is when the last point of all runs is there.
        while any(last_step(number) < points for number in range(0, runs, max(1, runs // 20))):
            if time.perf_counter() - begin > 900:
                raise SystemExit(f"bench: TensorBoard has not read {runs} runs after 900 s")
            time.sleep(0.2)
        results = {"first page": time.perf_counter() - begin}
        results["page again"] = statistics.median(seconds_of(lambda: ask(6106, "/data/plugin/scalars/tags")) for _ in range(9))
        results["chart of 10"] = statistics.median(seconds_of(lambda: [last_step(number) for number in range(10)]) for _ in range(9))
        results["memory"] = resident(program.pid)
    finally:
        program.terminate()
        program.wait()
    return results


def show(figures, title, name, results):
    figures.print(title)
    for what, value in results.items():
        figures[f"{name}: {what}"] = value
        figures.print(f"  {what:<20}{value:9.0f} MB" if what == "memory" else f"  {what:<20}{value * 1e3:9.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--points", type=int, default=10000)
    parser.add_argument("--tensorboard", type=int, default=0, metavar="RUNS")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(ROOT) / "build" / "release")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, Figures("dashboard") as figures:
        root = pathlib.Path(scratch)
        for name, runs in {"all": arguments.runs, "some": arguments.tensorboard}.items():
            if not runs:
                continue
            write_runs(root / name, runs, arguments.points)
            show(figures, f"sullae dashboard, {runs} runs of {arguments.points} points", name, measure(arguments.build, root / name, runs))
        if arguments.tensorboard:
            write_events(root / "events", arguments.tensorboard, arguments.points)
            show(figures, f"TensorBoard, {arguments.tensorboard} runs of {arguments.points} points", "TensorBoard", measure_tensorboard(root / "events", arguments.tensorboard, arguments.points))
