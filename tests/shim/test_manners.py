#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A guest leaves the program as it was: status, output, errno, descriptors; one line when something is wrong."""
import os
import shutil
import subprocess
import sys

import kit

LIMIT = {"RATE": "2MB/s"}
# The library says where it is; this one says that it was called.
OTHER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int calls;
ssize_t write(int fd, const void *buf, size_t n) {
    ssize_t (*real)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    calls++;
    return real(fd, buf, n);
}
__attribute__((destructor)) static void leave(void) {
    if (calls > 0)
        write(2, "other\n", 6);
}
"""
ERRNO_AT_MAIN = r"""
#include <errno.h>
#include <stdio.h>
int main(void) { return printf("%d\n", errno) != 2; }
"""
WRITER = r"""
import os, socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)); a.listen(1); b.connect(a.getsockname())
assert os.write(b.fileno(), b"x" * 100) == 100
"""
# Executes itself again and again; counts its descriptors first and last.
SELF_EXEC = r"""
count() { set -- /proc/$$/fd/*; echo $#; }
[ "$1" = 0 ] && count && exit
[ "$1" = 100 ] && count
exec sh -c "$0" "$0" $(($1 - 1))
"""


def same_as_alone(name, command):
    with_it, alone = kit.run(command, **LIMIT), kit.run(command, preload="")
    kit.check((with_it.returncode, with_it.stdout, with_it.stderr) ==
              (alone.returncode, alone.stdout, alone.stderr), name + " is the same as alone", repr(with_it))


def compiled(name, text, *flags):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    path = os.path.join(kit.DIRECTORY, name)
    subprocess.run([compiler, "-w", "-x", "c", "-", "-o", path, *flags], input=text, text=True, check=True)
    return path


def status_and_output():
    same_as_alone("false", ["false"])
    same_as_alone("exit 7", ["sh", "-c", "echo out; echo err >&2; exit 7"])
    same_as_alone("a signal", ["sh", "-c", "kill -TERM $$"])
    program = compiled("errno", ERRNO_AT_MAIN)
    if program:
        done = kit.run([program], **LIMIT)
        kit.check(done.stdout == "0\n", "errno is 0 at main", done.stdout)


def one_line(name, part, **words):
    done = kit.run([sys.executable, "-c", WRITER], **words)
    lines = done.stderr.splitlines()
    kit.check(done.returncode == 0 and len(lines) == 1 and lines[0].startswith("tundish: ") and part in lines[0],
              name + ": one line, and the program runs", repr(done.stderr))


def troubles():
    one_line("missing bucket", "missing", BUCKET="missing")
    one_line("bad rate", "TUNDISH_RATE=5K/s", RATE="5K/s")
    one_line("bad burst", "TUNDISH_BURST", RATE="5kB/s", BURST="x")
    one_line("burst alone", "TUNDISH_BURST", BURST="5", BUCKET="missing")
    one_line("bad calls", "TUNDISH_CALLS=push", CALLS="push", **LIMIT)
    one_line("connects in bytes", "TUNDISH_CALLS=connect", CALLS="connect", **LIMIT)
    one_line("bad errno", "EWHAT", WHEN_EMPTY="refuse:EWHAT", **LIMIT)
    one_line("bad wait", "TUNDISH_MAX_WAIT=5", MAX_WAIT="5", **LIMIT)
    one_line("unknown word", "TUNDISH_RAET", RAET="1/s", **LIMIT)
    one_line("destinations", "TUNDISH_DEST", DEST="example.org", **LIMIT)
    one_line("configuration", "TUNDISH_CONFIG", CONFIG="x.conf", **LIMIT)
    one_line("inheritance", "TUNDISH_INHERIT", INHERIT="sometimes", **LIMIT)
    one_line("bucket per destination", "TUNDISH_COUNT", BUCKET="a-%h")
    done = kit.run([sys.executable, "-c", WRITER], BUCKET="missing", ON_ERROR="fail")
    kit.check(done.returncode == 1 and "Permission denied" in done.stderr, "fail: its calls are EACCES", done.stderr)
    done = kit.run(["true"], BUCKET="agreed", RATE="5/s")
    kit.check(done.stderr == "", "a bucket with a rate is made", done.stderr)
    one_line("another rate", "agreed", BUCKET="agreed", RATE="6/s")
    os.unlink(os.path.join(kit.DIRECTORY, "agreed"))


def silence():
    for name, words in {"off": {"OFF": "1", "RATE": "5K/s"}, "only others": {"ONLY": "curl", "BUCKET": "missing"},
                        "skipped": {"SKIP": "x,true", "BUCKET": "missing"}, "no rule": {}}.items():
        done = kit.run(["true"], **words)
        kit.check(done.returncode == 0 and done.stderr == "", "silent when " + name, done.stderr)
    done = kit.run([sys.executable, "-c", WRITER], VERBOSE="1", RATE="2MB/s", ONLY=os.path.basename(sys.executable))
    lines = done.stderr.splitlines()
    kit.check(len(lines) == 2 and "2 MB/s" in lines[0] and "100 B" in lines[1], "verbose: two lines", done.stderr)


def neighbours():
    other = compiled("other.so", OTHER, "-shared", "-fPIC")
    if other is None:
        print("skipped other preloaded libraries: no compiler")
        return
    for order in (f"{kit.PRELOAD}:{other}", f"{other}:{kit.PRELOAD}"):
        done = kit.run([sys.executable, "-c", WRITER], preload=order, VERBOSE="1", **LIMIT)
        kit.check(done.returncode == 0 and "other\n" in done.stderr and " 100 B" in done.stderr,
                  "both see the call, in the order " + order.replace(kit.DIRECTORY, ""), repr(done.stderr))


def descriptors():
    done = kit.run(["sh", "-c", SELF_EXEC, SELF_EXEC, "100"], **LIMIT)
    counts = done.stdout.split()
    kit.check(len(counts) == 2 and counts[0] == counts[1], "no descriptor leaks over 100 executions", repr(done))


def exports():
    if shutil.which("nm") is None:
        print("skipped exports: nm is not installed")
        return
    names = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", kit.PRELOAD], text=True,
                           stdout=subprocess.PIPE, check=True).stdout
    found = sorted(line.split()[0] for line in names.splitlines())
    with open(os.path.join(kit.SOURCE, "tests/contract/exports-preload.txt"), encoding="ascii") as f:
        wanted = sorted(f.read().split())
    kit.check(found == wanted, "exports the wrapped names only", " ".join(sorted(set(found) ^ set(wanted))))


def guests():
    """Programs that start in unusual ways: jemalloc writes and locks early, redis drops its environment."""
    if shutil.which("redis-cli"):
        same_as_alone("redis-cli --version", ["redis-cli", "--version"])
    else:
        print("skipped redis-cli: not installed")
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(jemalloc):
        print("skipped jemalloc: not installed")
        return
    for order in (f"{kit.PRELOAD}:{jemalloc}", f"{jemalloc}:{kit.PRELOAD}"):
        done = kit.run([sys.executable, "-c", WRITER + "assert os.fork() or os.write(b.fileno(), b'y') == 1"],
                       preload=order, **LIMIT)
        kit.check(done.returncode == 0 and done.stderr == "", "with jemalloc", repr(done))


if not kit.PRELOAD:
    kit.skip("no preloaded library was built")
for part in (status_and_output, troubles, silence, neighbours, descriptors, exports, guests):
    part()
kit.finish()
