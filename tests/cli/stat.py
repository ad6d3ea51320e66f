#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stat's lines say what happened in an interval, and it ends in order whoever ends it.

Usage: stat.py VICTIM, which is storm_victim."""
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
VICTIM = sys.argv[1]
DIR = Path(os.environ["TUNDISH_DIR"])
COLUMNS = "TIME TOKENS/S OPS/S REFUSED/S TOKENS WAITING P50-MS P99-MS RETRIES/S".split()


def tundish(*words, status=0):
    done = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (words, done)
    return done


def start(*words, **others):
    return subprocess.Popen([BIN, "stat", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **others)


def header_of(process):
    header = process.stdout.readline()
    assert header.replace(" MS", "-MS").split() == COLUMNS, header


def figures(line):
    words = line.split()
    assert len(words) == len(COLUMNS), line
    return dict(zip(COLUMNS, words))


def ends(process, status, said=""):
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, said), (process.returncode, out, err)
    return out


def counts_its_lines_and_takes_its_time():
    began = time.monotonic()
    lines = tundish("stat", "api", "0.05", "4").stdout.splitlines()
    assert len(lines) == 5 and time.monotonic() - began >= 0.19, lines
    for line in lines[1:]:
        told = figures(line)
        assert (told["TOKENS/S"], told["OPS/S"], told["TOKENS"], told["P50-MS"]) == ("0.0", "0.0", "1000", "-"), line


def rates_are_of_the_time_that_went_by():
    seconds = 3
    began = time.monotonic()
    with start("api", f"{seconds}s", "1") as process:
        header_of(process)  # the first reading was taken before
        taken = 0
        while taken < 20 and time.monotonic() < began + seconds / 2:
            tundish("take", "api", "2")
            taken += 1
        tundish("take", "api", "1000", status=75)
        told = figures(process.stdout.readline())
        elapsed = time.monotonic() - began
        ends(process, 0)
    for column, count in (("TOKENS/S", 2 * taken), ("OPS/S", taken + 1), ("REFUSED/S", 1)):
        rate = float(told[column])
        assert count / elapsed - 0.1 <= rate <= count / seconds + 0.1, (column, count, rate, elapsed)
    assert int(told["TOKENS"]) == 1000 - 2 * taken, told


def what_is_given_back_was_not_granted():
    with start("api", "0.2") as process:
        header_of(process)
        for attempt in range(10):  # an interval may end between the taking and the giving back
            subprocess.run([VICTIM, "api", "returns"], timeout=60, check=True)
            told = figures(process.stdout.readline())
            while told["OPS/S"] == "0.0":
                told = figures(process.stdout.readline())
            tokens, operations = float(told["TOKENS/S"]), float(told["OPS/S"])
            if tokens < 4 * operations:
                break
        assert abs(tokens - 2 * operations) < 0.3, told
        process.send_signal(signal.SIGINT)
        ends(process, -signal.SIGINT)


def waits_are_those_of_the_interval():
    tundish("wait", "slow", "4")
    with start("slow", "0.05") as process:
        header_of(process)
        assert figures(process.stdout.readline())["P99-MS"] == "-"
        tundish("wait", "slow", "4")  # of which the bucket holds one
        told = figures(process.stdout.readline())
        while told["P99-MS"] == "-":
            told = figures(process.stdout.readline())
        assert 100 < float(told["P50-MS"]) == float(told["P99-MS"]) < 60000 and float(told["OPS/S"]) > 0, told
        process.send_signal(signal.SIGINT)
        ends(process, -signal.SIGINT)


def the_end_of_the_bucket_is_the_end():
    for end, said in (
        (lambda: tundish("rm", "gone"), "was removed"),
        (lambda: os.truncate(DIR / "gone", 4096), "was cut short"),
        (replace, "is another bucket now"),
    ):
        tundish("create", "gone", "--rate", "1/s")
        with start("gone", "0.02") as process:
            header_of(process)
            figures(process.stdout.readline())
            end()
            ends(process, 0, f"tundish: gone: {said}\n")
        (DIR / "gone").unlink(missing_ok=True)
    tundish("stat", "gone", "0.01", status=1)


def replace():
    shutil.copy(DIR / "gone", DIR / ".work")
    os.rename(DIR / ".work", DIR / "gone")


def an_interrupt_is_quiet():
    with start("api", "0.05") as process:
        header_of(process)
        process.send_signal(signal.SIGINT)
        ends(process, -signal.SIGINT)


def a_reader_that_leaves_is_no_failure():
    for restore, status in (True, -signal.SIGPIPE), (False, 0):
        with start("api", "0.02", restore_signals=restore) as process:
            header_of(process)
            process.stdout.close()
            assert process.wait(timeout=60) == status, process.returncode
            assert process.stderr.read() == ""


def a_terminal_sees_the_header_again():
    mine, terminal = pty.openpty()
    with subprocess.Popen([BIN, "stat", "api", "0.01", "41"], stdout=terminal) as process:
        os.close(terminal)
        text = b""
        try:
            while piece := os.read(mine, 4096):
                text += piece
        except OSError:  # the other side is closed
            pass
        assert process.wait(timeout=60) == 0
    os.close(mine)
    lines = text.decode().splitlines()
    assert [i for i, line in enumerate(lines) if line.startswith("TIME")] == [0, 21, 42] and len(lines) == 44, lines


def main():
    tundish("create", "api", "--rate", "1/d", "--burst", "1000")
    tundish("create", "slow", "--rate", "20/s", "--burst", "1")
    for test in (counts_its_lines_and_takes_its_time, rates_are_of_the_time_that_went_by,
                 what_is_given_back_was_not_granted, waits_are_those_of_the_interval, the_end_of_the_bucket_is_the_end, an_interrupt_is_quiet,
                 a_reader_that_leaves_is_no_failure, a_terminal_sees_the_header_again):
        print(test.__name__, flush=True)
        test()


if __name__ == "__main__":
    sys.exit(main())
