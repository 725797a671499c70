#!/usr/bin/env python3
"""Names of files alone that another file of the same layer has, too, and functions of files alone that hide one that a header declares.
Sources are compiled sixteen at a time, and which depends on the parts that are built: two such names meet on somebody else's machine, and
a file that calls the header's function gets its neighbour's.

    scripts/unity_names.py      prints them, and ends with 1 where there are some
"""

import collections
import pathlib
import re
import sys

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "src"
APART = re.compile(r"/kernels_\w+\.cc$")  # compiled alone, for other processors

VARIABLE = re.compile(r"(?:inline )?(?:static )?(?:constexpr|const|thread_local) .*?\b(\w+)(?:\[\w*\])?\s*[={]")
TYPE = re.compile(r"(?:class|struct|enum class|enum) (\w+)[^;]*$")
ALIAS = re.compile(r"using (\w+) = (.*)")
FUNCTION = re.compile(r"(?!return|TEST|using|template| )[\w:<>,&* ]+ [*&]?(\w+)\((.*)")


def parameters_of(text):
    """Their types, from behind the opening parenthesis."""
    text = re.sub(r" = [^,)]+", "", text.split("{")[0])
    return re.sub(r"\b\w+(?=[,)])", "", text)


def names_in(text):
    """(name, what distinguishes it from others of that name) at the top of the file's unnamed namespaces."""
    for body in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.S | re.M):
        for line in body.split("\n"):
            if found := VARIABLE.match(line):
                yield found[1], ""
            elif found := TYPE.match(line):
                yield found[1], ""
            elif found := ALIAS.match(line):
                yield found[1], found[2]
            elif found := FUNCTION.match(line):
                yield f"{found[1]}()", parameters_of(found[2])


def collisions():
    places = collections.defaultdict(lambda: collections.defaultdict(list))
    for file in sorted(SOURCES.rglob("*.cc")):
        if APART.search(str(file)):
            continue
        text = file.read_text()
        namespace = re.search(r"^namespace ([\w:]+) \{", text, re.M)
        layer = file.relative_to(SOURCES).parts[0]
        for name, kind in set(names_in(text)):
            places[layer, namespace[1] if namespace else "", name][kind].append(file)
    for (layer, _, name), kinds in sorted(places.items()):
        # Functions of other parameters may stand beside each other, and an alias may be said twice.
        if name.endswith("()"):
            groups = [files for files in kinds.values() if len(files) > 1]
        else:
            files = sum(kinds.values(), [])
            groups = [files] if len(files) > 1 and (len(kinds) > 1 or "" in kinds) else []
        for files in groups:
            yield layer, name, files


def declared():
    """Functions of headers: by namespace, name and parameters, the header."""
    found = {}
    for folder in (SOURCES, SOURCES.parent / "include"):
        for file in sorted(folder.rglob("*.h")):
            text = file.read_text()
            namespace = re.search(r"^namespace ([\w:]+) \{", text, re.M)
            # A declaration of several lines is one.
            text = re.sub(r",\n +", ", ", text)
            for line in text.split("\n"):
                if function := FUNCTION.match(line):
                    parameters = parameters_of(re.sub(r"\).*", ")", function[2]))
                    found[namespace[1] if namespace else "", f"{function[1]}()", parameters] = file
    return found


def hidden():
    headers = declared()
    for file in sorted(SOURCES.rglob("*.cc")):
        text = file.read_text()
        namespace = re.search(r"^namespace ([\w:]+) \{", text, re.M)
        parts = namespace[1].split("::") if namespace else [""]
        for name, kind in set(names_in(text)):
            for outer in range(1, len(parts) + 1):
                header = headers.get(("::".join(parts[:outer]), name, re.sub(r"\).*", ")", kind)))
                if header:
                    yield file.relative_to(SOURCES).parts[0], name, [file, header]


def main():
    found = list(collisions()) + list(hidden())
    for layer, name, files in found:
        print(f"{layer}: {name} is in {' and in '.join(str(file.relative_to(SOURCES.parent)) for file in files)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
