#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top on a screen obeys its keys, follows what happens to buckets and windows, and leaves the terminal in order."""
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from terminal import ENTER, LEAVE, Program

BIN = os.environ["KIT_BIN"]
DIR = Path(os.environ["TUNDISH_DIR"])


def tundish(*words, status=0):
    done = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (words, done)


@contextlib.contextmanager
def waiting():
    with subprocess.Popen([BIN, "wait", "full", "5"]) as waiter:
        try:
            yield waiter
        finally:
            waiter.terminate()


def start(*words, lines=24, columns=120, **variables):
    program = Program([BIN, "top", "-d", "0.1", *words], lines, columns, **variables)
    program.until(lambda screen: any(line.startswith("NAME") for line in screen), "a heading")
    return program


def order(screen):
    return [line.split()[0] for line in screen[2:] if line and not line.startswith(" ")]


def is_restored(program):
    output = program.output
    assert output.count(ENTER) == output.count(LEAVE) == 1, output
    assert output.rindex(LEAVE) > output.index(ENTER)
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l"), "no cursor"
    assert not program.is_raw()


def q_quits_and_restores_the_terminal():
    with start() as program:
        program.until(lambda screen: "GOT/S" in screen[1], "all columns")
        assert program.is_raw()
        program.press("q")
        assert program.ends() == 0
        is_restored(program)


def a_signal_restores_the_terminal_and_is_seen_by_the_parent():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with start() as program:
            program.kill(number)
            assert program.ends() == -number
            is_restored(program)
    with start() as program:
        program.press("\x03")
        assert program.ends() == -signal.SIGINT
        is_restored(program)


def keys_sort():
    with start() as program:
        program.until(lambda screen: order(screen)[:2] == ["apart", "busy"], "sorted by name")
        with waiting() as waiter:
            program.press("w")
            program.until(lambda screen: "by waiting" in screen[0] and order(screen)[0] == "full", "sorted by waiting")
            program.press("n")
            program.until(lambda screen: "by name" in screen[0], "sorted by name again")
            for key, word in zip("rpu", ("by rate", "by p99 wait", "by use")):
                program.press(key)
                program.until(lambda screen, word=word: word in screen[0], word)
        program.press("q")
        assert program.ends() == 0


def who_has_a_bucket_open_is_shown_where_there_is_room_or_if_asked():
    def shown(screen):
        return any(re.match(rf"  tundish {waiter.pid} ", line) for line in screen)

    with start() as program, waiting() as waiter:
        program.until(shown, "an instance")
        program.press("i")
        program.until(lambda screen: not shown(screen), "no instance")
        program.press("i")
        program.until(lambda screen: shown(screen) and any("direct" in line for line in screen), "it again")
        program.resize(5, 120)
        program.press("i")
        program.until(lambda screen: len(order(screen)) == 3 and not shown(screen), "buckets only")
        program.press("q")
        assert program.ends() == 0


def the_window_may_change_and_be_narrow():
    with start() as program:
        for lines, columns in ((10, 40), (3, 20), (1, 1), (2, 5), (24, 20), (60, 300)):
            program.resize(lines, columns)
            heading = "NAME"[:columns] if lines > 1 else ""
            program.until(
                lambda screen, heading=heading: screen[0] != "" and (heading == "" or screen[1].startswith(heading)),
                f"{lines} x {columns}",
            )
            assert all(len(line) <= columns for line in program.screen())
            if (lines, columns) == (24, 20):
                program.until(lambda screen: screen[1].endswith("GOT/S") and "apart" in order(screen), "two columns")
        program.press("q")
        assert program.ends() == 0
    with start(lines=10, columns=20) as program:
        program.press("q")
        assert program.ends() == 0


def lines_beyond_the_screen_are_reached_by_scrolling():
    with start(lines=4) as program:
        for key, names in (
            ("\x1bOB", ["busy", "full"]),
            ("\x1bOF", ["full", "renewed"]),
            ("\x1bOA", ["busy", "full"]),
            ("\x1b[5~", ["apart", "busy"]),
            ("\x1b[6~", ["full", "renewed"]),
            ("\x1bOH", ["apart", "busy"]),
        ):
            program.press(key)
            program.until(lambda screen, names=names: order(screen) == names, (key, names))
        program.press("q")
        assert program.ends() == 0


