#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The limit goes with fork and exec: processes on one bucket, descendants of one run, chains of programs."""
import kit

# Between two programs nobody sends: the bucket must hold what falls due meanwhile.
BURST = 400_000


@kit.case("curl", size=750_000)
def four_processes_share_a_bucket(t):
    t.meter.expect(4 * t.size)
    sink = t.sink(uploads=4)
    for process in [t.start(["curl", "-sS", "-o", "/dev/null", "-T", t.file, sink.url]) for _ in range(4)]:
        t.finish(process)
    t.arrived(sink)


@kit.case("curl", size=1_500_000)
def children_of_a_shell_share_its_bucket(t):
    t.meter.expect(2 * t.size)
    sink = t.sink(uploads=2)
    upload = f"curl -sS -o /dev/null -T {t.file} {sink.url}"
    t.run(["sh", "-c", f"{upload} & {upload} & wait"])
    t.arrived(sink)


@kit.case("curl", kit.shim.TUNDISH or "tundish", size=1_500_000)
def descendants_of_a_run_share_its_bucket(t):
    t.meter.expect(2 * t.size)
    sink = t.sink(uploads=2)
    upload = f"curl -sS -o /dev/null -T {t.file} {sink.url}"
    limit = [kit.shim.TUNDISH, "run", "--rate", f"{kit.RATE}B/s", "--burst", f"{kit.BURST}B", "--"]
    process = t.start([*(limit if t.is_limited else []), "sh", "-c", f"{upload} & (sh -c '{upload}'); wait"],
                      limited=False)
    t.watched.append(process.pid)
    t.finish(process)
    t.arrived(sink)


@kit.case("curl", size=1_500_000, burst=BURST)
def programs_that_exec_each_other_stay_limited(t):
    t.meter.expect(2 * t.size)
    sink = t.sink(uploads=2)
    t.run(["sh", "-c", f"curl -sS -o /dev/null -T {t.file} {sink.url};"
           f"exec env -u SOMETHING nice sh -c 'exec curl -sS -o /dev/null -T {t.file} {sink.url}'"])
    t.arrived(sink)


@kit.case("curl", "xargs", size=300_000, burst=BURST, starts=10)
def ten_children_two_at_a_time_share_a_bucket(t):
    t.meter.expect(10 * t.size)
    sink = t.sink(uploads=10)
    with open(t.path("urls"), "w", encoding="ascii") as f:
        f.write(f"{sink.url}\n" * 10)
    with open(t.path("urls"), "rb") as urls:
        t.run(["xargs", "-n1", "-P2", "curl", "-sS", "-o", "/dev/null", "-T", t.file], stdin=urls)
    t.arrived(sink)


kit.main()
