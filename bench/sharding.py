#!/usr/bin/env python3
"""A sharded optimizer beside a replicated one: seconds a step, in turn, and memory of a larger model.

    bench/sharding.py [--rounds 5] [--build build/release] [--python build/python/bin/python]

Linear layers with Adam in float32 (bench_sharding). Memory is what all ranks together used at most beyond what they had before there was
a model, by rank and parameter: 16 bytes replicated, 8 + 8/P with the optimizer's state in parts, 4 + 12/P with the gradients,
too, 16/P with the parameters. A checkpoint is saved and loaded again, with the most that ranks have in memory for that beyond what they had. Beside it DDP and FSDP over gloo, where `make python` has made build/python, with its newer libtorch."""

import argparse
import pathlib
import statistics
import tempfile

from figures import BUILD, Figures, run_json, torchrun

HERE = pathlib.Path(__file__).parent
WAYS = ["replicated", "optimizer", "gradients", "parameters"]
# Over gloo, beside the one of ours that does the same.
PEERS = {"ddp": "replicated", "fsdp": "parameters"}


def run(build, ranks, *words):
    return run_json(build / "bin/sullae", "run", "--no-tag", "-np", ranks, build / "bin/bench_sharding", *words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path("build/python/bin/python"))
    options = parser.parse_args()
    step = (24, 512, 64, 60)
    with Figures("sharding") as figures:
        seconds = {}
        checkpoints = {}
        for _ in range(options.rounds):
            for way in WAYS:
                seconds.setdefault(way, []).append(run(options.build, 2, way, *step)["seconds"])
            for way in PEERS if options.python.exists() else ():
                seconds.setdefault(way, []).append(torchrun(options.python, 2, HERE / "sharding/pytorch.py", way, *step)["seconds"])
        figures.print(f"{'':<12}{'ms a step, 2 ranks':>20}{'replicated / it':>18}{'bytes a parameter, 4 ranks':>28}{'formula':>9}")
        for way, formula in zip(WAYS, (16, 10, 7, 4)):
            ratio = statistics.median(one / other for one, other in zip(seconds["replicated"], seconds[way]))
            with tempfile.TemporaryDirectory() as folder:
                taken = run(options.build, 4, way, 25, 2000, 4, 3, 0, pathlib.Path(folder) / "checkpoint")
            memory = taken["bytes_a_parameter"]
            for what in ("save", "load"):
                checkpoints[way, what] = (taken[what + "_seconds"], taken[what + "_bytes_a_parameter"])
                figures[f"{way}, {what}, bytes a parameter"] = taken[what + "_bytes_a_parameter"]
                figures[f"{way}, {what}, seconds"] = taken[what + "_seconds"]
            figures[f"{way}, speed"] = ratio
            figures[f"{way}, bytes a parameter"] = memory
            figures.print(f"{way:<12}{1e3 * statistics.median(seconds[way]):>20.2f}{ratio:>18.2f}{memory:>28.1f}{formula:>9}")
        figures.print("A checkpoint of 1.2 GB, 4 ranks: seconds, and bytes a parameter beyond what training takes")
        for way in WAYS:
            figures.print(f"{way:<12}" + "".join(f"   {what} {checkpoints[way, what][0]:>5.1f} s {checkpoints[way, what][1]:>5.2f}" for what in ("save", "load")))
        for way, ours in PEERS.items():
            if way not in seconds:
                continue
            ratio = statistics.median(one / other for one, other in zip(seconds[way], seconds[ours]))
            figures[f"{ours}, ahead of {way}"] = ratio
            figures.print(f"{'PyTorch ' + way.upper():<12}{1e3 * statistics.median(seconds[way]):>20.2f}   {ratio:.1f} times as long as {ours}")


if __name__ == "__main__":
    main()
