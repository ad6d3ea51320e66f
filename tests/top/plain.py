#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top without a screen prints a table per interval, of what happened in it, and ends in order whoever ends it."""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
DIR = Path(os.environ["TUNDISH_DIR"])
COLUMNS = "NAME RATE GOT/S USED TOKENS WAITING P50-WAIT P99-WAIT REFUSED/S HISTORY".split()


def tundish(*words, status=0, **others):
    done = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, check=False, **others)
    assert done.returncode == status, (words, done)
    return done


def start(*words, **others):
    return subprocess.Popen([BIN, "top", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **others)


def row(line):
    return dict(zip(COLUMNS, line.split()))


def next_row(process, name):
    """The next line about the bucket."""
    for line in process.stdout:
        if line.startswith(name + " "):
            return row(line)
    raise AssertionError(f"no line about {name}")


def a_table_has_a_title_a_heading_and_a_line_for_each_bucket():
    (DIR / "foreign").write_text("no bucket")
    lines = tundish("top", "-d", "0.1", "-n", "1").stdout.splitlines()
    (DIR / "foreign").unlink()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  3 buckets  1 cannot be opened  every 0.1 s", lines[0]), lines
    heading = re.sub("(P..) WAIT", r"\1-WAIT", lines[1])
    assert heading.split() == COLUMNS and len(lines) == 5, lines
    assert [line.split()[0] for line in lines[2:]] == ["api", "bytes", "slow"], lines
    assert row(lines[2])["RATE"] == "1000/d" and row(lines[2])["TOKENS"] == "1000", lines
    assert re.match("bytes +1 MB/s +0 B +0% +500 kB +0 +- +- +0$", lines[3]), lines


def bytes_are_shown_in_the_family_of_units_of_their_rate():
    tundish("create", "binary", "--rate", "1MiB/s", "--burst", "512KiB")
    lines = tundish("top", "-d", "0.1", "-n", "1", "binary").stdout.splitlines()
    assert re.match("binary +1 MiB/s +0 B +0% +512 KiB +0 +- +- +0$", lines[2]), lines
    tundish("rm", "binary")


def as_many_tables_as_were_asked_for():
    began = time.monotonic()
    text = tundish("top", "-d", "0.2", "-n", "3", "api").stdout
    assert text.count("NAME") == 3 == text.count("\napi ") and text.count("\n\n") == 2, text
    assert time.monotonic() - began >= 0.6


def rates_are_of_the_time_that_went_by():
    seconds = 3
    began = time.monotonic()
    with start("-d", str(seconds), "-n", "2", "api") as process:
        assert next_row(process, "api")["GOT/S"] == "0"
        taken = 0
        while taken < 30 and time.monotonic() < began + 1.5 * seconds:
            tundish("take", "api", "2")
            taken += 1
        tundish("take", "api", "1000", status=75)
        told = next_row(process, "api")
        elapsed = time.monotonic() - began - seconds
        process.wait(timeout=60)
    assert taken > 0
    for column, count in ("GOT/S", 2 * taken), ("REFUSED/S", 1):
        rate = float(told[column])
        assert count / elapsed - 0.1 <= rate <= count / seconds * 2 + 0.1, (column, count, rate, elapsed)


def waits_are_those_of_the_interval_and_whoever_waits_is_shown():
    with start("-d", "0.2", "slow") as process:
        assert next_row(process, "slow")["P99-WAIT"] == "-"
        with subprocess.Popen([BIN, "wait", "slow", "40"]) as waiter:  # 2 s
            while next_row(process, "slow")["WAITING"] != "1":
                pass
            line = process.stdout.readline()
            assert re.match(rf"  tundish {waiter.pid} .* direct$", line), line
        told = next_row(process, "slow")
        while told["P99-WAIT"] == "-":
            told = next_row(process, "slow")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT


def a_reader_that_leaves_is_no_failure():
    for restore, status in (True, -signal.SIGPIPE), (False, 0):
        with start("-d", "0.1", restore_signals=restore) as process:
            next_row(process, "api")
            process.stdout.close()
            assert process.wait(timeout=60) == status, process.returncode
            assert process.stderr.read() == ""
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([BIN, "top", "-d", "0.1"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"standard output" in done.stderr, done


def wrong_words_are_refused():
    for words in ("-d", "0"), ("-d", "soon"), ("-d", "2h"), ("-n", "0"), ("-n",), ("-x",), ("--plain=1",):
        done = tundish("top", *words, status=64)
        assert done.stderr.startswith("tundish: ") and done.stdout == "", done
    assert "no such bucket" in tundish("top", "-n", "1", "missing", status=1).stderr


def lines_have_ascii_only_where_the_locale_has_no_more():
    for locale, mark in (("C", "@"), ("C.UTF-8", "█")):
        with start("-d", "0.5", "slow", env=dict(os.environ, LC_ALL=locale), encoding="utf-8") as process:
            text = ""
            while mark not in text:
                tundish("wait", "slow", "20")  # a second's worth, which is counted all at once
                for text in process.stdout:
                    assert locale != "C" or text.isascii(), text
                    if mark in text or text.startswith("slow ") and text.split()[2] == "0":
                        break
            process.kill()
            process.communicate()


def main():
    tundish("create", "api", "--rate", "1000/d", "--burst", "1000")
    tundish("create", "bytes", "--rate", "1MB/s", "--burst", "500kB")
    tundish("create", "slow", "--rate", "20/s", "--burst", "1")
    for test in (
        a_table_has_a_title_a_heading_and_a_line_for_each_bucket,
        bytes_are_shown_in_the_family_of_units_of_their_rate,
        as_many_tables_as_were_asked_for,
        rates_are_of_the_time_that_went_by,
        waits_are_those_of_the_interval_and_whoever_waits_is_shown,
        a_reader_that_leaves_is_no_failure,
        wrong_words_are_refused,
        lines_have_ascii_only_where_the_locale_has_no_more,
    ):
        print(test.__name__, flush=True)
        test()


if __name__ == "__main__":
    sys.exit(main())
