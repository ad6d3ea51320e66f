#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_starts.py EXTREMES WEAK NAME=BUILT...: programs that are built or started in unusual ways run as without
hooks, and if there is anything to say, it is one line."""
import os
import subprocess
import sys
import time

import kit

FROM_MEMORY = """
import os, sys
program = os.memfd_create("program")
with open(sys.argv[1], "rb") as f:
    os.write(program, f.read())
os.execve(program, sys.argv[1:], {**os.environ, **dict(each.split("=", 1) for each in os.environ["LATER"].split())})
"""
TEXT = kit.section("rule", "r", {"calls": "connect", "rate": "1/d", "burst": "1"})
WAITS = (kit.section("rule", "r", {"calls": "guest_send", "rate": "40/s", "burst": "1"}) + kit.hook("guest_send"))
SEND = ["guest_send"]
ASAN = "ASAN_OPTIONS=verify_asan_link_order=0"


def as_alone(what, ran, alone, lines, *tokens):
    """It ends as without us, has said so many lines more, and taken so many tokens."""
    said = len(ran.err.splitlines()) - len(alone.err.splitlines())
    well = (ran.status, ran.out, said) == (alone.status, alone.out, lines) and (not tokens or ran.tokens == tokens[0])
    kit.check(well, what, "" if well else f"{lines} lines, {tokens} tokens expected: {ran!r}, without: {alone!r}")


def limited(command, **words):
    """A program that is preloaded by hand; None as its status if it does not end."""
    start = time.monotonic()
    try:
        done = kit.shim.run(command, timeout=10, **words)
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(command, None, "", "")
    return kit.Ran(done, time.monotonic() - start, None)


def two_hook_libraries():
    copy = os.path.join(kit.shim.DIRECTORY, ".tundish-hooks-of-somebody")
    alone = kit.free([kit.GUEST, "many_of_one_name"])
    for order in (f"{copy}:$LD_PRELOAD", f"${{LD_PRELOAD%%:*}}:{copy}:${{LD_PRELOAD#*:}}", f"$LD_PRELOAD:{copy}"):
        script = f'cp "${{LD_PRELOAD%%:*}}" {copy}; LD_PRELOAD={order} exec "$0" many_of_one_name'
        ran = kit.run(["sh", "-c", script, kit.GUEST], {"own_answer": {"signature": "int (int)"}})
        os.unlink(copy)
        as_alone(f"a second hook library in the list: {order.replace(copy, 'COPY')}", ran, alone,
                 len(ran.err.splitlines()))


def no_file():
    """The launcher, which must read the text, could not start it again."""
    with kit.written(TEXT) as path:
        later = f"LD_PRELOAD={kit.shim.PRELOAD} TUNDISH_CONFIG={path}"
        command = [sys.executable, "-I", "-c", FROM_MEMORY, kit.WEAK]
        as_alone("a program in a memory file runs though its configuration file is a text",
                 kit.free(["env", f"LATER={later}", *command]), kit.free([kit.WEAK]), 1)


def fifo():
    path = os.path.join(kit.shim.DIRECTORY, "fifo.conf")
    os.mkfifo(path)
    as_alone("a program does not wait for a configuration file that is a FIFO", limited([kit.WEAK], CONFIG=path),
             kit.free([kit.WEAK]), 1)
    os.unlink(path)


def set_by_the_user():
    """A word that only we set says nothing when somebody else does."""
    send = [kit.OTHERS["plain"]]
    for value in ("1", "x"):
        ran = kit.run(["env", f"TUNDISH_RELAUNCHED={value}", *send], SEND)
        as_alone(f"TUNDISH_RELAUNCHED={value} in a run does not switch limits off", ran, kit.free(send), 0, 20)
        with kit.written(WAITS) as path:
            ran = limited(send, CONFIG=path, RELAUNCHED=value)
        as_alone(f"TUNDISH_RELAUNCHED={value} by hand: the program runs", ran, kit.free(send), 0)
        kit.in_time(19 / 40, ran, f"TUNDISH_RELAUNCHED={value} by hand does not, either")


def own_function():
    command = [kit.OTHERS["own_strcmp"]]
    as_alone("a program with a strcmp of its own, which finds the real one at first", kit.run(command, SEND),
             kit.free(command), 0, 20)


def sanitizers():
    for name, options in {"address": [ASAN], "address_static": [ASAN], "thread": []}.items():
        if name not in kit.OTHERS:
            print(f"skipped {name}: this compiler cannot build it")
            continue
        command = ["env", *options, kit.OTHERS[name]]
        alone = kit.free(command)
        if alone.status != 3:
            print(f"skipped {name}: does not run here, not even alone: {alone!r}")
            continue
        as_alone(f"a program with a sanitizer: {name}", kit.run(command, SEND), alone, 0, 20)


kit.main(two_hook_libraries, no_file, fifo, set_by_the_user, own_function, sanitizers)
