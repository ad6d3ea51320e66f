#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sidecars, observed processes and those that just register are killed at any moment, STORM_KILLS times (300). The
next sidecar goes on, all places come back, nobody is left inside, no token stays away, and who is not killed is counted
exactly.

Usage: sidecar_storm.py VICTIM; STORM_SEED chooses the moments."""
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
BUCKET = f"{os.environ['TUNDISH_DIR']}/storm"
VICTIM = sys.argv[1]
KILLS = int(os.environ.get("STORM_KILLS", "300"))
SEED = os.environ.get("STORM_SEED") or str(time.time_ns())
CAPACITY = 1000000
PLACES = 64


def status():
    done = subprocess.run([BIN, "status", "storm", "--json"], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)["buckets"][0]


def until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition(status()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}; {status()}"
        time.sleep(0.05)


def sidecar():
    return subprocess.Popen([BIN, "sidecar", "--records"], stdout=subprocess.DEVNULL)


def victim(*way):
    return subprocess.Popen([VICTIM, BUCKET, *way], stdout=subprocess.PIPE, text=True)


def end(process):
    """None of them ends before it is killed."""
    assert process.poll() is None, (process.args, process.returncode)
    process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()


def storm(chance):
    watching, victims = sidecar(), []
    for _ in range(KILLS):
        while len(victims) < 6:
            victims.append(victim(chance.choice(("opens", "takes", "leases", "registers", "reckons"))))
        time.sleep(chance.random() * 0.02)
        if chance.random() < 0.25:
            end(watching)
            watching = sidecar()
        else:
            end(victims.pop(chance.randrange(len(victims))))
    for process in [watching, *victims]:
        end(process)


def total_of(seen):
    return [seen[key] for key in ("granted_total", "tokens_granted_total", "refused_total", "ended_total")]


def what_is_done_now_is_counted():
    """Nothing goes up or down by itself, and what is done goes on top of what the dead have left."""
    before = total_of(status())
    for process in [victim("reckons", "50") for _ in range(3)]:
        assert process.wait(timeout=60) == 0
        process.stdout.close()
    done = [after - earlier for after, earlier in zip(total_of(status()), before)]
    # 0 to 49 takes of 2 tokens, and each time one of more than there are
    assert done == [3 * 1225, 3 * 2450, 3 * 50, 0], done


def main():
    print(f"seed {SEED}", flush=True)
    subprocess.run([BIN, "create", "storm", "--rate", f"{CAPACITY}/s", "--burst", str(CAPACITY)], check=True)
    storm(random.Random(SEED))
    with sidecar() as watching:
        until(lambda seen: not seen["instances"], "the dead cleared")
        until(lambda seen: seen["tokens"] == CAPACITY and seen["waiting"] == 0, "a full bucket and an empty line")
        what_is_done_now_is_counted()
        until(lambda seen: not seen["instances"] and seen["tokens"] == CAPACITY, "a full bucket again")
        victims = [victim("keeps") for _ in range(PLACES)]
        for process in victims:
            assert process.stdout.readline() == "ready\n"
        until(lambda seen: sum(i["drainer_pid"] == watching.pid for i in seen["instances"]) == PLACES, "all places drained")
        assert all(i["in_flight"] == 0 and i["record_every"] == 1 for i in status()["instances"])
        for process in victims:
            end(process)
        until(lambda seen: not seen["instances"] and seen["tokens"] == CAPACITY, "the end of them")
        watching.terminate()
    assert watching.returncode == 0, watching.returncode
    os.unlink(BUCKET)


main()
