#!/usr/bin/env python3
"""The input pipeline against torchvision's DataLoader, in turn: decode, random resized crop to 224, flip,
normalise, with the same number of workers on the same JPEG files; and how fast TFRecords are read.

    bench/pipeline.py [--images ../shared/data/imagenet-sample/images.tar] [--workers 1,2] [--rounds 5]
"""
import argparse
import pathlib
import statistics
import subprocess
import tarfile
import tempfile

from figures import Figures

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--images", default="../shared/data/imagenet-sample/images.tar")
parser.add_argument("--workers", default="1,2")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()

here = pathlib.Path(__file__).resolve().parent
binaries = here.parent / "build" / "release" / "bin"


def number(command):
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


with tempfile.TemporaryDirectory() as folder, Figures("pipeline") as figures:
    images = pathlib.Path(folder) / "images"
    with tarfile.open(options.images) as tar:
        for member in tar.getmembers():  # torchvision wants a folder a class
            name = pathlib.Path(member.name).name
            (images / name.split("_")[0]).mkdir(parents=True, exist_ok=True)
            (images / name.split("_")[0] / name).write_bytes(tar.extractfile(member).read())
    figures.print(f"{'workers':>8} {'sullae':>12} {'torchvision':>12} {'ratio':>8}   images/s, median of {options.rounds}")
    for workers in options.workers.split(","):
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours += number([binaries / "pipeline_images", images, str(options.batch_size), workers, str(options.epochs)])
            theirs += number(["/usr/bin/python3", here / "pipeline" / "loader.py", images, str(options.batch_size), workers,
                              str(options.epochs)])
        a, b = statistics.median(ours), statistics.median(theirs)
        figures[f"{workers} workers, ratio"] = a / b
        figures.print(f"{workers:>8} {a:>12.0f} {b:>12.0f} {a / b:>7.1f}x")

    records = pathlib.Path(folder) / "records"
    subprocess.run([binaries / "sullae", "data", "convert", *[options.images] * 20, "--output", records, "--files", "1"],
                   check=True, capture_output=True)
    file = next(records.glob("*.tfrecord"))
    alone, reader = number([binaries / "pipeline_records", file])
    figures["records, share"] = 100 * reader / alone
    figures.print()
    figures.print(f"TFRecords of {file.stat().st_size / 1e6:.0f} MB in the disk cache: read(2) alone {alone / 1e9:.2f} GB/s, "
          f"read and checked {reader / 1e9:.2f} GB/s, {100 * reader / alone:.0f} %")
