#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`tundish sidecar` sees all buckets of a directory, takes records out, clears up, and hands over when it dies."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
DIR = Path(os.environ["TUNDISH_DIR"])
TEXTS = Path(tempfile.mkdtemp())


def tundish(*words, status=0):
    done = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (words, done)
    return done


class Sidecar(subprocess.Popen):
    """Its lines go to a file: a pipe that nobody reads would hold it up. A failed test does not wait for it."""

    def __init__(self, *words, **others):
        self.out = tempfile.TemporaryFile("w+", dir=TEXTS)
        super().__init__([BIN, "sidecar", *words], stdout=self.out, stderr=subprocess.PIPE, text=True, **others)

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
        seen = [line for line in lines_of(process) if line["bucket"]["name"] == "later"]
        assert seen and seen[-1]["bucket"]["rate_per_second"] == 7, seen
        assert abs(seen[-1]["time"] - time.time()) < 30, seen[-1]
        tundish("rm", "later")
        until(lambda: 'bucket="later"' not in text.read_text(), "the removed one gone")
        (DIR / "foreign").write_text("no bucket")
        time.sleep(0.3)
        assert "foreign" not in text.read_text()
        (DIR / "foreign").unlink()
        ends(process)
    assert [name.name for name in TEXTS.iterdir()] == ["tundish.prom"], list(TEXTS.iterdir())


def a_text_that_cannot_be_written_is_said_once():
    with Sidecar("--textfile", str(TEXTS / "nowhere"), "--interval", "100ms") as process:
        time.sleep(0.5)
        ends(process, f"tundish: {TEXTS}/nowhere: No such file or directory\n")


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


def it_sleeps_while_nothing_happens():
    def wakes(process):
        words = Path(f"/proc/{process.pid}/status").read_text().split()
        return int(words[words.index("voluntary_ctxt_switches:") + 1])

    for words, most in ((["--textfile", str(TEXTS)], 2), (["--records"], 5)):
        keeper = Keeper("api")
        with Sidecar(*words) as process:
            time.sleep(1)  # what the start brought about
            before, began = wakes(process), time.monotonic()
            time.sleep(3)
            rate = (wakes(process) - before) / (time.monotonic() - began)
            assert rate <= most + 0.7, (words, rate)
            ends(process)
        keeper.end()


def the_directory_may_come_and_go():
    place = TEXTS / "place"
    with Sidecar("--json", "--interval", "100ms", str(place)) as process:
        for rate in (3, 4):
            place.mkdir()
            tundish("create", f"{place}/it", "--rate", f"{rate}/s")
            until(lambda r=rate: any(line["bucket"]["rate_per_second"] == r for line in lines_of(process)), "the bucket")
            shutil.rmtree(place)
        ends(process)


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


def mistakes_are_said():
    for words, said in (
        (["--interval", "1"], "interval '1': "),
        (["--interval", "1ms"], "interval '1ms': is less than 100 ms"),
        (["--records=0"], "records '0': is zero"),
        (["a", "b"], "takes one directory"),
    ):
        assert said in tundish("sidecar", *words, status=64).stderr, words


tundish("create", "api", "--rate", "100000/s", "--burst", "100000")
for test in (
    buckets_come_and_go_in_the_text_and_in_json,
    a_text_that_cannot_be_written_is_said_once,
    records_are_what_was_done,
    records_have_all_there_is_to_know,
    another_takes_over_and_no_record_is_taken_twice,
    a_silent_one_is_replaced,
    the_dead_are_cleared_and_what_they_did_stays,
    it_sleeps_while_nothing_happens,
    the_directory_may_come_and_go,
    the_service_manager_is_told,
    a_reader_that_leaves_ends_it,
    mistakes_are_said,
):
    began = time.monotonic()
    test()
    print(f"{test.__name__} {time.monotonic() - began:.1f}s")
tundish("rm", "api")
shutil.rmtree(TEXTS)
