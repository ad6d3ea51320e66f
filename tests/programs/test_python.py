#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python uploads: http.client, sendfile, asyncio and TLS; from threads, and from forked children in turn."""
import kit

HTTP_CLIENT = """
import http.client, sys
c = http.client.HTTPConnection("localhost", int(sys.argv[1]))
c.request("PUT", "/", open(sys.argv[2], "rb"))
assert c.getresponse().status == 200
"""

HTTPS_CLIENT = """
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[3])
c = http.client.HTTPSConnection("localhost", int(sys.argv[1]), context=context)
c.request("PUT", "/", open(sys.argv[2], "rb").read())
assert c.getresponse().status == 200
"""

SENDFILE = """
import socket, sys
with socket.create_connection(("localhost", int(sys.argv[1]))) as s, open(sys.argv[2], "rb") as f:
    s.sendfile(f)
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b""
"""

ASYNCIO = """
import asyncio, sys
async def main():
    data = open(sys.argv[2], "rb").read()
    r, w = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    w.write(b"PUT / HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(data) + data)
    await w.drain()
    assert b" 200 " in await r.readline()
    w.close()
asyncio.run(main())
"""

ASYNCIO_SENDFILE = """
import asyncio, sys
async def main():
    r, w = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    with open(sys.argv[2], "rb") as f:
        await asyncio.get_running_loop().sendfile(w.transport, f)
    w.write_eof()
    assert await r.read(1) == b""
    w.close()
asyncio.run(main())
"""

# an echo server's way: a big write, and others that must be served at the same time by the same loop
ASYNCIO_MANY = """
import asyncio, sys
async def one(data):
    r, w = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    for i in range(0, len(data), 5000):
        w.write(data[i:i + 5000])
        await w.drain()
    w.write_eof()
    assert await r.read(1) == b""
    w.close()
async def main():
    data = open(sys.argv[2], "rb").read()
    await asyncio.gather(*(one(data) for _ in range(10)))
asyncio.run(main())
"""

THREADS = """
import socket, sys, threading
data = open(sys.argv[2], "rb").read()
def one():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
threads = [threading.Thread(target=one) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""

# four children write one after the other to the one socket that they have inherited
FORKED = """
import os, socket, sys
data = open(sys.argv[2], "rb").read()
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
turns = [os.pipe() for _ in range(5)]
piece = 20000
for n in range(4):
    if os.fork() == 0:
        while os.read(turns[n][0], 1) == b".":
            at = int.from_bytes(os.read(turns[n][0], 8), "big")
            s.sendall(data[at:at + piece])
            os.write(turns[4][1], b".")
        os._exit(0)
for i, at in enumerate(range(0, len(data), piece)):
    os.write(turns[i % 4][1], b"." + at.to_bytes(8, "big"))
    os.read(turns[4][0], 1)
for n in range(4):
    os.write(turns[n][1], b"x")
assert all(os.wait()[1] == 0 for _ in range(4))
"""


DOWNLOAD = """
import sys, urllib.request
for url in sys.argv[1:]:
    sys.stdout.buffer.write(urllib.request.urlopen(url).read())
"""


def upload(t, script, *arguments, sink=(), uploads=1):
    sink = t.sink(*sink, uploads=uploads)
    t.run([kit.PYTHON, "-c", script, sink.port, t.file, *arguments])
    t.arrived(sink)


@kit.case()
def python_uploads_by_http(t):
    upload(t, HTTP_CLIENT)


@kit.case("openssl")
def python_uploads_by_https(t):
    upload(t, HTTPS_CLIENT, t.pem() + ".crt", sink=("--tls", t.pem()))


@kit.case()
def python_uploads_by_sendfile(t):
    upload(t, SENDFILE, sink=["--raw"])


@kit.case()
def python_uploads_by_asyncio(t):
    upload(t, ASYNCIO)


@kit.case()
def python_uploads_by_asyncio_sendfile(t):
    upload(t, ASYNCIO_SENDFILE, sink=["--raw"])


@kit.case(size=300_000)
def python_uploads_ten_at_once_by_asyncio(t):
    t.meter.expect(10 * t.size)
    upload(t, ASYNCIO_MANY, sink=["--raw"], uploads=10)


@kit.case(size=750_000)
def python_uploads_from_four_threads(t):
    t.meter.expect(4 * t.size)
    upload(t, THREADS, sink=["--raw"], uploads=4)


@kit.case()
def python_uploads_from_forked_children_by_one_socket(t):
    upload(t, FORKED, sink=["--raw"])


@kit.case(CALLS="down")
def python_takes_what_it_reads(t):
    urls = t.parts()
    t.same(t.run([kit.PYTHON, "-c", DOWNLOAD, *urls]))


kit.main()
