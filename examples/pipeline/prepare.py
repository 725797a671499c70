"""Makes a folder for nightly.toml out of NSMC (https://github.com/e9t/nsmc): reviews to begin with, and those of two nights.

    prepare.py --data ../shared/data/nsmc --work /tmp/nightly [--base 30000] [--night 4000]

DATA holds ratings_train.txt and ratings_test.txt, also compressed with gzip.
"""
import argparse
import csv
import gzip
import pathlib
import shutil

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=pathlib.Path, required=True)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--base", type=int, default=30000, help="reviews that the first model learns")
parser.add_argument("--night", type=int, default=4000, help="reviews that come each night")
arguments = parser.parse_args()


def read(name):
    file = next(arguments.data.glob(f"ratings_{name}.txt*"))
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row["document"].strip()]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "text", "label"])
        table.writerows([row["id"], row["document"], row["label"]] for row in rows)


work, base, night = arguments.work, arguments.base, arguments.night
train, test = read("train"), read("test")
write(work / "base" / "train.csv", train[:base])
write(work / "base" / "test.csv", test[:base // 3])
for number, date in enumerate(["2026-11-24", "2026-11-25"]):
    rows = train[base + night * number:base + night * (number + 1)]
    for part in range(2):
        write(work / "new" / date / f"part-{part}.csv", rows[part::2])
write(work / "all.csv", test)
for name in ("reports", "work"):
    (work / name).mkdir(exist_ok=True)
for name in ("nightly.toml", "publish.py"):
    shutil.copy(pathlib.Path(__file__).parent / name, work)
print(f"{work / 'nightly.toml'} is ready")
