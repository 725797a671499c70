#!/usr/bin/env python3
"""`sullae serve --online` under load while everything changes: new versions, versions that are refused, roll backs, and online
learning on samples that are sent meanwhile. No request may fail, and memory must come back to where it was.

    bench/serving_changes.py REPOSITORY/nsmc/1/model.ckpt [--samples ratings_train.txt.gz] [--users 400]
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint")
parser.add_argument("--samples", default="../shared/data/nsmc/ratings_train.txt.gz")
parser.add_argument("--users", type=int, default=400)
parser.add_argument("--switches", type=int, default=20)
parser.add_argument("--refused", type=int, default=5)
parser.add_argument("--rollbacks", type=int, default=3)
options = parser.parse_args()

here = pathlib.Path(__file__).resolve().parent
sullae = here.parent / "build" / "release" / "bin" / "sullae"
with gzip.open(options.samples, "rt") as file:
    rows = [line.rstrip("\n").split("\t") for line in list(file)[1:6001]]
rows = [row for row in rows if len(row) == 3 and row[1].strip()]


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


with tempfile.TemporaryDirectory(dir=pathlib.Path(options.checkpoint).parent.parent.parent.parent) as folder:
    folder = pathlib.Path(folder)
    model = folder / "models" / "nsmc"
    (model / "1").mkdir(parents=True)
    os.link(options.checkpoint, model / "1" / "model.ckpt")
    (model / "config.toml").write_text("[online]\nepochs = 3\nmin_examples = 100\ntolerance = 100\nkeep_versions = 2\n")
    texts = folder / "texts"
    texts.write_text("\n".join(row[1].replace("\\", " ").replace('"', " ") for row in rows[:3000]))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    address = f"http://127.0.0.1:{port}"

    def ask(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        return json.load(urllib.request.urlopen(urllib.request.Request(address + path, data, {"Content-Type": "application/json"}), timeout=120))

    def overview():
        return ask("/v1/models")["models"][0]

    def wait_for(what, condition, seconds=300):
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit:
                sys.exit(f"{what}: not within {seconds} s: {overview()}")
            time.sleep(0.05)

    log = open(folder / "log", "w")
    server = subprocess.Popen([sullae, "serve", folder / "models", "--http-port", str(port), "--grpc-port", "0", "--online",
                               "--repository-poll-secs", "0.2"], stdout=log, stderr=log)
    try:
        while True:
            try:
                ask("/v2/health/ready")
                break
            except OSError:
                time.sleep(0.1)

        def start_load(seconds):
            return subprocess.Popen(["wrk", "-t1", f"-c{options.users}", f"-d{seconds}s", "--timeout", "30s", "-s",
                                     here / "serving" / "post.lua", address + "/v1/models/nsmc:predict"],
                                    stdout=subprocess.PIPE, text=True, env={**os.environ, "TEXTS": str(texts)})

        def result_of(load):
            requests, failed, seconds, half, most = load.communicate()[0].split("RESULT ")[1].split()
            return int(requests), int(failed), float(seconds), float(half), float(most)

        def show(what, load):
            requests, failed, seconds, half, most = result_of(load)
            print(f"{what}: {requests} requests in {seconds:.0f} s ({requests / seconds:.0f}/s), {failed} failed, "
                  f"median {1e3 * half:.0f} ms, 99 % within {1e3 * most:.0f} ms", flush=True)
            return failed

        failures = show("at rest", start_load(10))
        time.sleep(3)
        before = resident(server.pid)
        load = start_load(3600)
        time.sleep(2)
        started = time.monotonic()
        switched = refused = rolled_back = sent = 0
        number = 1000

        def put(tear):
            global number
            number += 1
            making = model / f".making-{number}"
            making.mkdir()
            if tear:
                with open(options.checkpoint, "rb") as whole:
                    (making / "model.ckpt").write_bytes(whole.read(50_000_000))
            else:
                os.link(options.checkpoint, making / "model.ckpt")
            making.rename(model / str(number))
            return number

        for turn in range(max(options.switches, options.refused, options.rollbacks)):
            if turn < options.switches:
                version = put(tear=False)
                wait_for(f"version {version}", lambda: overview()["serving"] >= version)
                switched += 1
            if turn < options.refused:
                version = put(tear=True)
                wait_for(f"refusal of {version}", lambda: any(
                    v["version"] == version and v["state"] == "UNAVAILABLE" for v in overview()["versions"]))
                refused += 1
            if turn % 6 == 5 and rolled_back < options.rollbacks:
                serving = overview()["serving"]
                ask("/v1/models/nsmc:rollback", {})
                # Online learning may have published another version in the meantime, which then answers.
                assert any(v["version"] >= serving and v["state"] == "WITHDRAWN" for v in overview()["versions"]), overview()
                rolled_back += 1
            if turn % 5 == 0:
                part = rows[3000 + sent:3000 + sent + 100]
                ask("/v1/models/nsmc/examples", {"examples": [{"key": r[0], "text": r[1], "label": r[2]} for r in part]})
                sent += len(part)
        wait_for("online learning", lambda: ask("/v1/models/nsmc/online")["waiting"] == 0 and not any(
            r["state"] in ("training", "publishing") for r in ask("/v1/models/nsmc/online")["rounds"]), 900)
        rounds = ask("/v1/models/nsmc/online")["rounds"]
        newest = max(r["version"] for r in rounds)
        wait_for("the learnt version", lambda: overview()["serving"] >= newest)
        took = time.monotonic() - started
        # wrk reports when it is interrupted.
        load.send_signal(2)
        failures += show("while all changes", load)
        print(f"  {switched} switches, {refused} refused, {rolled_back} rolled back, {len(rounds)} rounds of online learning "
              f"({sum(r['state'] == 'published' for r in rounds)} published) with {sent} samples, in {took:.0f} s")
        time.sleep(5)
        failures += show("at rest again", start_load(10))
        time.sleep(5)
        after = resident(server.pid)
        print(f"memory of the server: {before:.0f} MB before, {after:.0f} MB after")
        if failures or after > 1.15 * before:
            sys.exit("FAILED")
    finally:
        server.terminate()
        server.wait()
        log.close()
        if os.environ.get("KEEP_LOG"):
            shutil.copy(folder / "log", os.environ["KEEP_LOG"])
