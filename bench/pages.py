#!/usr/bin/env python3
"""Holds the figures in pages against docs/figures.json, which bench/figures.sh writes.

    bench/pages.py            names every figure that differs, and exits with 1
    bench/pages.py --write    writes the pages anew

In a page a figure is followed by a comment with its part and name, and is right where it is the measured value rounded as the page
has it:

    1.14<!-- messages: 8 B, ahead --> times

A line `<!-- output: messages -->` stands before a code block that is what the benchmark printed. In the pages of --strict every number
before "times", "배" or "%" needs such a comment, outside of code blocks."""

import argparse
import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "README.ko.md", "docs/performance.md", "docs/elastic.md", "docs/cluster.md", "docs/parallel.md",
         "docs/parameter-servers.md", "docs/predicting.md", "docs/streams.md"]
STRICT = ["README.md", "README.ko.md"]
NUMBER = r"\d[\d,]*(?:\.\d+)?"
FIGURE = re.compile(rf"({NUMBER})<!-- ([\w -]+): ([^>]+?) -->")
BARE = re.compile(rf"({NUMBER}) ?(?:times\b|배|%)")
OUTPUT = re.compile(r"<!-- output: ([\w -]+) -->")


def rounded(value, like):
    """`value` with as many decimals, and commas, as `like` has."""
    decimals = len(like.partition(".")[2])
    text = f"{value:,.{decimals}f}"
    return text if "," in like or abs(value) >= 10000 else text.replace(",", "")


class Page:
    def __init__(self, path, parts, strict):
        self.path, self.parts, self.strict, self.problems = path, parts, strict, []
        with open(os.path.join(ROOT, path)) as file:
            self.lines = file.read().split("\n")

    def problem(self, number, text):
        self.problems.append(f"{self.path}:{number}: {text}")

    def figure(self, match, number):
        shown, part, name = match.groups()
        value = self.parts.get(part, {}).get("figures", {}).get(name)
        if value is None:
            self.problem(number, f"{shown}: figures.json has no \"{name}\" of {part}")
            return match.group()
        expected = rounded(value, shown)
        if shown != expected:
            self.problem(number, f"{shown}, expected {expected} ({part}: {name})")
        return f"{expected}<!-- {part}: {name} -->"

    def anew(self):
        """The page's lines with the figures of figures.json."""
        lines, i, in_code = [], 0, False
        while i < len(self.lines):
            line = self.lines[i]
            i += 1
            in_code ^= line.startswith("```")
            if not in_code:
                if self.strict:
                    for bare in BARE.finditer(re.sub(rf"{NUMBER}<!--.*?-->", "", line)):
                        self.problem(i, f"{bare.group()}: expected a comment <!-- part: name --> behind the number")
                line = FIGURE.sub(lambda match: self.figure(match, i), line)
            lines.append(line)
            output = OUTPUT.fullmatch(line)
            if not output:
                continue
            start = i + 1
            end = next((j for j in range(start, len(self.lines)) if self.lines[j] == "```"), None)
            if self.lines[i:start] != ["```"] or end is None:
                self.problem(i, "expected a code block in the next line")
                continue
            expected = self.parts.get(output[1], {}).get("output")
            if expected is None:
                self.problem(i, f"figures.json has no {output[1]}")
                continue
            if self.lines[start:end] != expected:
                self.problem(start, f"the block differs from the output of {output[1]}")
            lines += ["```", *expected, "```"]
            i = end + 1
        return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--figures", default=os.path.join(ROOT, "docs", "figures.json"))
    parser.add_argument("--strict", nargs="*", default=STRICT)
    parser.add_argument("pages", nargs="*", default=PAGES)
    args = parser.parse_args()
    with open(args.figures) as file:
        parts = json.load(file)
    problems = []
    for path in args.pages:
        page = Page(path, parts, path in args.strict)
        lines = page.anew()
        if args.write and lines != page.lines:
            with open(os.path.join(ROOT, path), "w") as file:
                file.write("\n".join(lines))
            page = Page(path, parts, page.strict)
            page.anew()
        problems += page.problems
    if problems:
        print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
