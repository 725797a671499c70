#!/usr/bin/env python3
"""Prints the sources that clang-tidy can read: those that a build compiles and that include nothing of libtorch's, also by other files.

    scripts/tidy_sources.py build/lint/compile_commands.json
"""

import functools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBTORCH = re.compile(r"<(torch|ATen|c10|caffe2)/")


@functools.cache
def has_libtorch(file):
    includes = re.findall(r'^#include ([<"][^>"]+)', file.read_text(), re.MULTILINE)
    if any(LIBTORCH.match(name) for name in includes):
        return True
    for name in includes:
        for folder in (ROOT / "src", ROOT / "include"):
            if (folder / name[1:]).is_file() and has_libtorch(folder / name[1:]):
                return True
    return False


def main():
    compiled = {pathlib.Path(entry["file"]).resolve() for entry in json.load(open(sys.argv[1]))}
    files = subprocess.run(["git", "ls-files", "src/*.cc"], check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
    for name in files:
        # Left out: the kernels (one source compiled for several instruction sets), and their choice, whose
        # __builtin_cpu_supports("f16c") clang 14 does not know.
        if (ROOT / name) in compiled and "reduce/kernel" not in name and not has_libtorch(ROOT / name):
            print(name)


if __name__ == "__main__":
    main()
