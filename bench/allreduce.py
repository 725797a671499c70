#!/usr/bin/env python3
"""Allreduce of float32 sums: Sullae and its peers in turn, in one run.

Each round runs every program once over all sizes; a cell is the median of the rounds. The last columns are the best peer's time
divided by ours: above 1 we are ahead.

    bench/allreduce.py --ranks 2 4 --rounds 5
    bench/allreduce.py --hosts [--rate 1gbit]     two hosts: network namespaces joined by a veth pair (needs root)
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from figures import BUILD, ROOT, Figures, output_of

BIN = BUILD / "bin"
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def run(command, env=None, timeout=600, key=int):
    """The lines "key number" that `command` prints, by key."""
    times = {}
    for line in output_of(command, env, timeout).splitlines():
        words = line.split()
        if words and words[0].startswith("["):
            words = words[1:]
        if len(words) == 2 and (key is str or words[0].isdigit()):
            times[key(words[0])] = float(words[1])
    return times


class OneHost:
    """All ranks here, as each peer's users would start them."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.name = f"{ranks} ranks on one host"

    def sullae(self, *program, env=None, key=int):
        return run([f"{BIN}/sullae", "run", "-np", str(self.ranks), *program], env, key=key)

    def mpi(self, program, key=int):
        # Open MPI binds and yields by itself where ranks have processors; --oversubscribe makes it yield where they have not.
        return run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(self.ranks), *program], key=key)


