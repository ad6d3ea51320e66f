#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs with allocators, sanitizers, neighbours and limiters of their own. Arguments: NAME=FILE of each there is."""
import os
import shutil
import subprocess
import sys
import time

import kit

SLOW = {"RATE": "500kB/s", "BURST": "10kB"}
LEAST = 0.35  # seconds: 190 kB of the victim's 200
FILES = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)


def run_victim(what, name, preload=kit.PRELOAD, slow=True, **variables):
    """A victim to its end, which is to be a good one, after the time that its bytes take."""
    env = {**kit.environment(preload, **SLOW), **variables}
    start = time.monotonic()
    try:
        done = subprocess.run([FILES[name]], env=env, timeout=60, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        kit.check(False, what, "it hangs")
        return
    took = time.monotonic() - start
    kit.check(done.returncode == 0 and not done.stdout and (took >= LEAST or not slow), what,
              f"status {done.returncode}, {took:.2f} s {done.stdout[:3000]}")


def both_orders(other):
    return (("before", f"{other}:{kit.PRELOAD}"), ("after", f"{kit.PRELOAD}:{other}"))


def allocators():
    for name in ("jemalloc", "tcmalloc"):
        if name not in FILES:
            print("skipped", name, "is not installed")
            continue
        run_victim(f"linked with {name}", name)
        for where, preload in both_orders(FILES["lib" + name]):
            run_victim(f"{name} preloaded {where} ours", "plain", preload)
    redis = shutil.which("redis-server")
    if redis is None or "jemalloc" not in FILES:
        print("skipped redis-server with jemalloc")
        return
    for where, preload in both_orders(FILES["libjemalloc"]):
        done = kit.run([redis, "--version"], preload, timeout=20, **SLOW)
        kit.check(done.returncode == 0 and "malloc" in done.stdout and done.stderr == "",
                  f"redis-server, jemalloc preloaded {where} ours", repr(done))


def runs_alone(name):
    """Sanitizers want a memory layout that not every kernel has."""
    if name not in FILES:
        print("skipped -fsanitize=" + name, "is not to be had")
        return False
    alone = subprocess.run([FILES[name]], env=kit.environment(preload=""), timeout=60, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
    if alone.returncode != 0:
        print("skipped -fsanitize=" + name, "does not run here, not even alone")
    return alone.returncode == 0


def runtime_of(program):
    """The path of the sanitizer's library that it needs, None if it is linked in."""
    for line in subprocess.run(["ldd", program], text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines():
        if "san" in line and "=>" in line:
            return line.split()[2]
    return None


def sanitizers():
    if runs_alone("address"):
        run_victim("AddressSanitizer, told not to mind the order", "address",
                   ASAN_OPTIONS="verify_asan_link_order=0")
    for name in ("address", "thread"):
        if name in FILES and runs_alone(name):
            runtime = runtime_of(FILES[name])
            run_victim(f"-fsanitize={name}, its library first", name,
                       f"{runtime}:{kit.PRELOAD}" if runtime else kit.PRELOAD)


def babblers():
    for where, preload in both_orders(FILES["babbler"]):
        run_victim(f"calls out of malloc, dlsym and constructors {where} ours", "plain", preload)
        done = kit.run(["sh", "-c", "exit 3"], preload, timeout=20, **SLOW)
        kit.check(done.returncode == 3 and done.stderr == "", f"and in a shell {where} ours", repr(done))
    run_victim("twice in the list", "plain", f"{kit.PRELOAD}:{kit.PRELOAD}")


def own_limiter():
    """curl's limit and ours: the lower one holds, and everything arrives."""
    if shutil.which("curl") is None:
        print("skipped curl: not installed")
        return
    size = 500_000
    path = os.path.join(kit.DIRECTORY, "upload")
    with open(path, "wb") as f:
        f.truncate(size)
    for theirs, ours, rate in (("400k", "4MB/s", 409600), ("40m", "400kB/s", 400000)):
        sink = kit.Sink()
        done = kit.run(["curl", "-sS", "-o", os.devnull, "--limit-rate", theirs, "-T", path, sink.url], RATE=ours,
                       BURST="20kB")
        summary = sink.summary()
        kit.check(done.returncode == 0 and done.stderr == "" and summary["bytes"] == size and
                  0.5 * rate < summary["rate"] < 1.35 * rate, f"curl --limit-rate {theirs} under {ours}", str(summary))
    os.unlink(path)


if not kit.PRELOAD:
    kit.skip("no preloaded library was built")
for part in (allocators, sanitizers, babblers, own_limiter):
    if part.__name__ in sys.argv[1:] or not set(sys.argv[1:]) - {f"{k}={v}" for k, v in FILES.items()}:
        part()
kit.finish()