def it_pauses_changes_the_interval_and_helps():
    with start() as program:
        for key, word in zip("  ++-", ("paused", "h: help", "every 0.2 s", "every 0.5 s", "every 0.2 s")):
            program.press(key)
            program.until(lambda screen, word=word: word in screen[0], word)
        program.press("h")
        program.until(lambda screen: any("quit" in line for line in screen), "help")
        program.press("x")
        program.until(lambda screen: "busy" in order(screen), "buckets again")
        program.press("q")
        assert program.ends() == 0


def buckets_come_and_go_and_what_is_none_is_left_out():
    (DIR / "foreign").write_text("no bucket")
    with start() as program:
        program.until(lambda screen: order(screen) == ["apart", "busy", "full", "renewed"], "buckets only")
        tundish("rm", "renewed")
        program.until(lambda screen: "renewed" not in order(screen), "one less")
        tundish("create", "renewed", "--rate", "77/s")
        program.until(lambda screen: any(re.match("renewed +77/s", line) for line in screen), "a new one")
        tundish("create", "other", "--rate", "55/s")
        os.rename(DIR / "other", DIR / "renewed")
        program.until(lambda screen: any(re.match("renewed +55/s", line) for line in screen), "another at once")
        os.truncate(DIR / "renewed", 100)
        program.until(lambda screen: "renewed" not in order(screen), "none that was cut short")
        (DIR / "renewed").unlink()
        tundish("create", "renewed", "--rate", "1/s")
        program.press("q")
        assert program.ends() == 0
    (DIR / "foreign").unlink()


def names_do_not_speak_to_the_terminal():
    bad = os.fsencode(DIR) + b"/a\x1b[2J\xff\xc2\x9b\x07z"
    os.rename(DIR / "apart", bad)
    with start() as program:
        program.until(lambda screen: any(line.startswith(r"a\x1b[2J\xff\xc2\x9b\x07z ") for line in screen), "a harmless name")
        assert "\x07" not in program.output
        program.press("q")
        assert program.ends() == 0
    os.rename(bad, DIR / "apart")


def nothing_is_entered_into_a_bucket():
    with start() as program:
        program.until(lambda screen: "busy" in order(screen), "buckets")
        done = subprocess.run([BIN, "status", "busy", "--raw"], capture_output=True, text=True, check=True)
        assert "\nprocesses 0\n" in done.stdout, done.stdout
        program.press("q")
        assert program.ends() == 0


def colours_are_used_unless_forbidden():
    for variables, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        with start(TERM="xterm-256color", **variables) as program, waiting() as waiter:
            program.until(lambda screen: any(re.search(rf"tundish {waiter.pid}", line) for line in screen), "a waiter")
            program.press("+")
            program.until(lambda screen: "0.2 s" in screen[0], "another picture")
            assert bool(re.search("\x1b\\[(?:[0-9]+;)*3[0-7]m", program.output)) == colored, variables
            program.press("q")
            assert program.ends() == 0


def a_terminal_without_a_screen_gets_tables():
    for variables in ({"TERM": "dumb"}, {"TERM": ""}, {"TERM": "no-such-terminal"}):
        with Program([BIN, "top", "-d", "0.1", "-n", "1"], **variables) as program:
            assert program.ends() == 0
            assert "\x1b" not in program.output and "busy" in program.output, program.output


def it_ends_with_its_terminal():
    with start() as program:
        os.close(program.master)
        _, status = os.waitpid(program.pid, 0)
        program.status = os.waitstatus_to_exitcode(status)
        assert program.status in (0, -signal.SIGHUP), program.status
        program.master = os.open(os.devnull, os.O_RDONLY)


def a_count_ends_the_screen_too():
    with start("-n", "2", "busy") as program:
        assert program.ends() == 0
        is_restored(program)


def main():
    for name in ("apart", "busy", "renewed"):
        tundish("create", name, "--rate", "1000/s")
    tundish("create", "full", "--rate", "1/d", "--initial", "0")
    for test in (
        q_quits_and_restores_the_terminal,
        a_signal_restores_the_terminal_and_is_seen_by_the_parent,
        keys_sort,
        who_has_a_bucket_open_is_shown_where_there_is_room_or_if_asked,
        the_window_may_change_and_be_narrow,
        lines_beyond_the_screen_are_reached_by_scrolling,
        it_pauses_changes_the_interval_and_helps,
        buckets_come_and_go_and_what_is_none_is_left_out,
        names_do_not_speak_to_the_terminal,
        nothing_is_entered_into_a_bucket,
        colours_are_used_unless_forbidden,
        a_terminal_without_a_screen_gets_tables,
        it_ends_with_its_terminal,
        a_count_ends_the_screen_too,
    ):
        print(test.__name__, flush=True)
        test()


if __name__ == "__main__":
    sys.exit(main())
