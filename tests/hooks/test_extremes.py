#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_extremes.py EXTREMES WEAK: absurd sizes, pointers that lead nowhere, and handlers that never return."""
import kit

MOST = 2_147_483_646  # that a bucket holds at the least rate
ONE_CALL = 0x7FFFF000  # that the kernel takes


def huge_size():
    ran = kit.guest("huge", {"guest_send": {"cost": "arg2"}}, ONE_CALL, "an absurd size costs no more than a call may",
                    rate="1B/d", burst=MOST)
    kit.in_time(0, ran, "huge: an absurd size is paid at once from a full bucket")


def bad_pointers():
    hooks = {"guest_remove": {"signature": "int (const char *)", "cost": "strlen(arg1)"},
             "guest_write": {"signature": "long (pointer, int)", "cost": "iov(arg1, arg2)"}}
    tokens = {"guest_remove": len("/nowhere"), "guest_write": len("as good as ever\n")}
    for name, keys in hooks.items():
        kit.guest("bad_pointers", {name: keys}, tokens[name],
                  f"{keys['cost']} of a bad pointer costs nothing, and {name} sees the pointer", rate="1B/d")


def jumps():
    command = [kit.GUEST, "jumps"]
    alone, ran = kit.free(command), kit.run(command, ["guest_send"], rate="10/s", burst=1)
    well = alone.status == 0 and ran.is_as(alone)
    kit.check(well, "jumps: a handler that jumps out of a wait leaves a thread that can be cancelled and calls on",
              "" if well else f"{ran!r}, without: {alone!r}")
    kit.in_time(0.3, ran, "jumps: later calls wait for their tokens")


kit.main(huge_size, bad_pointers, jumps)
