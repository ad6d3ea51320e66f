#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real programs upload through the library; the rate is what the other end sees."""
import os
import shutil
import subprocess
import sys

import kit

SIZE = 6_000_000
RATE, BURST = "2MB/s", "100kB"
LOW, HIGH = 0.96, 1.03
TRIES = 3
FILE = os.path.join(kit.DIRECTORY, "upload")

HTTP_CLIENT = """
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
c.request("PUT", "/", open(sys.argv[2], "rb").read())
assert c.getresponse().status == 200
"""

ASYNCIO = """
import asyncio, sys
async def main():
    data = open(sys.argv[2], "rb").read()
    r, w = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    w.write(b"PUT / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(data) + data)
    await w.drain()
    assert b" 200 " in await r.readline()
    w.close()
asyncio.run(main())
"""


def rate_of(start):
    """start(sink) limits and runs something to its end and says whether it ended well."""
    sink = kit.Sink()
    well = start(sink)
    summary = sink.summary()
    return well and summary["rate"], summary


def check_rate(what, start, total):
    seen = []
    for _ in range(TRIES):
        rate, summary = rate_of(start)
        if not rate or summary["bytes"] != total:
            kit.check(False, what, f"ended badly: {summary}")
            return
        seen.append(rate / 2e6)
        if LOW <= seen[-1] <= HIGH:
            break
    kit.check(LOW <= seen[-1] <= HIGH, what, "rate seen: " + ", ".join(f"{s:.3f}" for s in seen))


def alone(command):
    def start(sink):
        words = [w.format(url=sink.url, port=sink.port, file=FILE) for w in command]
        done = kit.run(words, RATE=RATE, BURST=BURST)
        if done.returncode != 0 or done.stderr:
            print(done.returncode, done.stderr, file=sys.stderr)
        return done.returncode == 0
    return start


def four_together(sink):
    """A quarter of the file each, one bucket by name, made by whoever comes first."""
    part = FILE + ".part"
    with open(part, "wb") as f:
        f.truncate(SIZE // 4)
    env = kit.environment(BUCKET="together", RATE=RATE, BURST=BURST)
    children = [subprocess.Popen([sys.executable, "-c", HTTP_CLIENT, str(sink.port), part], env=env)
                for _ in range(4)]
    well = all([child.wait(60) == 0 for child in children])
    os.unlink(os.path.join(kit.DIRECTORY, "together"))
    return well


def shell_under_run(sink):
    """Two children of one shell share the run's bucket."""
    half = FILE + ".half"
    with open(half, "wb") as f:
        f.truncate(SIZE // 2)
    one = f"curl -sS -o /dev/null -T {half} {sink.url}"
    done = subprocess.run([kit.TUNDISH, "run", "--rate", RATE, "--burst", BURST, "--", "sh", "-c",
                           f"{one} & {one} & wait"], env=kit.environment(preload=""), timeout=60, check=False)
    return done.returncode == 0


def main():
    with open(FILE, "wb") as f:
        f.truncate(SIZE)
    python = [sys.executable, "-c"]
    commands = {
        "curl": ["curl", "-sS", "-o", "/dev/null", "-T", "{file}", "{url}"],
        "wget": ["wget", "-q", "-O", "/dev/null", "--post-file={file}", "{url}"],
        "python http.client": [*python, HTTP_CLIENT, "{port}", "{file}"],
        "python asyncio": [*python, ASYNCIO, "{port}", "{file}"],
    }
    only = sys.argv[1:]
    for name, command in commands.items():
        if only and name.split()[-1] not in only:
            continue
        if shutil.which(command[0]) is None:
            print("skipped", name, "is not installed")
            continue
        # format() must not see the braces of a script: none has any
        check_rate(name, alone(command), SIZE)
    if not only or "together" in only:
        check_rate("four processes on one bucket", four_together, SIZE)
    if (not only or "run" in only) and kit.TUNDISH and shutil.which("curl"):
        check_rate("children of a shell under one run", shell_under_run, SIZE)
    kit.finish()


main()
