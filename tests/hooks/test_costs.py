#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_costs.py GUEST WEAK: what calls cost, to the token, and which rules they concern."""
import os

import kit
from kit import guest

BYTES = {"rate": "1B/d"}


def takes(case, name, cost, tokens, **rule):
    guest(case, {name: {"cost": cost}}, tokens, f"cost = {cost} {' '.join(map(str, rule.values()))}", **rule)


def calls():
    takes("send 10 20 30", "guest_send", None, 3)
    takes("send 10 20 30", "guest_send", "calls", 3)
    takes("send 10 20 30", "guest_send", "5", 15)
    takes("send 10 20 30", "guest_send", "arg2", 3)
    takes("take 10 20 30", "guest_take", "result", 3)


def bytes_of_arguments():
    takes("send 10 20 30", "guest_send", "arg2", 60, **BYTES)
    takes("send 10 20 30", "guest_send", "arg2", 60, rate="1/d", count="bytes")
    takes("send 10 20 30", "guest_send", "5", 15, **BYTES)
    takes("take 5 -3 0 7", "guest_take", "arg1", 12, **BYTES)
    takes("count 5 -3 0 7", "guest_count", "arg1", 12, **BYTES)
    takes("integers", "guest_ten", "arg1", 1, **BYTES)  # signed and unsigned, and so the next ones
    takes("integers", "guest_ten", "arg2", 202, **BYTES)
    takes("integers", "guest_ten", "arg3", 3, **BYTES)
    takes("integers", "guest_ten", "arg4", 60004, **BYTES)
    takes("integers", "guest_ten", "arg4 * arg2", 12_000_008, **BYTES)
    takes("doubles", "guest_doubles", "arg20", 10, **BYTES)
    takes("products", "guest_fwrite", "arg2 * arg3", 120, **BYTES)
    takes("lengths", "guest_puts", "strlen(arg1)", 12, **BYTES)
    takes("vectors", "guest_writev", "iov(arg1, arg2)", 300, **BYTES)


def bytes_of_results():
    takes("take 5 -3 0 7", "guest_take", "result", 12, **BYTES)
    takes("count 5 -3 0 7", "guest_count", "result", 12, **BYTES)
    takes("bool 0 1 2 -1", "guest_bool", "result", 3, **BYTES)
    takes("small_results", "guest_uchar", "result", 0 + 1 + 255 + 0 + 255 + 255 + 254 + 64, **BYTES)
    takes("small_results", "guest_short", "result", 0 + 1 + 255 + 256, **BYTES)
    takes("small_results", "guest_ushort", "result", 0 + 1 + 255 + 256 + 65535 + 65535 + 65534 + 40000, **BYTES)
    takes("exception", "guest_call", "result", 0, **BYTES)  # there is none
    takes("longjmp", "guest_call_plainly", "result", 0, **BYTES)
    takes("recursion", "guest_call", "result", sum(range(1, 10)), **BYTES)


def huge_costs_end():
    ran = guest("send 10 -1", {"guest_send": {"cost": "arg2"}}, 10, "a cost that no bucket ever has",
                when_empty="observe", burst=10, **BYTES)
    kit.in_time(0, ran, "and nobody waits for it")


def programs():
    name = os.path.basename(kit.GUEST)
    guest("send 1 1", ["guest_send"], 2, "a rule for this program", program=name)
    guest("send 1 1", ["guest_send"], 2, "a rule for two programs", program=f"other, {name}")
    guest("send 1 1", ["guest_send"], 0, "a rule for another program", program="other")
    ran = kit.run(["sh", "-c", f"{kit.GUEST} send 1 1; {kit.WEAK}; {kit.GUEST} send 1"], ["guest_send"], program=name)
    kit.check(ran.status == 0 and ran.err == "" and ran.tokens == 3, "what a shell starts", repr(ran))


def rules():
    """Each function may have a rule, and one function several."""
    text = "\n".join([
        kit.section("bucket", "all", {"rate": "1B/d", "burst": "1000B"}),
        kit.section("bucket", "one", {"rate": "1/d", "burst": "1000"}),
        kit.section("rule", "all", {"calls": "guest_send, guest_take", "bucket": "all"}),
        kit.section("rule", "one", {"calls": "guest_take", "bucket": "one"}),
        kit.hook("guest_send", cost="arg2"), kit.hook("guest_take", cost="result")])
    for case, everything, one in (("send 10 20", 30, 0), ("take 10 20", 30, 2)):
        ran = kit.run_by(text, [kit.GUEST, *case.split()])
        left = [1000 - (kit.left(name) or 0) for name in ("all", "one")]
        kit.check(ran.is_as(kit.free([kit.GUEST, *case.split()])) and left == [everything, one],
                  f"{case}: two rules, each with its bucket", f"{left} {ran!r}")
        kit.tundish("rm", "all", "one")


def quotas():
    """A rule without a bucket: each process has its own tokens."""
    text = "\n".join([kit.section("rule", "mine", {"calls": "guest_take", "rate": "1/d", "burst": "2",
                                                   "when_empty": "refuse"}),
                      kit.hook("guest_take", refuse="-1 EAGAIN")])
    ran = kit.run_by(text, ["sh", "-c", f"{kit.GUEST} take 5 6 7; {kit.GUEST} take 8 9"])
    kit.check(ran.status == 0 and ran.err == "" and ran.out.splitlines() ==
              ["5 well", "6 well", "-1 EAGAIN", "8 well", "9 well"], "a quota for each process", repr(ran))


kit.main(calls, bytes_of_arguments, bytes_of_results, huge_costs_end, programs, rules, quotas)
