#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Buckets whose file is missing, read-only, on a full disk, removed, or out of reach: programs run all the same."""
import contextlib
import os
import shutil
import subprocess
import sys

import kit

ROOT = os.getuid() == 0
WRITER = """
send = datagram(LOCAL, 9)
answer([named(send, b"x"), named(send, b"x")])
"""
NOBODY = 65534


def expect_one_line(what, bucket, **words):
    """The writer runs as if there were no rule, and says why; with ON_ERROR=fail its calls do not pass."""
    for manner, answer in (("pass", ["", ""]), ("fail", ["EACCES", "EACCES"])):
        env = kit.environment(BUCKET=bucket, ON_ERROR=manner, **words)
        found, done = kit.answered(WRITER, env)
        lines = done.stderr.splitlines()
        kit.check(found == answer and len(lines) == 1 and lines[0].startswith("tundish: ")
                  and f": its calls {manner}" in lines[0],
                  f"{what}, on error {manner}", f"{found} {done.stderr}")


def missing():
    expect_one_line("no file", "missing")
    expect_one_line("no directory", os.path.join(kit.DIRECTORY, "no/where"))
    expect_one_line("no directory to make it in", os.path.join(kit.DIRECTORY, "no/where"), RATE="1MB/s")
    with open(os.path.join(kit.DIRECTORY, "other"), "w", encoding="ascii") as f:
        f.write("no bucket at all\n" * 1000)
    expect_one_line("another file", "other")
    os.unlink(f.name)


@contextlib.contextmanager
def mounted(*options):
    """A small file system, None if this machine or user may have none."""
    where = os.path.join(kit.DIRECTORY, "mounted")
    os.mkdir(where)
    mount = shutil.which("mount")
    done = mount and ROOT and subprocess.run([mount, "-t", "tmpfs", *options, "tmpfs", where], check=False,
                                             stderr=subprocess.DEVNULL).returncode == 0
    try:
        yield where if done else None
    finally:
        if done:
            subprocess.run(["umount", where], check=True)
        os.rmdir(where)


def create(path):
    subprocess.run([kit.TUNDISH, "create", path, "--rate", "1kB/d", "--burst", "1000"], check=True,
                   env=kit.environment(preload=""))


def read_only():
    with mounted("-o", "mode=0755") as where:
        if where is None:
            print("skipped a read-only disk: it cannot be mounted here")
            return
        path = os.path.join(where, "bucket")
        create(path)
        subprocess.run(["mount", "-o", "remount,ro", where], check=True)
        expect_one_line("a read-only disk", path)
        expect_one_line("a new bucket on a read-only disk", os.path.join(where, "new"), RATE="1MB/s")


def full_disk():
    with mounted("-o", "size=8k") as where:
        if where is None:
            print("skipped a full disk: it cannot be mounted here")
            return
        with contextlib.suppress(OSError), open(os.path.join(where, "all"), "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        path = os.path.join(where, "bucket")
        expect_one_line("a full disk", path, RATE="1MB/s")
        expect_one_line("a full disk, for each destination", path + "-%h", RATE="1MB/s")
        kit.check(os.listdir(where) == ["all"], "nothing half-made is left", str(os.listdir(where)))


LATER = """
ours, peer = pair()
first = named(ours.send, b"x" * 600)
%s
child = apart(lambda: named(ours.send, b"x" * 300))
answer([first, child, named(ours.send, b"x" * 300)])
"""


def gone_later():
    """What was opened stays what it is: for the program and its forked children."""
    for what, change in (("removed", "os.unlink(os.environ['TUNDISH_DIR'] + '/bucket')"),
                         ("in a chroot", "os.chroot(os.environ['TUNDISH_DIR'])"),
                         ("another user", f"os.setuid({NOBODY})")):
        if what != "removed" and not ROOT:
            print("skipped", what, "only root can")
            continue
        create("bucket")
        found, done = kit.answered(LATER % change, kit.environment(BUCKET="bucket", WHEN_EMPTY="refuse"))
        kit.check(found == ["", "", "EAGAIN"] and done.stderr == "", "a bucket that is " + what, f"{found} {done.stderr}")
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(kit.DIRECTORY, "bucket"))


if not kit.PRELOAD or not kit.TUNDISH:
    kit.skip("no preloaded library, or no program, was built")
for part in (missing, read_only, full_disk, gone_later):
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        part()
kit.finish()
