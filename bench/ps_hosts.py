#!/usr/bin/env python3
"""One worker and its parameter servers on hosts of their own, each with a link of its own: what a second server is worth, and what
it is worth to send gradients while backward still runs. Needs root.

    bench/ps_hosts.py [--rounds 3] [--rate 1gbit] [--data ../shared/data/mnist] [--build build/release]

Hosts are network namespaces with a token bucket (tc tbf) at both ends of the link. 64 MB, of which one tensor is 90 %, go to the
servers and come back (bench_ps); a perceptron of 5 MB trains on MNIST (`sullae train`, with and without --no-overlap)."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from figures import BUILD, Figures, run_json

PREFIX = "sullae-ps"


def sh(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


@contextlib.contextmanager
def hosts(count, rate):
    """The addresses of hosts that this one reaches, by a link each."""
    names = [f"{PREFIX}{i}" for i in range(count)]
    try:
        for i, name in enumerate(names):
            here, there = f"sps{i}a", f"sps{i}b"
            sh("ip", "netns", "add", name)
            sh("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            sh("ip", "addr", "add", f"10.77.{i}.1/24", "dev", here)
            sh("ip", "-n", name, "addr", "add", f"10.77.{i}.2/24", "dev", there)
            for where, device in (([], here), (["-n", name], there)):
                sh("tc", *where, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
                sh("ip", *where, "link", "set", device, "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
        yield [f"10.77.{i}.2" for i in range(count)]
    finally:
        for i, name in enumerate(names):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["ip", "link", "del", f"sps{i}a"], stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def servers(build, addresses):
    running = []
    try:
        for i, address in enumerate(addresses):
            words = ["ip", "netns", "exec", f"{PREFIX}{i}", str(build / "bin/sullae"), "ps", "--workers", "1", "--listen", f"tcp://{address}:7000"]
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            running[-1].stdout.readline()
        yield ",".join(f"tcp://{address}:7000" for address in addresses)
    finally:
        for server in running:
            server.terminate()
            server.wait()


def step(build, addresses):
    with servers(build, addresses) as listed:
        os.environ["SULLAE_PS_SERVERS"] = listed
        return run_json(build / "bin/bench_ps", "ours", 64, 1, len(addresses), 10)["seconds"]


def train(build, data, addresses, *flags):
    """Samples a second."""
    with servers(build, addresses) as listed, tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        words = [build / "bin/sullae", "train", "mlp", "--data", data, "--hidden-size", 1024, "--batch-size", 512, "--max-steps", 40]
        sh(*words, "--report", report, *flags, stdout=subprocess.DEVNULL,
           env=os.environ | {"SULLAE_PS_SERVERS": listed, "OMP_NUM_THREADS": "1"})
        return json.loads(report.read_text())["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--data", default="../shared/data/mnist")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    with Figures("ps_hosts") as figures, hosts(2, options.rate) as addresses:
        rounds = [[step(options.build, addresses[:count]) for count in (1, 2)] for _ in range(options.rounds)]
        ratio = statistics.median(one / two for one, two in rounds)
        figures["two servers, ahead of one"] = ratio
        figures.print(f"64 MB, a link of {options.rate} to each server")
        for i, count in enumerate((1, 2)):
            figures.print(f"  {count} server{'s' if count > 1 else ' '}: {1e3 * statistics.median(one[i] for one in rounds):.0f} ms a step")
        figures.print(f"  two are {ratio:.2f} times as fast as one")
        rates = [[train(options.build, options.data, addresses[:1], *flags) for flags in ([], ["--no-overlap"])] for _ in range(options.rounds)]
        during, after = (statistics.median(one[i] for one in rates) for i in (0, 1))
        ratio = statistics.median(a / b for a, b in rates)
        figures["gradients sent during backward, ahead of after it"] = ratio
        figures.print(f"MNIST, a perceptron of 5 MB, one server: {during:.0f} samples/s, {after:.0f} with --no-overlap ({ratio:.2f} x)")


if __name__ == "__main__":
    main()
