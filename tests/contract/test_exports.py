#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_exports.py LIBRARY SONAME|- LIST [--header]: the library exports the list's names and no others.

With --header the public header must declare exactly these names too, and its manual page name each.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def exported(library):
    """Names without version; the version nodes themselves are absolute symbols."""
    rows = [line.split() for line in tool("nm", "-D", "--defined-only", "--format=posix", library).splitlines()]
    return {row[0].split("@")[0] for row in rows if row[1] != "A"}


def soname(library):
    match = re.search(r"\(SONAME\).*\[(.*)\]", tool("readelf", "-d", library))
    return match.group(1) if match else "-"


def declared(header):
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
    return set(re.findall(r"\b(tundish_\w+)\s*\(", re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)))


def differences(expected, found, where):
    for name in sorted(expected - found):
        yield f"{where} lacks {name}"
    for name in sorted(found - expected):
        yield f"{where} has {name}, which is not listed"


def faults(library, wanted_soname, path, with_header):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    if lines != sorted(set(lines)):
        yield f"{path.name} is not sorted, or names something twice"
    names = set(lines)
    yield from differences(names, exported(library), os.path.basename(library))
    if soname(library) != wanted_soname:
        yield f"SONAME is {soname(library)}, not {wanted_soname}"
    if with_header:
        header = SOURCE / "include/tundish/tundish.h"
        yield from differences(names, declared(header), header.name)
        page = header.with_suffix(".3")
        if page.exists():
            text = page.read_text().replace("\\", "")
            yield from (f"{page.name} lacks {name}" for name in sorted(names) if not re.search(rf"\b{name}\b", text))


def main():
    library, wanted_soname, name, *options = sys.argv[1:]
    found = list(faults(library, wanted_soname, HERE / name, "--header" in options))
    print("\n".join(found) or f"{name}: as listed")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
