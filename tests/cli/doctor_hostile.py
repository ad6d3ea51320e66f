#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doctor_hostile.py CC: whatever is in a file, doctor ends with a verdict and says no more than one line.

A program and a library are cut at many sizes, and bytes of theirs are changed: those of the tables that are
followed more often than others. What is changed depends on nothing but this file.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = """
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int carry(void);
int carry(void) { return send(1, "", 0, 0) + (dlopen("x", RTLD_NOW) != 0) + (int)syscall(39L) + puts(""); }
"""
MAIN = "int carry(void); int main(void) { return carry(); }\n"
STATUSES = (0, 3, 4, 126, 127)


def build(cc, work):
    (work / "carry.c").write_text(SOURCE)
    (work / "main.c").write_text(MAIN)
    flags = [cc, "-w", "-D_GNU_SOURCE"]
    library, program = work / "libcarry.so", work / "subject"
    subprocess.run([*flags, "-shared", "-fPIC", "-o", library, work / "carry.c"], check=True)
    subprocess.run([*flags, "-o", program, work / "main.c", library], check=True)
    return program, library


def ask(program):
    """Exit status and verdict; raises if it did anything but answer."""
    done = subprocess.run([os.environ["KIT_BIN"], "doctor", program], capture_output=True, text=True, timeout=60,
                          errors="replace", check=False)
    lines = done.stdout.splitlines()
    said = done.stderr.splitlines()
    if done.returncode not in STATUSES or len(said) > 1:
        raise AssertionError(f"status {done.returncode}\n{done.stdout}{done.stderr}")
    verdict = lines[-1] if lines else ""
    if done.returncode < 100 and not verdict.startswith(("works", "partly: ", "not at all: ")):
        raise AssertionError(f"no verdict\n{done.stdout}{done.stderr}")
    return done.returncode, verdict


def followed(image):
    """Places of the header, of the program headers, and of what the loader is led to from there."""
    phoff, = struct.unpack_from("=Q", image, 32)
    phentsize, phnum = struct.unpack_from("=HH", image, 54)
    places = list(range(16, 64)) + list(range(phoff, phoff + phentsize * phnum))
    for i in range(phnum):
        kind, _, offset, _, _, size = struct.unpack_from("=IIQQQQ", image, phoff + i * phentsize)
        if kind in (2, 3, 4):  # dynamic, interpreter, note
            places += range(offset, offset + size)
    return places


def cuts(image):
    sizes = set(range(0, 64, 5)) | set(range(64, len(image), max(1, len(image) // 80)))
    for size in sorted(sizes):
        yield f"cut at {size}", image[:size]


def changes(image, count):
    chance = random.Random(4)
    places = followed(image)
    for _ in range(count):
        changed = bytearray(image)
        spots = []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            spot = chance.choice(places) if chance.random() < 0.8 else chance.randrange(len(image))
            changed[spot] = chance.choice((0, 255, 127, 128, changed[spot] ^ (1 << chance.randrange(8))))
            spots.append(f"{spot}={changed[spot]}")
        yield "byte " + " ".join(spots), bytes(changed)


def attack(program, victim, image):
    verdicts = set()
    for what, changed in (*cuts(image), *changes(image, 160)):
        victim.write_bytes(changed)
        try:
            verdicts.add(ask(program)[1])
        except (AssertionError, subprocess.TimeoutExpired) as fault:
            sys.exit(f"{victim.name}, {what}: {fault}")
    victim.write_bytes(image)
    return verdicts


def main():
    if struct.calcsize("P") != 8:
        print("the places that are changed are those of 64-bit programs")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        program, library = build(sys.argv[1], Path(name))
        whole = ask(program)
        assert whole == (0, "works"), whole
        for victim in (program, library):
            verdicts = attack(program, victim, victim.read_bytes())
            broken = [verdict for verdict in verdicts if "is a broken ELF file" in verdict]
            assert victim == library or broken, verdicts
            print(f"{victim.name}: {len(verdicts)} verdicts")
        assert ask(program) == whole


if __name__ == "__main__":
    main()
