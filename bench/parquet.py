#!/usr/bin/env python3
"""Reading Parquet: as samples, by `open_dataset`, against Arrow's own C++ readers: StreamReader, a row after the other, and whole
columns, of which nothing is made.

    bench/parquet.py [--data ../shared/data/nsmc/ratings_train.txt.gz] [--rounds 5] [--build build/release]

One thread. Texts: 2.4 million reviews with their labels; pictures: 40,000 of 8 KB. Medians of rounds, in turn."""

import argparse
import pathlib
import statistics
import subprocess
import tempfile

from figures import BUILD, Figures, run_json

WAYS = {"texts": ("samples", "rows", "columns"), "pictures": ("samples", "columns")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/nsmc/ratings_train.txt.gz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD)
    options = parser.parse_args()
    program = options.build / "bin/pipeline_parquet"
    with tempfile.TemporaryDirectory() as folder, Figures("parquet") as figures:
        figures.print(f"{'':<10}{'samples':>12}{'rows':>12}{'columns':>12}   1000 samples/s; ours of Arrow's")
        for kind, ways in WAYS.items():
            file = pathlib.Path(folder) / f"{kind}.parquet"
            subprocess.run([program, "make", file, kind, options.data], check=True, stderr=subprocess.DEVNULL)
            rates = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way in ways:
                    rates[way].append(run_json(program, way, file)["samples_per_second"])
            line = f"{kind:<10}"
            for way in ("samples", "rows", "columns"):
                line += f"{statistics.median(rates[way]) / 1e3:>12.0f}" if way in rates else f"{'':>12}"
            of = ways[1]
            ratio = statistics.median(a / b for a, b in zip(rates["samples"], rates[of]))
            figures[f"{kind}, of {of}"] = ratio
            figures.print(f"{line}   {ratio:.2f} x {of}")


if __name__ == "__main__":
    main()
