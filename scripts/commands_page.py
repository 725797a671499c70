#!/usr/bin/env python3
"""docs/commands.md: what `--help` says of every command.

    scripts/commands_page.py [--check] PROGRAM

PROGRAM is a build's `sullae`, with all parts. With --check nothing is written, and the exit code says whether the page is right."""

import argparse
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/commands.md"
START = """# Commands

What `sullae COMMAND --help` prints, by `scripts/commands_page.py`. Of `sullae train`, a model's flags that [mnist](#sullae-train-mnist) has with the same
default are left out. Variables of the environment are in [tuning.md](tuning.md).
"""


def help_of(program, words):
    # What is in this folder is no default of anybody else's.
    output = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True, cwd="/").stdout
    return [line.rstrip() for line in output.strip().splitlines() if not line.startswith("  -h,--help ")]


def subcommands_in(lines):
    """Those behind a line "Subcommands:", which an empty line ends."""
    names = []
    inside = False
    for line in lines:
        if line == "Subcommands:":
            inside = True
        elif not line:
            inside = False
        elif inside and (found := re.match(r"  ([\w-]+) ", line)):
            names.append(found[1])
    return names


def options_in(group):
    """An option's lines are one."""
    options = []
    for line in group:
        if line.startswith("    "):
            options[-1] += "\n" + line
        else:
            options.append(line)
    return options


def groups_in(lines):
    return [options_in(group.splitlines()) for group in re.split(r"\n{2,}", "\n".join(lines))]


def without(lines, others):
    """The options that `others` has not, or not with this default."""
    known = {option for group in groups_in(others) for option in group if option.startswith(" ")}
    groups = [[option for option in group if option not in known] for group in groups_in(lines)]
    return "\n\n".join("\n".join(group) for group in groups if len(group) > 1 or not group[0].endswith(":")).splitlines()


def sections(program, words):
    lines = help_of(program, words)
    yield words, lines
    model = None
    for name in subcommands_in(lines):
        for below, text in sections(program, [*words, name]):
            if words == ["train"] and model is not None:
                text = without(text, model)
            elif words == ["train"]:
                model = text
            yield below, text


def page_of(program):
    page = START
    for words, lines in sections(program, []):
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
        page += f"\n## {' '.join(['sullae', *words])}\n\n```\n{text}\n```\n"
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and say whether the page is right")
    parser.add_argument("program")
    options = parser.parse_args()
    page = page_of(options.program)
    if not options.check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit(f"{PAGE}: is not what --help says: scripts/commands_page.py {options.program} makes it anew")


if __name__ == "__main__":
    main()
