#!/usr/bin/env python3
"""`sullae serve` against Flask and LitServe around the same TorchScript model, in turn, with wrk as the client on the same
machine; and the HTTP layer alone against nginx that answers a constant.

    bench/serving.py REPOSITORY/nsmc/1/model.ckpt [--texts ratings_test.txt.gz] [--users 1,11,51,101,200,400]
    bench/serving.py … --earlier OTHER/build/release/bin/sullae     an earlier build instead of the peers

Flask runs as its own server with threads, and under gunicorn with a process and with a thread pool a processor. LitServe
batches by itself, and runs as its documentation advises (a worker and an HTTP server a processor) and as was found best here (one
worker, and an HTTP server a processor and one). It is not in Debian: without build/bench-serving the rest runs. The best of the
peers is what is compared. Medians of several rounds."""
import argparse
import gzip
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from figures import Figures

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint")
parser.add_argument("--texts", default="../shared/data/nsmc/ratings_test.txt.gz")
parser.add_argument("--users", default="1,11,51,101,200,400")
parser.add_argument("--earlier")
parser.add_argument("--seconds", type=int, default=8)
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()

here = pathlib.Path(__file__).resolve().parent
binaries = here.parent / "build" / "release" / "bin"
processors = os.cpu_count()
python = "/usr/bin/python3"
litserve_python = here.parent / "build" / "bench-serving" / "bin" / "python"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server for as long as a with statement."""

    def __init__(self, command, url, environment=None):
        self.command, self.url, self.environment = command, url, {**os.environ, **(environment or {})}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url, timeout=1)
                return self
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{self.command[0]} did not start")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        try:  # LitServe leaves its workers behind, which would keep the port and load the machine while others are measured
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def litserve_missing():
    """Why LitServe cannot run, or nothing."""
    if not litserve_python.exists():
        return "there is no build/bench-serving"
    found = subprocess.run([litserve_python, "-c", "import litserve, torch"], capture_output=True, text=True, check=False)
    return (found.stderr.strip().splitlines() or ["its Python fails"])[-1] if found.returncode else ""


def load(url, users, texts, script="post.lua"):
    """Requests/s, failures, and the median and 99th percentile of seconds; nothing but zeros of a server that refuses connections."""
    words = ["wrk", "-t1", f"-c{users}", f"-d{options.seconds}s", "--timeout", "10s", "-s", here / "serving" / script, url]
    for _ in range(3):  # a server that has just been under load may refuse connections for a while
        result = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "TEXTS": str(texts)})
        if result.returncode == 0:
            break
        time.sleep(3)
    else:
        print(f"{' '.join(map(str, words))}\n{result.stdout}{result.stderr}", file=sys.stderr)
        return 0.0, 0, 0.0, 0.0
    requests, failed, seconds, half, most = result.stdout.split("RESULT ")[1].split()
    return float(requests) / float(seconds), int(failed), float(half), float(most)


with tempfile.TemporaryDirectory() as folder, Figures("serving" + (" earlier" if options.earlier else "")) as figures:
    folder = pathlib.Path(folder)
    (folder / "models" / "nsmc" / "1").mkdir(parents=True)
    os.link(options.checkpoint, folder / "models" / "nsmc" / "1" / "model.ckpt") if os.stat(
        options.checkpoint).st_dev == os.stat(folder).st_dev else shutil.copy(
            options.checkpoint, folder / "models" / "nsmc" / "1" / "model.ckpt")
    if not options.earlier:
        subprocess.run([binaries / "to_torchscript", options.checkpoint, folder], check=True)
    texts = folder / "texts"
    with gzip.open(options.texts, "rt") as file:
        rows = [line.rstrip("\n").split("\t")[1] for line in list(file)[1:3001]]
    texts.write_text("\n".join(row.replace("\\", " ").replace('"', " ") for row in rows if row.strip()))

    port = free_port()
    flask = {"MODEL_DIR": str(folder), "PYTHONPATH": str(here / "serving"), "PORT": str(port)}
    gunicorn = [python, "-m", "gunicorn", "-b", f"127.0.0.1:{port}", "--backlog", "2048", "flask_app:app"]
    sullae_port = free_port()

    def serving(program):
        return (Server([program, "serve", folder / "models", "--http-port", str(sullae_port), "--grpc-port", "0"],
                       f"http://127.0.0.1:{sullae_port}/v2/health/ready"),
                f"http://127.0.0.1:{sullae_port}/v1/models/nsmc:predict")

    servers = {"sullae": serving(binaries / "sullae")}
    servers |= {"earlier": serving(options.earlier)} if options.earlier else {
        "flask": (Server([python, here / "serving" / "flask_app.py"], f"http://127.0.0.1:{port}/",
                         {**flask, "TORCH_THREADS": str(processors)}), f"http://127.0.0.1:{port}/predict"),
        "gunicorn": (Server([*gunicorn, "-w", str(processors)], f"http://127.0.0.1:{port}/", flask),
                     f"http://127.0.0.1:{port}/predict"),
        "gunicorn threads": (Server([*gunicorn, "-w", str(processors), "--threads", "8"], f"http://127.0.0.1:{port}/", flask),
                             f"http://127.0.0.1:{port}/predict"),
    }
    missing = "" if options.earlier else litserve_missing()
    if missing:
        figures.print(f"SKIPPED: litserve ({missing}: `python3 -m venv build/bench-serving && "
                      "build/bench-serving/bin/pip install torch==2.13.0 litserve numpy`)")
    elif not options.earlier:
        def litserve(workers, api_servers, batch_seconds):
            return (Server([litserve_python, here / "serving" / "litserve_app.py"], f"http://127.0.0.1:{port}/health",
                           {"MODEL_DIR": str(folder), "PORT": str(port), "WORKERS": str(workers), "API_SERVERS": str(api_servers),
                            "BATCH_SECONDS": str(batch_seconds)}), f"http://127.0.0.1:{port}/predict")

        # On two processors a second worker takes more than it gives (docs/performance.md, LitServe).
        servers |= {"litserve": litserve(processors, processors, 0.01), "litserve tuned": litserve(1, processors + 1, 0)}

    results = {}
    for _ in range(options.rounds):
        for name, (server, url) in servers.items():
            with server:
                for users in map(int, options.users.split(",")):
                    results.setdefault((users, name), []).append(load(url, users, texts))
    figures.print(f"{'users':>5} {'':<17} {'requests/s':>10} {'failed':>7} {'median ms':>10} {'99 % ms':>9}   median of {options.rounds}")
    best = {}
    for users in map(int, options.users.split(",")):
        for name in servers:
            rate, failed, half, most = map(list, zip(*results[users, name]))
            figures.print(f"{users:>5} {name:<17} {statistics.median(rate):>10.0f} {sum(failed):>7} "
                  f"{1e3 * statistics.median(half):>10.1f} {1e3 * statistics.median(most):>9.1f}")
            best[name] = max(best.get(name, 0), statistics.median(rate))
        medians = {name: statistics.median([r[0] for r in results[users, name]]) for name in servers}
        peers = {"": [rate for name, rate in medians.items() if name != "sullae"]}
        if not options.earlier:
            peers[" to Flask"] = [medians[name] for name in ("flask", "gunicorn", "gunicorn threads")]
            peers[" to LitServe"] = [rate for name, rate in medians.items() if name.startswith("litserve")]
        ours = [statistics.median(column) for column in zip(*results[users, "sullae"])]
        figures[f"{users} users, requests per second"] = ours[0]
        figures[f"{users} users, 99 % ms"] = 1e3 * ours[3]
        for of, found in peers.items():
            if found:
                figures[f"{users} users, ratio{of}"] = ours[0] / max(found)
                figures.print(f"{'':>5} {'ratio' + of:<17} {ours[0] / max(found):>9.1f}x")
    peer = max(rate for name, rate in best.items() if name != "sullae")
    figures.print(f"best throughput: sullae {best['sullae']:.0f}, the peer {peer:.0f} requests/s: {best['sullae'] / peer:.1f}x")

    if not options.earlier:
        configuration = folder / "nginx.conf"
        configuration.write_text(f"""worker_processes {processors}; daemon off; pid {folder}/pid; error_log /dev/null;
    events {{ worker_connections 2048; }}
    http {{ access_log off; keepalive_requests 100000000;
      server {{ listen 127.0.0.1:{port} reuseport; location / {{ default_type application/json; return 200 '{{"live":true}}'; }} }} }}""")
        nginx = Server(["nginx", "-c", configuration, "-p", folder], f"http://127.0.0.1:{port}/")
        rates = {"sullae": [], "nginx": []}
        for _ in range(options.rounds):
            with servers["sullae"][0]:
                rates["sullae"].append(load(f"http://127.0.0.1:{sullae_port}/v2/health/live", 100, texts, "get.lua")[0])
            with nginx:
                rates["nginx"].append(load(f"http://127.0.0.1:{port}/", 100, texts, "get.lua")[0])
        a, b = (statistics.median(rates[name]) for name in ("sullae", "nginx"))
        figures["HTTP alone, ratio"] = a / b
        figures.print(f"HTTP alone, 100 connections: sullae {a:.0f}, nginx {b:.0f} requests/s: {a / b:.2f}x")
