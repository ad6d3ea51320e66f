#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_mistakes.py GUEST WEAK: what is wrong in a file is said with its line, and nothing is run; what turns
out to be missing while a program runs is said in one line, and changes nothing."""
import os

import kit

RULE = '[rule "r"]\nrate = 1/d\ncalls = f\n'  # three lines
COMMAND = [kit.GUEST, "send", "5"]
BAD = [kit.GUEST, "ends_badly"]
CHILD = ["sh", "-c", f"{kit.GUEST} send 5; exit 3"]


def mistaken(what, text, line, *words):
    """Exit status 64, and a line that begins with the file and the number of the line; check says the same."""
    with kit.written(text) as path:
        ran = kit.Ran(*kit.started([kit.shim.TUNDISH, "run", "--config", path, "--", *COMMAND]), None)
        checked = kit.tundish("check", path)
        heads = [each.removeprefix("tundish: ") for each in ran.err.splitlines()]
        heads = [each.removeprefix("run: ") for each in heads]
        named = any(each.startswith(f"{path}:{line}: ") and all(word in each for word in words) for each in heads)
    kit.check(ran.status == 64 and ran.out == "" and named, what, "" if named else f"line {line}: {ran!r}")
    kit.check((checked.returncode, checked.stdout, checked.stderr) == (64, "", ran.err), f"{what}: check says so",
              repr(checked))


def signatures():
    for signature, word in {
            "int (frobnicate)": "frobnicate", "frobnicate (int)": "frobnicate", "int (__m128)": "__m128",
            "__m256 (int)": "__m256", "int (void, int)": "void", "int": "", "int (int": "", "int (int,)": "",
            "int (" + ", ".join(["int"] * 33) + ")": "32", "int (...)": "", "int (pointer, ...)": "",
            "int (pointer, ...float)": "float", "": ""}.items():
        mistaken(f"signature = {signature}", f'{RULE}[hook "f"]\nsignature = {signature}\n', 5, word)
    mistaken("no signature of a function that nobody knows", f'{RULE}[hook "f"]\ncost = calls\n', 4, "signature")


def costs():
    head = f'{RULE}[hook "f"]\nsignature = int (pointer, int, double)\ncost = '
    for cost in ("arg4", "arg0", "arg1", "arg3", "strlen(arg2)", "iov(arg2, arg1)", "iov(arg1)", "arg2 *", "size", "-1",
                 "arg2 + arg2", "arg1 * arg2"):
        mistaken(f"cost = {cost}", f"{head}{cost}\n", 6)
    mistaken("cost = result of nothing", f'{RULE}[hook "f"]\nsignature = void (int)\ncost = result\n', 6)


def counts():
    bytes_rule = '[rule "r"]\nrate = 1B/d\ncalls = f\n'
    for cost in ("", "cost = calls\n"):
        mistaken(f"bytes of a function that costs a call: {cost.strip()}",
                 f'{bytes_rule}[hook "f"]\nsignature = int (int)\n{cost}', 3, "cost")
    mistaken("calls at a rate of bytes", f'{bytes_rule}count = calls\n[hook "f"]\nsignature = int (int)\n', 2,
             "count = calls")
    mistaken("more hooks than there may be", "".join(f'[hook "f{i}"]\nsignature = int (int)\n' for i in range(33)),
             65, "32")


def refusals():
    head = f'{RULE}[hook "f"]\nsignature = int (int)\nrefuse = '
    for refuse in ("EAGAIN", "-1 ENOTHING", "NULL", "-1 EAGAIN EAGAIN", "nothing", "99999999999"):
        mistaken(f"refuse = {refuse}", f"{head}{refuse}\n", 6)
    mistaken("refuse = a structure", f'{RULE}[hook "f"]\nsignature = {{int, int}} (int)\nrefuse = 0\n', 6)
    mistaken("when-empty = refuse with no refuse", f'{RULE}when-empty = refuse\n[hook "f"]\nsignature = int (int)\n', 5,
             "refuse")


def names():
    for name in ("setjmp", "vfork", "dlsym"):
        text = f'[rule "r"]\nrate = 1/d\ncalls = {name}\n[hook "{name}"]\nsignature = int (pointer)\n'
        mistaken(f"{name} is never hooked", text, 4, name)
    mistaken("calls = what nobody knows", '[rule "r"]\nrate = 1/d\ncalls = frobnicate\n', 3, "frobnicate")
    mistaken("an unknown key", f'{RULE}frobnicate = 1\n', 4, "frobnicate")
    mistaken("an unknown section", f'{RULE}[frobnicate "f"]\n', 4)
    mistaken("exact = perhaps", f'{RULE}[hook "f"]\nsignature = int (int)\nexact = perhaps\n', 6, "perhaps")


def files():
    ran = kit.Ran(*kit.started([kit.shim.TUNDISH, "run", "--config", "/no/such.conf", "--", *COMMAND]), None)
    kit.check(ran.status == 64 and ran.out == "" and "/no/such.conf" in ran.err, "no file", repr(ran))
    ran = kit.run_by('[rule "r"]\ncalls = connect\nbucket = no-such-bucket\n', COMMAND)
    kit.check(ran.status in (64, 125) and ran.out == "" and "no-such-bucket" in ran.err, "no such bucket", repr(ran))
    with kit.written(f'{RULE}[hook "f"]\nsignature = int (int)\n') as path:
        checked = kit.tundish("check", path)
    kit.check(checked.returncode == 0 and checked.stderr == "" and "int (int)" in checked.stdout, "nothing is wrong",
              repr(checked))
    mistaken("a rate that is none", '[rule "r"]\nrate = 10\ncalls = read\n', 2)
    mistaken("a line that is too long", RULE + "#" * 10_000 + "\n", 4)
    mistaken("no section", "rate = 1/d\n", 1)


def missing():
    """One line at the end of what was started with it, or what a rule names; all else is as without."""
    named = {"program": os.path.basename(kit.GUEST)}
    cases = {"a function that nobody exports": ("guest_nobody", {}),
             "a library that is never loaded": ("guest_send", {"library": "libnever.so.9"})}
    for what, (name, keys) in cases.items():
        for how, command, rule, count in (("it", COMMAND, {}, 1), ("it, ending badly,", BAD, {}, 1),
                                          ("its child", CHILD, {}, 0), ("its child that is named", CHILD, named, 1)):
            alone, ran = kit.free(command), kit.run(command, {name: keys}, **rule)
            lines = ran.err.splitlines()
            well = (ran.status, ran.out) == (alone.status, alone.out) and len(lines) == count
            kit.check(well and all(name in line for line in lines), f"{what}: {how} says {count} lines", repr(ran))


kit.main(signatures, costs, counts, refusals, names, files, missing)