class TwoHosts:
    """Two network namespaces, one rank each."""

    A, B = "10.77.0.1", "10.77.0.2"

    def __init__(self, rate):
        self.name = f"two hosts, {rate or 'as fast as a veth pair goes'}"
        self.rate = rate

    def __enter__(self):
        self.__exit__()
        steps = ["ip netns add sullae-a", "ip netns add sullae-b",
                 "ip link add sullae-va netns sullae-a type veth peer name sullae-vb netns sullae-b"]
        for host, address in (("a", self.A), ("b", self.B)):
            steps += [f"ip -n sullae-{host} addr add {address}/24 dev sullae-v{host}",
                      f"ip -n sullae-{host} link set sullae-v{host} up", f"ip -n sullae-{host} link set lo up"]
            if self.rate:
                steps.append(f"tc -n sullae-{host} qdisc add dev sullae-v{host} root tbf rate {self.rate} burst 256kb latency 50ms")
        for step in steps:
            subprocess.run(step.split(), check=True)
        for host in "ab":  # the kernel notices the carrier a moment later
            state = ["ip", "netns", "exec", f"sullae-{host}", "cat", f"/sys/class/net/sullae-v{host}/operstate"]
            while subprocess.run(state, capture_output=True, text=True, check=True).stdout.strip() != "up":
                time.sleep(0.05)
        self.rsh = tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False)
        self.rsh.write('#!/bin/sh\n# "host" is a namespace; options before it are ignored\n'
                       'while [ "$#" -gt 2 ] && [ "${1#-}" != "$1" ]; do shift; done\n'
                       'host=$1; shift\nexec ip netns exec "sullae-$host" sh -c "$*"\n')
        self.rsh.close()
        os.chmod(self.rsh.name, 0o755)
        return self

    def __exit__(self, *_):
        for host in "ab":
            subprocess.run(["ip", "netns", "del", f"sullae-{host}"], stderr=subprocess.DEVNULL, check=False)

    def sullae(self, *program, env=None):
        wrap = ["sh", "-c", f'export GLOO_HOST=10.77.0.$((SULLAE_RANK + 1)) GLOO_SOCKET_IFNAME=sullae-v$( [ $SULLAE_RANK = 0 ] && echo a || echo b); exec "$@"', "sh"]
        env = {"UCX_TLS": "tcp,self", **(env or {})}
        return run(["ip", "netns", "exec", "sullae-a", f"{BIN}/sullae", "run", "-H", "a:1,b:1", "--rsh", self.rsh.name,
                    "--store-host", self.A, *[f"--env={k}={v}" for k, v in env.items()], *wrap, *program], env)

    def mpi(self, program):
        return run(["ip", "netns", "exec", "sullae-a", "mpirun", "--allow-run-as-root", "-np", "2", "-H", f"{self.A}:1,{self.B}:1",
                    "--mca", "plm_rsh_agent", self.mpi_rsh(), "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                    "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24", *program])

    def mpi_rsh(self):
        path = self.rsh.name + ".mpi"
        with open(path, "w") as script:
            script.write('#!/bin/sh\ncase "$1" in *.2) h=b;; *) h=a;; esac\nshift\nexec ip netns exec "sullae-$h" sh -c "$*"\n')
        os.chmod(path, 0o755)
        return path


def measure(place, sizes, rounds, two_hosts):
    words = [str(size) for size in sizes]
    samples = {}

    def note(name, times):
        for size, time in times.items():
            samples.setdefault(name, {}).setdefault(size, []).append(time)

    for _ in range(rounds):
        store = tempfile.mkdtemp()
        note("sullae", place.sullae(f"{BIN}/bench_allreduce_sullae", *words))
        note("Open MPI", place.mpi([f"{BIN}/bench_allreduce_mpi", *words]))
        if not two_hosts:
            note("in bucket", place.sullae(f"{BIN}/bench_allreduce_sullae", "--in-bucket", *words))
        note("Gloo", place.sullae(f"{BIN}/bench_allreduce_gloo", *words, env={"GLOO_STORE": store}))
        note("c10d", place.sullae(PYTHON, f"{ROOT}/bench/allreduce/c10d.py", *words, env={"GLOO_STORE": store}))
        if not two_hosts:
            note("floor", run([f"{BIN}/bench_memory_floor", "2", *words]))
        shutil.rmtree(store)
    return {name: {size: statistics.median(times) for size, times in by_size.items()} for name, by_size in samples.items()}


def human(size):
    for unit in ("B", "KB", "MB"):
        if size < 1024 or unit == "MB":
            return f"{size} {unit}"
        size //= 1024


def show(place, medians, sizes, figures):
    names = [name for name in ("sullae", "in bucket", "Open MPI", "Gloo", "c10d", "floor") if name in medians]
    figures.print(f"{place.name}: microseconds an allreduce (median of rounds)")
    figures.print()
    header = "".join(f"{name:>12}" for name in names)
    bucket = "in bucket" in medians
    figures.print(f"{'':>8}{header}{'ahead':>10}{'in bucket':>11}" if bucket else f"{'':>8}{header}{'ahead':>10}{'GB/s':>11}")
    least = {}
    for size in sizes:
        cells = "".join(f"{medians[name][size]:12.1f}" for name in names)
        best = min(medians[name][size] for name in ("Open MPI", "Gloo", "c10d"))
        for ours in ("sullae", "in bucket")[:1 + bucket]:
            ratio = best / medians[ours][size]
            figures[f"{human(size)}, {ours} ahead"] = ratio
            least[ours] = min(ratio, least.get(ours, ratio))
        ahead = f"{best / medians['sullae'][size]:8.2f} x"
        last = f"{best / medians['in bucket'][size]:9.2f} x" if bucket else f"{size / medians['sullae'][size] / 1e3:11.3f}"
        figures.print(f"{human(size):>8}{cells}{ahead}{last}")
    for ours, ratio in least.items():
        figures[f"least, {ours} ahead"] = ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[4 ** i for i in range(1, 15)])
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--rate")
    args = parser.parse_args()
    if args.hosts:
        with TwoHosts(args.rate) as place, Figures("hosts" + (f" {args.rate}" if args.rate else "")) as figures:
            show(place, measure(place, args.sizes, args.rounds, True), args.sizes, figures)
        return
    for ranks in args.ranks:
        with Figures(f"allreduce {ranks}") as figures:
            place = OneHost(ranks)
            show(place, measure(place, args.sizes, args.rounds, False), args.sizes, figures)


if __name__ == "__main__":
    main()
