#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real programs download through the library: all of it, at the rate, by their own clocks."""
import functools
import hashlib
import http.server
import os
import shutil
import sys
import threading
import time

import kit

SIZE, RATE, BURST = 2_000_000, 2_000_000, 100_000
LIMIT = {"CALLS": "down", "RATE": "2MB/s", "BURST": "100kB"}
LAST = 300_000  # the most that the last read may bring without anybody waiting for it
LOW, HIGH = 0.96, 1.02
TRIES = 3
FILE = os.path.join(kit.DIRECTORY, "download")
URL = ""

HTTP_CLIENT = """
import hashlib, http.client
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]))
connection.request("GET", "/download")
response = connection.getresponse()
start = time.monotonic()
data = response.read()
took = time.monotonic() - start
answer([hashlib.sha256(data).hexdigest(), took])
"""

ASYNCIO = """
import asyncio, hashlib
async def get():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PORT"]))
    writer.write(b"GET /download HTTP/1.0\\r\\n\\r\\n")
    await reader.readuntil(b"\\r\\n\\r\\n")
    start = time.monotonic()
    data = await reader.read()
    took = time.monotonic() - start
    writer.close()
    return hashlib.sha256(data).hexdigest(), took
answer(asyncio.run(get()))
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def digest():
    with open(FILE, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def by_python(script):
    return lambda: kit.answer_of(script, **LIMIT)


def by_command(*command, clock=None):
    """A command that writes the file beside the original; `clock` finds the seconds in its output."""
    def download():
        start = time.monotonic()
        done = kit.run([word.format(url=URL, to=FILE + ".copy") for word in command], **LIMIT)
        took = clock(done.stdout) if clock else time.monotonic() - start
        if done.returncode != 0 or done.stderr:
            return [done.stderr, took]
        with open(FILE + ".copy", "rb") as f:
            return [hashlib.sha256(f.read()).hexdigest(), took]
    return download


def check_rate(what, download, low=LOW):
    """Whole each time, never too fast, and once as fast as it may be."""
    seen = []
    for _ in range(TRIES):
        found, took = download() or (None, 1)
        if found != digest():
            kit.check(False, what, f"something else arrived: {found}")
            return
        slowest, fastest = (SIZE - BURST - LAST) / took / RATE, (SIZE - BURST) / took / RATE
        seen.append(fastest)
        if slowest > HIGH or fastest >= low:
            break
    kit.check(slowest <= HIGH and seen[-1] >= low, what, "rate seen: " + ", ".join(f"{s:.3f}" for s in seen))


def main():
    global URL
    with open(FILE, "wb") as f:
        f.write(os.urandom(SIZE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=kit.DIRECTORY))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["PORT"] = str(server.server_address[1])
    URL = f"http://127.0.0.1:{os.environ['PORT']}/download"
    check_rate("python http.client", by_python(HTTP_CLIENT))
    check_rate("python asyncio", by_python(ASYNCIO))
    if shutil.which("curl"):
        check_rate("curl", by_command("curl", "-sS", "-o", "{to}", "-w", "%{{time_total}}", "{url}", clock=float))
    if shutil.which("wget"):
        check_rate("wget", by_command("wget", "-q", "-O", "{to}", "{url}"), low=0.9)  # it has to start, too
    server.shutdown()
    kit.finish()


if not kit.PRELOAD:
    kit.skip("no preloaded library was built")
main()
