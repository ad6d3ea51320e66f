#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_families.py GUEST WEAK: open in programs as they are installed, under whichever of its names they call it."""
import errno
import os
import shutil
import sys

import kit

FEW, MANY = 3, 13  # what a program opens besides, when it starts, is the same
BASH = 'for ((i = 0; i < {}; i++)); do : </dev/null; done; echo done'
PYTHON = 'import os\nfor i in range({}): os.close(os.open("/dev/null", os.O_RDONLY))\nprint("done")'


def programs():
    """Name and a command that opens so many files."""
    if shutil.which("bash"):
        yield "bash", lambda n: ["bash", "--norc", "--noprofile", "-c", BASH.format(n)]
    yield "python", lambda n: [sys.executable, "-I", "-S", "-c", PYTHON.format(n)]


def opened(command, hooks):
    """How many tokens more many files take than few; None if the program ends otherwise than without."""
    tokens = []
    for n in (FEW, MANY):
        ran = kit.run(command(n), hooks)
        if ran.tokens is None or not ran.is_as(kit.free(command(n))):
            print(repr(ran))
            return None
        tokens.append(ran.tokens)
    return tokens[1] - tokens[0]


def all_names():
    for name, command in programs():
        kit.check(opened(command, ["open"]) == MANY - FEW, f"{name}: open means all of its names")


def exact_names():
    for name, command in programs():
        counts = {each: opened(command, {each: {"exact": "yes"}}) for each in ("open", "open64")}
        kit.check(sorted(counts.values(), key=str) == [0, MANY - FEW], f"{name}: exact = yes is one name",
                  str(counts))


def refusing():
    """Errors are reported as the programs do."""
    for name, command in programs():
        ran = kit.run(command(MANY), {"open": {"refuse": "-1 EACCES"}}, when_empty="refuse", burst=1, initial=0,
                      program="nobody")
        kit.check(ran.is_as(kit.free(command(MANY))), f"{name}: a rule for another program", repr(ran))
        if name == "bash":
            ran = kit.run(command(1), {"open": {"refuse": "-1 EACCES"}}, when_empty="refuse", burst=1, initial=0)
            kit.check(ran.out == "done\n" and f"/dev/null: {os.strerror(errno.EACCES)}" in ran.err,
                      f"{name}: it cannot open", repr(ran))


def waiting():
    for name, command in programs():
        alone, ran = kit.free(command(50)), kit.run(command(50), ["open"], rate="50/s", burst=1)
        kit.check(ran.is_as(alone), f"{name}: waits for each file", repr(ran))
        kit.in_time(49 / 50, ran, f"{name}: waits for each file, in time")


kit.main(all_names, exact_names, refusing, waiting)
