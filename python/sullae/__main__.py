"""The ``sullae`` program that came with this package: ``sullae run -np 4 python train.py``."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sullae")
    os.execv(program, ["sullae", *sys.argv[1:]])


if __name__ == "__main__":
    main()
