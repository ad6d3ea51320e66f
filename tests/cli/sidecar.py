#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`tundish sidecar` sees all buckets of a directory, takes records out, clears up, and hands over when it dies.

Usage: sidecar.py VICTIM, which is storm_victim."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
VICTIM = sys.argv[1]
DIR = Path(os.environ["TUNDISH_DIR"])
TEXTS = Path(tempfile.mkdtemp())


def tundish(*words, status=0):
    done = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (words, done)
    return done


class Sidecar(subprocess.Popen):
    """Its lines go to a file: a pipe that nobody reads would hold it up. A failed test does not wait for it."""

    def __init__(self, *words, before=(), **others):
        self.out = tempfile.TemporaryFile("w+", dir=TEXTS)
        words = [*before, BIN, "sidecar", *words]
        super().__init__(words, stdout=self.out, stderr=subprocess.PIPE, text=True, **others)

    def __exit__(self, kind, *rest):
        if kind:
            self.kill()
        super().__exit__(kind, *rest)


def lines_of(process):
    """Whole lines so far, without moving where the other one writes."""
    text = os.pread(process.out.fileno(), 1 << 24, 0).decode()
    return [json.loads(line) for line in text.split("\n")[:-1]]


def records_of(process):
    return [line for line in lines_of(process) if not isinstance(line["bucket"], dict)]


def until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def ends(process, said="", kill=signal.SIGTERM):
    process.send_signal(kill)
    err = process.communicate(timeout=60)[1]
    assert err == said, err
    assert process.returncode == (0 if kill in (signal.SIGTERM, signal.SIGINT) else -kill), process.returncode
    process.out.close()


