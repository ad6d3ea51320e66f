#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_limits.py GUEST WEAK: calls of hooked functions wait, are refused, or are only watched."""
import kit

REFUSE = {"when_empty": "refuse", "rate": "1/d"}


def said(case, lines, hooks, what, seconds=0, **keys):
    """The guest says this, after so long."""
    ran = kit.run([kit.GUEST, *case.split()], hooks, **keys)
    well = ran.status == 0 and ran.err == "" and ran.out.splitlines() == lines
    kit.check(well, f"{case}: {what}", "" if well else f"{lines} expected: {ran!r}")
    kit.in_time(seconds, ran, f"{case}: {what}, in time")


def waiting():
    said("send 1 2 3 4 5", [f"{n} well" for n in range(1, 6)], ["guest_send"], "four of five calls wait",
         0.4, rate="10/s", burst=1)
    said("send" + " 100000" * 5, ["100000 well"] * 5, {"guest_send": {"cost": "arg2"}}, "bytes wait",
         (500_000 - 65_536) / 1e6, rate="1MB/s", burst=65_536)
    said("send 500", ["500 well"], {"guest_send": {"cost": "arg2"}}, "more than there is room for is gathered",
         0.4, rate="1000B/s", burst=100)
    said("take 300 1", ["300 well", "1 well"], {"guest_take": {"cost": "result"}},
         "a result is charged when it is known", 0.2, rate="1000B/s", burst=100)
    said("waits_with_signals", ["1"], ["guest_send"], "signals do not end the wait", 0.5, rate="2/s", burst=1)
    said("recursion", ["depth 9"], ["guest_call"], "calls within calls wait", 0.4, rate="20/s", burst=1)
    said("small_stack", ["started 1 sent 500"], ["guest_send"], "a small stack is enough to wait on", 499 / 1000,
         rate="1000/s", burst=1)


def waiting_in_handlers():
    """Signals come while the program waits, and their handler's call has to wait, too."""
    ran = kit.run([kit.GUEST, "handlers"], ["guest_send"], rate="200000/s", burst=20_000)
    kit.check(ran.status == 0 and ran.err == "" and ran.out.startswith("sent 1\n"), "handlers wait", repr(ran))
    kit.in_time(0.9, ran, "handlers wait, in time")


def waiting_together():
    command = ["sh", "-c", f"{kit.GUEST} send 1 1 1 & {kit.GUEST} send 1 1 1; wait"]
    ran = kit.run(command, ["guest_send"], rate="10/s", burst=1)
    kit.check(ran.status == 0 and ran.err == "" and ran.out == "1 well\n" * 6, "two programs at one bucket", repr(ran))
    kit.in_time(0.5, ran, "two programs at one bucket, in time")


def refusing():
    for refuse, answer in (("-1 EAGAIN", "-1 EAGAIN"), ("0", "0 well"), ("-1", "-1 well"), ("-5 ENOSPC", "-5 ENOSPC"),
                           ("77 EPERM", "77 EPERM")):
        said("take 5 6 7", ["5 well", "6 well", answer], {"guest_take": {"refuse": refuse}}, f"refuse = {refuse}",
             burst=2, **REFUSE)
    said("count 5 6", ["5 well", "-1 EBUSY"], {"guest_count": {"refuse": "-1 EBUSY"}}, "an int is refused",
         burst=1, **REFUSE)
    said("send 5 6", ["5 well", "0 ENOMEM"], {"guest_send": {"refuse": "0 ENOMEM"}}, "a size_t is refused",
         burst=1, **REFUSE)
    said("pointer 5 6", ["5 well", "0 ENOMEM"], {"guest_pointer": {"refuse": "NULL ENOMEM"}}, "a pointer is refused",
         burst=1, **REFUSE)
    said("bool 1 1", ["1 well", "0 well"], {"guest_bool": {"refuse": "0"}}, "a bool is refused", burst=1, **REFUSE)
    said("no_result", ["41, alignment 0"], {"guest_nothing": {"refuse": "EPERM"}}, "what has no result is not called",
         burst=1, initial=0, **REFUSE)
    said("no_result", ["41, alignment 0"], {"guest_nothing": {"refuse": "nothing"}}, "nor with no errno either",
         burst=1, initial=0, **REFUSE)
    said("integers", ["-12", "-12"], {"guest_ten": {"refuse": "-12"}}, "an int64_t is refused",
         burst=1, initial=0, **REFUSE)
    said("take 500", ["500 well"], {"guest_take": {"refuse": "-1 EAGAIN", "cost": "arg1"}},
         "what never fits is gathered once it has begun", 0.4, when_empty="refuse", rate="1000B/s", burst=100)
    said("take 500", ["-1 EAGAIN"], {"guest_take": {"refuse": "-1 EAGAIN", "cost": "arg1"}},
         "and refused when it cannot begin", when_empty="refuse", rate="1B/d", burst=100, initial=0)


def waiting_not_too_long():
    said("take 5 6", ["5 well", "-1 EAGAIN"], {"guest_take": {"refuse": "-1 EAGAIN"}}, "refused after max-wait",
         0.2, rate="1/s", burst=1, max_wait="200ms")
    said("take 5 6", ["5 well", "6 well"], {"guest_take": {"refuse": "-1 EAGAIN"}}, "granted before max-wait",
         0.1, rate="10/s", burst=1, max_wait="800ms")


def watching():
    said("send" + " 1" * 20, ["1 well"] * 20, ["guest_send"], "watched, none is held", rate="1/d", burst=1,
         when_empty="observe")


kit.main(waiting, waiting_in_handlers, waiting_together, refusing, waiting_not_too_long, watching)
