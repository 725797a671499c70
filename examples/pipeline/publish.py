"""Publishes a night's candidate as the model's next version, where it makes no more mistakes than the one that is served.

    publish.py --night work/2026-11-24 --model models/reviews [--tolerance 0.2]

What was decided, and why, is in NIGHT/published.json. A version appears by one rename: whoever serves the repository takes it over, and a
publication that was cut short is none.
"""
import argparse
import json
import pathlib
import shutil

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--night", type=pathlib.Path, required=True)
parser.add_argument("--model", type=pathlib.Path, required=True)
parser.add_argument("--tolerance", type=float, default=0.2, help="percentage points that may be lost")
arguments = parser.parse_args()


def versions(model):
    return sorted(int(entry.name) for entry in model.iterdir() if entry.name.isdigit())


def accuracy(which):
    return 100 * json.loads((arguments.night / which / "_report.json").read_text())["accuracy"]


old, new = accuracy("old"), accuracy("new")
decision = {"accuracy_before": old, "accuracy_after": new, "version": None}
if new >= old - arguments.tolerance:
    candidate = arguments.night / "candidates" / arguments.model.name
    version = versions(arguments.model)[-1] + 1
    making = arguments.model / ".making"
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(candidate / str(versions(candidate)[-1]), making)
    making.rename(arguments.model / str(version))
    decision["version"] = version
print(json.dumps(decision))
file = arguments.night / "published.json"
temporary = file.with_suffix(".tmp")
temporary.write_text(json.dumps(decision) + "\n")
temporary.rename(file)
