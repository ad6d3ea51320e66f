#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds every #include and #if of the project against rooms.txt; proves first that it would notice."""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOTS = ("include", "src", "preload")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*?)[ \t]*$", re.M)
INCLUDE = re.compile(r'(<[^>]+>|"[^"]+")')


def read_rules(path):
    """{room or file: set of what it may include}"""
    rules = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        who, colon, what = line.partition(":")
        if not colon:
            raise ValueError(f"{path.name}:{number}: no colon")
        rules.setdefault(who.strip(), set()).update(what.split())
    return rules


def circle(rules):
    """A list of rooms that include each other in a ring, or None."""
    def walk(room, trail):
        if room in trail:
            return trail[trail.index(room):] + [room]
        for other in sorted(rules.get(room, ())):
            if other in rules and (found := walk(other, trail + [room])):
                return found
        return None

    for room in sorted(rules):
        if found := walk(room, []):
            return found
    return None


def without_comments(text):
    """Comments become as many newlines as they had; strings stay."""
    def blank(match):
        piece = match.group()
        return piece if piece.startswith('"') else "\n" * piece.count("\n") or " "
    return COMMENT.sub(blank, text).replace("\\\n", "  ")


def directives(text):
    clean = without_comments(text)
    for match in DIRECTIVE.finditer(clean):
        yield clean.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def room_of(path):
    """The room of a path relative to the tree."""
    parts = path.parts
    return parts[1] if parts[0] in ("src", "include") and len(parts) > 2 else parts[0]


class Tree:
    def __init__(self, root, rules):
        self.root = root
        self.rules = rules

    def files(self):
        for top in ROOTS:
            yield from sorted(path.relative_to(self.root) for path in (self.root / top).rglob("*")
                              if path.suffix in (".c", ".h"))

    def allowed(self, path):
        return (self.rules.get("everyone", set()) | self.rules.get(room_of(path), set()) |
                self.rules.get(str(path), set()))

    def find(self, path, name):
        """The project's header that an #include means, or None."""
        for base in (path.parent, Path("src"), Path("include"), Path("preload"), Path(".")):
            if (self.root / base / name).is_file():
                return Path(os.path.normpath(base / name))
        return None

    def include_fault(self, path, argument):
        match = INCLUDE.match(argument)
        if not match:
            return f"cannot tell what '#include {argument}' means"
        quoted = match.group(1).startswith('"')
        header = self.find(path, match.group(1)[1:-1])
        may = self.allowed(path)
        if header:
            room = room_of(header)
            if room in may or room == room_of(path):
                return None
            return f"{room_of(path)} may not include {room} ({match.group(1)})"
        if quoted:
            return f"{match.group(1)} is not there"
        if match.group(1) in may or "<*>" in may:
            return None
        return f"{room_of(path)} may not include {match.group(1)}"

    def file_faults(self, path):
        seen = list(directives((self.root / path).read_text()))
        for index, (line, word, argument) in enumerate(seen):
            fault = None
            guard = (index == 0 and word == "ifndef" and len(seen) > 1 and
                     seen[1][1:] == ("define", argument))
            if word == "include":
                fault = self.include_fault(path, argument)
            elif word in ("if", "ifdef", "ifndef", "elif") and not guard and "__cplusplus" not in argument:
                if "#if" not in self.allowed(path):
                    fault = f"{room_of(path)} may not have '#{word} {argument}'"
            if fault:
                yield f"{path}:{line}: {fault}"

    def faults(self):
        for path in self.files():
            if room_of(path) not in self.rules:
                yield f"{path}: no such room in rooms.txt"
            yield from self.file_faults(path)
        for who in sorted(self.rules):
            if "/" in who and not (self.root / who).is_file():
                yield f"rooms.txt: {who} is not there"


class Itself(unittest.TestCase):
    """The checker notices each kind of fault in a small tree made for that."""

    RULES = {"everyone": {"<stdint.h>"}, "tundish": set(), "plat": {"<*>", "#if"}, "core": {"plat"},
             "policy": {"plat"}, "src/core/odd.c": {"<time.h>"}}

    def faults(self, rules=RULES, **files):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            files = {"src/plat/clock.h": "", "src/core/odd.c": "#include <time.h>\n",
                     **files}
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return list(Tree(root, rules).faults())

    def one(self, expected, **files):
        faults = self.faults(**files)
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(expected, faults[0])

    def test_a_good_tree_passes(self):
        header = ("/* #if 0 */\n#ifndef GUARD\n#define GUARD\n#include <stdint.h>\n#include \"plat/clock.h\"\n"
                  "#ifdef __cplusplus\n#endif\n#endif\n")
        self.assertEqual(self.faults(**{"src/core/good.h": header, "src/core/good.c": '#include "good.h"\n',
                                        "src/plat/clock.c": "#include <time.h>\n#if 1\n#endif\n"}), [])

    def test_an_edge_that_is_not_listed(self):
        self.one("src/core/bad.c:2: core may not include policy",
                 **{"src/core/bad.c": '\n#  include "policy/unit.h"\n', "src/policy/unit.h": ""})
        self.one("plat may not include core",
                 **{"src/plat/bad.c": '#include "../core/x.h"\n', "src/core/x.h": ""})
        self.one("core may not include tundish",
                 **{"src/core/bad.c": "#include <tundish/tundish.h>\n", "include/tundish/tundish.h": ""})

    def test_system_headers_outside_plat(self):
        self.one("core may not include <unistd.h>", **{"src/core/bad.c": "#include <unistd.h>\n"})
        self.one("core may not include <time.h>", **{"src/core/bad.c": "#include <time.h>\n"})

    def test_conditional_compilation_outside_plat(self):
        self.one("core may not have '#if X'", **{"src/core/bad.c": "#include <stdint.h>\n#if X\n#endif\n"})
        self.one("'#ifndef B'", **{"src/core/bad.h": "#ifndef A\n#define A\n#ifndef B\n#endif\n#endif\n"})
        self.one("'#ifndef A'", **{"src/core/bad.h": "#ifndef A\n#define B\n#endif\n"})

    def test_missing_headers_rooms_and_files(self):
        self.one('"plat/none.h" is not there', **{"src/core/bad.c": '#include "plat/none.h"\n'})
        self.one("no such room", **{"src/attic/old.c": ""})
        self.one("src/core/even.c is not there", rules={**self.RULES, "src/core/even.c": {"<time.h>"}})

    def test_a_circle(self):
        self.assertIsNone(circle(self.RULES))
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"a", "<x.h>"}}), ["a", "b", "c", "a"])


class Project(unittest.TestCase):
    def test_follows_its_rules(self):
        rules = read_rules(HERE / "rooms.txt")
        self.assertIsNone(circle(rules))
        tree = Tree(HERE.parent.parent, rules)
        self.assertGreater(len(list(tree.files())), 0)
        faults = list(tree.faults())
        self.assertFalse(faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
