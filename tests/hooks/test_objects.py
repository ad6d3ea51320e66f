#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_objects.py EXTREMES WEAK: libraries come and go, and each caller reaches the function that it would reach
without hooks."""
import kit

OWN = {"own_answer": {"signature": "int (int)"}}


def threads():
    kit.guest("threads", OWN, 2000, "threads that each load and unload a plugin reach their own function")


def found_dlclose():
    kit.guest("found_dlclose", OWN, 20, "a library may go by a dlclose that was got from a handle of libc")


def many_of_one_name():
    kit.guest("many_of_one_name", OWN, 60, "six libraries with a function of one name, each caller reaches its own")


def local():
    kit.guest("local", OWN, 2, "a function that only a local library has is not found by default")


def forks():
    """Two threads are in the middle of a call all the time, and how many they make nobody knows."""
    command = [kit.GUEST, "forks"]
    alone, ran = kit.free(command), kit.run(command, OWN)
    well = alone.status == 0 and ran.is_as(alone)
    kit.check(well, "forks: a child's call does not hang though other threads were looking up functions",
              "" if well else f"{ran!r}, without: {alone!r}")


kit.main(threads, found_dlclose, many_of_one_name, local, forks)