def unread(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def status(name):
    return json.loads(tundish("status", name, "--json").stdout)["buckets"][0]


def is_drained(name):
    return any(i["drainer_pid"] for i in status(name)["instances"])


class Keeper:
    """A process that has a bucket open and takes tokens when told to, by the preloaded library."""

    CODE = """
import socket, sys
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sink.bind(("127.0.0.1", 0))
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); out.connect(sink.getsockname())
print("ready", flush=True)
for line in sys.stdin:
    for i in range(int(line)):
        out.send(b"x")
        sink.recv(10)
    print("done", flush=True)
"""

    def __init__(self, bucket):
        words = [BIN, "run", "-b", bucket, "--calls", "send", "--", sys.executable, "-c", self.CODE]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def send(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self, kill=None):
        if kill:
            self.process.send_signal(kill)
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def buckets_come_and_go_in_the_text_and_in_json():
    text = TEXTS / "tundish.prom"
    left = TEXTS / f".tundish.prom.{2**22 - 1}"  # no process has such a number
    left.touch()
    with Sidecar("--json", "--textfile", str(TEXTS), "--interval", "100ms") as process:
        until(text.exists, "the first text")
        assert not left.exists()
        tundish("create", "later", "--rate", "7/s", "--burst", "9")
        tundish("take", "later", "3")
        wanted = 'tundish_granted_total{bucket="later",unit="calls"} 1'
        until(lambda: wanted in text.read_text(), wanted)
        until(lambda: any(line["bucket"]["name"] == "later" for line in lines_of(process)), "a line about it")
        seen = [line for line in lines_of(process) if line["bucket"]["name"] == "later"]
        assert seen[-1]["bucket"]["rate_per_second"] == 7, seen
        assert abs(seen[-1]["time"] - time.time()) < 30, seen[-1]
        tundish("rm", "later")
        until(lambda: 'bucket="later"' not in text.read_text(), "the removed one gone")
        (DIR / ".foreign").write_text("no bucket")
        (DIR / ".foreign").rename(DIR / "foreign")
        said = f"tundish: {DIR}/foreign: not a bucket (too short: 9 bytes, a bucket has "
        until(lambda: unread(process.stderr) >= len(said), said)
        assert "foreign" not in text.read_text()
        (DIR / "foreign").unlink()
        ends(process, f"{said}{(DIR / 'api').stat().st_size})\n")
    assert [name.name for name in TEXTS.iterdir()] == ["tundish.prom"], list(TEXTS.iterdir())


def a_text_that_cannot_be_written_is_said_once():
    (TEXTS / "taken" / "tundish.prom").mkdir(parents=True)
    for place, said in (
        ("nowhere", "nowhere: No such file or directory"),
        ("taken", "taken/tundish.prom: Is a directory"),
    ):
        with Sidecar("--textfile", str(TEXTS / place), "--interval", "0.1") as process:
            time.sleep(0.5)
            ends(process, f"tundish: {TEXTS}/{said}\n")
    shutil.rmtree(TEXTS / "taken")


def rootless(commands, then=""):
    """What makes a process root of a user namespace of its own, if that may be, and does the commands first."""
    words = ["unshare", "-Urm", "sh", "-c", f'{{ {commands}; }} || exit 77; {then}exec "$@"', "-"]
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if done.returncode == 0 else None


def a_full_disk_is_said_once_and_tried_again():
    place = TEXTS / "small"
    place.mkdir()
    full = rootless(f"mount -t tmpfs -o size=4k none {place}", f"head -c 4096 /dev/zero > {place}/all; ")
    if not full:
        return print("(no user namespaces: not with a full disk)")
    with Sidecar("--json", "--textfile", str(place), "--interval", "100ms", before=full) as process:
        inside = Path(f"/proc/{process.pid}/root{place}")
        until(lambda: len(lines_of(process)) >= 3, "reports")
        assert [name.name for name in inside.iterdir()] == ["all"], list(inside.iterdir())
        (inside / "all").unlink()
        if len(tundish("status", "--prom").stdout) < 4096:
            until((inside / "tundish.prom").exists, "the text once there is room")
        ends(process, f"tundish: {place}/tundish.prom: No space left on device\n")
    return place.rmdir()


def without_watches_it_looks_every_second():
    for limit in ("instances", "watches"):
        none = rootless(f"echo 0 > /proc/sys/user/max_inotify_{limit}")
        if not none:
            print("(no user namespaces: not without watches)")
            continue
        keeper = Keeper("api")
        with Sidecar("--records", before=none) as process:
            until(lambda: is_drained("api"), "somebody drains")
            tundish("create", "later", "--rate", "1/s")
            second = Keeper("later")
            until(lambda: is_drained("later"), "the later one drained", seconds=10)
            wakes, ticks = spent_in_3_s(process)
            assert wakes <= 5.7 and ticks <= 0.1, (limit, wakes, ticks)
            ends(process)
        second.end()
        keeper.end()
        tundish("rm", "later")


def records_are_what_was_done():
    keeper = Keeper("api")
    with Sidecar("--records") as process:
        until(lambda: is_drained("api"), "somebody drains")
        keeper.send(100)
        until(lambda: len(records_of(process)) >= 100, "100 records")
        keeper.send(10)
        until(lambda: len(records_of(process)) >= 110, "110 records")
        ends(process)
    seen = status("api")["instances"][0]
    assert seen["drainer_pid"] == 0 and seen["record_every"] == 0, seen
    keeper.end()


def records_have_all_there_is_to_know():
    keeper = Keeper("api")
    with Sidecar("--records") as process:
        until(lambda: is_drained("api"), "somebody drains")
        keeper.send(1)
        until(lambda: records_of(process), "a record")
        record = records_of(process)[-1]
        pid = keeper.process.pid
        ends(process)
    keeper.end()
    assert (record["bucket"], record["pid"], record["thread"]) == ("api", pid, pid), record
    assert (record["kind"], record["result"], record["tokens"]) == ("try", "granted", 1), record
    assert record["program"].startswith("python"), record
    assert abs(record["time"] - time.time()) < 30 and record["wait_seconds"] == 0, record


def records_of_programs_that_come_and_go():
    tundish("create", "few", "--rate", "1/min", "--burst", "5")
    tundish("take", "few")  # from now on the place has an account
    wanted = []
    with Sidecar("--records") as process:
        for words, result, tokens, status in (
            (["take", "few", "2"], "granted", 2, 0),
            (["take", "few", "3"], "EAGAIN", 3, 75),
            (["wait", "few", "2"], "granted", 2, 0),
            (["wait", "few", "2", "--timeout", "30ms"], "ETIMEDOUT", 2, 124),
            (["take", "few", "9"], "E2BIG", 9, None),
        ):
            if not wanted:
                time.sleep(0.5)  # one look
            done = subprocess.run([BIN, *words], capture_output=True, timeout=60, check=False)
            assert status is None or done.returncode == status, (words, done)
            wanted.append(("tundish", "try" if words[0] == "take" else "acquire", result, tokens))
            until(lambda: len(records_of(process)) >= len(wanted), f"a record of {words}")
        ends_with = records_of(process)
        ends(process)
    seen = [tuple(record[key] for key in ("program", "kind", "result", "tokens")) for record in ends_with]
    assert seen == wanted, seen
    assert 0.03 <= ends_with[3]["wait_seconds"] < 30, ends_with
    tundish("rm", "few")


def no_record_stays_behind():
    keeper = Keeper("api")
    with Sidecar("--records") as process:
        until(lambda: is_drained("api"), "somebody drains")
        keeper.send(100)
        process.terminate()
        process.wait(timeout=60)
        assert len(records_of(process)) == 100, len(records_of(process))
        ends(process)
    keeper.end()


def what_a_killed_one_left_on_is_switched_off():
    keeper = Keeper("api")
    with Sidecar("--records") as process:
        until(lambda: is_drained("api"), "somebody drains")
        ends(process, kill=signal.SIGKILL)
    with Sidecar() as process:
        until(lambda: not is_drained("api"), "nobody drains")
        keeper.send(200)
        seen = status("api")["instances"][0]
        assert seen["record_every"] == 0 and seen["observations_dropped_total"] == 0, seen
        ends(process)
    with Sidecar("--records") as recording, Sidecar() as other:
        until(lambda: is_drained("api"), "somebody drains")
        keeper.send(10)
        until(lambda: len(records_of(recording)) >= 10, "10 records")
        assert status("api")["instances"][0]["drainer_pid"] == recording.pid
        ends(other)
        ends(recording)
    keeper.end()


def nobody_records_for_a_bucket_that_was_removed():
    aside = TEXTS / "aside"
    tundish("create", "gone", "--rate", "1000/s")
    keeper = Keeper("gone")
    with Sidecar("--records") as process:
        until(lambda: is_drained("gone"), "somebody drains")
        keeper.send(10)
        os.link(DIR / "gone", aside)
        tundish("rm", "gone")
        until(lambda: not is_drained(str(aside)), "nobody drains")
        seen = status(str(aside))["instances"][0]
        assert seen["record_every"] == 0 and len(records_of(process)) == 10, (seen, records_of(process))
        ends(process)
    keeper.end()
    aside.unlink()


def another_takes_over_and_no_record_is_taken_twice():
    keeper = Keeper("api")
    with Sidecar("--records") as first, Sidecar("--records") as second:
        until(lambda: is_drained("api"), "somebody drains")
        keeper.send(50)
        until(lambda: len(records_of(first)) + len(records_of(second)) == 50, "50 records")
        drainer = status("api")["instances"][0]["drainer_pid"]
        dying, other = (first, second) if drainer == first.pid else (second, first)
        assert drainer == dying.pid and not records_of(other), (drainer, first.pid, second.pid)
        ends(dying, kill=signal.SIGKILL)
        began = time.monotonic()
        until(lambda: status("api")["instances"][0]["drainer_pid"] == other.pid, "another takes over")
        assert time.monotonic() - began < 4
        keeper.send(50)
        until(lambda: len(records_of(other)) >= 50, "50 more")
        assert len(records_of(other)) == 50
        ends(other)
    keeper.end()


def a_silent_one_is_replaced():
    keeper = Keeper("api")
    with Sidecar("--records") as first:
        until(lambda: is_drained("api"), "somebody drains")
        first.send_signal(signal.SIGSTOP)
        with Sidecar("--records") as second:
            until(lambda: status("api")["instances"][0]["drainer_pid"] == second.pid, "a takeover from a stopped one")
            first.send_signal(signal.SIGCONT)
            keeper.send(50)
            until(lambda: len(records_of(first)) + len(records_of(second)) >= 50, "50 records")
            time.sleep(0.5)
            assert len(records_of(second)) == 50 and not records_of(first)
            ends(second)
        ends(first)
    keeper.end()


def a_process_of_another_pid_namespace_keeps_its_own_sidecar():
    """Its number is somebody else's here, or nobody's."""
    words = ["unshare", "-Urpf", "--mount-proc", "--kill-child", VICTIM, str(DIR / "api"), "leases"]
    inner = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if inner.stdout.readline() != "ready\n":
        inner.communicate(timeout=60)
        return print("(no pid namespaces: not with a process in one)")

    def drainer():
        return status("api")["instances"][0]["drainer_pid"]

    try:
        until(drainer, "its own sidecar drains")
        with Sidecar("--records") as process:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                assert drainer() not in (0, process.pid)
            ends(process)
    finally:
        inner.kill()
        inner.communicate(timeout=60)
    with Sidecar() as process:
        until(lambda: not is_drained("api"), "nobody drains")
        ends(process)
    tundish("rm", "api")
    return tundish("create", "api", *RATE)


def the_dead_are_cleared_and_what_they_did_stays():
    before = status("api")["granted_total"]
    keepers = [Keeper("api") for _ in range(5)]
    for keeper in keepers:
        keeper.send(3)
        keeper.end(kill=signal.SIGKILL)
    assert [i["alive"] for i in status("api")["instances"]] == [False] * 5
    with Sidecar() as process:
        until(lambda: not status("api")["instances"], "an empty table")
        ends(process)
    assert status("api")["granted_total"] == before + 15


def spent_in_3_s(process):
    """How often it woke in a second, and the part of a processor it used."""

    def spent():
        words = Path(f"/proc/{process.pid}/status").read_text().split()
        stat = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(words[words.index("voluntary_ctxt_switches:") + 1]), int(stat[11]) + int(stat[12])

    time.sleep(1)  # what the start brought about
    before, began = spent(), time.monotonic()
    time.sleep(3)
    after, span = spent(), time.monotonic() - began
    return (after[0] - before[0]) / span, (after[1] - before[1]) / os.sysconf("SC_CLK_TCK") / span


def it_sleeps_while_nothing_happens():
    for words, most in ((["--textfile", str(TEXTS)], 2), (["--records"], 5)):
        keeper = Keeper("api")
        with Sidecar(*words) as process:
            wakes, part = spent_in_3_s(process)
            assert wakes <= most + 0.7 and part <= 0.1, (words, wakes, part)
            ends(process)
        keeper.end()


def names_that_come_and_go_all_the_time_do_not_keep_it_busy():
    with Sidecar() as process:
        end = time.monotonic() + 5
        churn = subprocess.Popen([sys.executable, "-c", f"""
import os, time
while time.monotonic() < {end}:
    os.close(os.open({str(DIR / "churn")!r}, os.O_CREAT)); os.unlink({str(DIR / "churn")!r})"""])
        wakes, part = spent_in_3_s(process)
        churn.wait(timeout=60)
        assert wakes <= 50 and part <= 0.5, (wakes, part)
        ends(process)


def what_is_no_bucket_is_left_alone():
    size = (DIR / "api").stat().st_size
    strange = [DIR / name for name in ("pipe", "empty", "huge", "zeros", "noise", "cut", "nowhere", "loop")]
    os.mkfifo(strange[0])
    strange[1].touch()
    for path, length in zip(strange[2:4], (1 << 40, size)):
        path.touch()
        os.truncate(path, length)
    strange[4].write_bytes(os.urandom(50000))
    strange[5].write_bytes((DIR / "api").read_bytes()[:10000])
    strange[6].symlink_to("there")
    strange[7].symlink_to("loop")
    (DIR / "directory").mkdir()
    foreign = "a file of something else"
    why = {"cut": f"too short: 10000 bytes, a bucket has {size}", "empty": f"too short: 0 bytes, a bucket has {size}",
           "huge": foreign, "noise": foreign, "zeros": foreign}
    said = "".join(f"tundish: {DIR}/{name}: not a bucket ({reason})\n" for name, reason in why.items())
    with Sidecar("--json", "--records", "--interval", "100ms") as process:
        until(lambda: len(lines_of(process)) >= 5, "reports")
        assert {line["bucket"]["name"] for line in lines_of(process)} == {"api"}
        strange[1].unlink()
        for name in "later", "empty":  # when the first has been seen, it has been seen too that the second was gone
            (DIR / name).touch()
            said += f"tundish: {DIR}/{name}: not a bucket ({why['empty']})\n"
            until(lambda: unread(process.stderr) >= len(said), f"a line about {name}")
        (DIR / "later").unlink()
        ends(process, said)
    for path in strange:
        path.unlink()
    (DIR / "directory").rmdir()


def the_directory_may_come_and_go():
    place = TEXTS / "place"
    with Sidecar("--json", "--interval", "100ms", str(place)) as process:
        until(lambda: unread(process.stderr), "a line about the directory")
        for rate in (3, 4):
            place.mkdir()
            tundish("create", f"{place}/it", "--rate", f"{rate}/s")
            until(lambda r=rate: any(line["bucket"]["rate_per_second"] == r for line in lines_of(process)), "the bucket")
            shutil.rmtree(place)
        ends(process, f"tundish: {place}: no such directory yet; waiting for it\n")
    assert tundish("sidecar", str(DIR / "api"), status=1).stderr == f"tundish: {DIR}/api: Not a directory\n"


def the_service_manager_is_told():
    path = str(TEXTS / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(20)
        with Sidecar(env={**os.environ, "NOTIFY_SOCKET": path}) as process:
            assert manager.recv(100) == b"READY=1"
            ends(process)
            assert manager.recv(100) == b"STOPPING=1"
    os.unlink(path)


def a_reader_that_leaves_ends_it():
    process = subprocess.Popen([BIN, "sidecar", "--json", "--interval", "100ms"], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0


def told_to_end_it_does_although_nobody_reads():
    text = TEXTS / "tundish.prom"
    words = [BIN, "sidecar", "--json", "--interval", "100ms", "--textfile", str(TEXTS)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)

    until(lambda: unread(process.stdout), "the first line")
    time.sleep(1)  # by now it has more to write than there is room
    before = text.stat().st_ino, unread(process.stdout)
    time.sleep(0.5)
    assert before == (text.stat().st_ino, unread(process.stdout)), "it is not held up"
    began = time.monotonic()
    process.terminate()
    assert process.wait(timeout=60) == 0
    assert time.monotonic() - began < 2
    assert text.stat().st_ino != before[0], "no last text"
    lines = process.stdout.read().decode()
    assert lines.endswith("}\n") and all(json.loads(line) for line in lines.splitlines()), lines
    process.stdout.close()


RATE = ("--rate", "100000/s", "--burst", "100000")
tundish("create", "api", *RATE)
for test in (
    buckets_come_and_go_in_the_text_and_in_json,
    a_text_that_cannot_be_written_is_said_once,
    a_full_disk_is_said_once_and_tried_again,
    without_watches_it_looks_every_second,
    records_are_what_was_done,
    records_have_all_there_is_to_know,
    records_of_programs_that_come_and_go,
    no_record_stays_behind,
    what_a_killed_one_left_on_is_switched_off,
    nobody_records_for_a_bucket_that_was_removed,
    another_takes_over_and_no_record_is_taken_twice,
    a_silent_one_is_replaced,
    a_process_of_another_pid_namespace_keeps_its_own_sidecar,
    the_dead_are_cleared_and_what_they_did_stays,
    it_sleeps_while_nothing_happens,
    names_that_come_and_go_all_the_time_do_not_keep_it_busy,
    what_is_no_bucket_is_left_alone,
    the_directory_may_come_and_go,
    the_service_manager_is_told,
    a_reader_that_leaves_ends_it,
    told_to_end_it_does_although_nobody_reads,
):
    began = time.monotonic()
    test()
    print(f"{test.__name__} {time.monotonic() - began:.1f}s")
tundish("rm", "api")
shutil.rmtree(TEXTS)
