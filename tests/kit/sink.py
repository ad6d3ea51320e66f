#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A place to upload to, which measures how fast the bytes came.

HTTP/1.1 on 127.0.0.1 (PUT and POST, Content-Length or chunked, Expect: 100-continue, keep-alive, any number
of connections at once), or with --raw plain TCP, where an upload is all that a connection sends until it ends.
Both inside TLS with --tls and a file of certificate and key; --sha256 says each body's digest as well.

The first line on stdout is the port. Then one line of JSON for each upload: bytes, seconds (first to last
body byte), rate (bytes per second), start and end (CLOCK_MONOTONIC, seconds), client (the peer's port).
The last line, on SIGTERM or SIGINT, after --requests uploads, after --idle-timeout seconds without a byte or
after --lifetime seconds, is the sum: {"summary": true, "uploads": ..., "bytes": ..., "seconds": (first byte
of the first to last byte of the last), "rate": ..., "start": ..., "end": ..., "why": ...}.
"""
import argparse
import hashlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time

PIECE = 64 * 1024
LINE_MAX = 64 * 1024


class Closed(Exception):
    """The peer went away, or spoke something that is not HTTP."""


class Tally:
    """What all connections report to; the one writer of stdout."""

    def __init__(self, limit):
        self.lock = threading.Lock()
        self.limit = limit
        self.uploads = self.bytes = 0
        self.start = self.end = None
        self.touched = time.monotonic()
        self.why = None
        self.done = threading.Event()

    def finish(self, why):
        if not self.done.is_set():
            self.why = why
            self.done.set()

    def touch(self):
        self.touched = time.monotonic()

    def add(self, upload, client):
        with self.lock:
            if self.done.is_set():
                return
            self.uploads += 1
            self.bytes += upload.bytes
            if upload.start is not None:
                self.start = upload.start if self.start is None else min(self.start, upload.start)
                self.end = upload.end if self.end is None else max(self.end, upload.end)
            digest = {"sha256": upload.digest.hexdigest()} if upload.digest else {}
            say({**figures(upload.bytes, upload.start, upload.end), "client": client, **digest})
            if self.limit and self.uploads >= self.limit:
                self.finish("requests")

    def summary(self):
        with self.lock:
            say({"summary": True, "uploads": self.uploads, **figures(self.bytes, self.start, self.end),
                 "why": self.why})


class Upload:
    """The body of one request as it comes in."""

    def __init__(self, tally, options):
        self.tally = tally
        self.digest = hashlib.sha256() if options.sha256 else None
        self.bytes = 0
        self.start = self.end = None

    def took(self, piece):
        self.tally.touch()
        self.end = self.tally.touched
        if self.start is None:
            self.start = self.end
        self.bytes += len(piece)
        if self.digest:
            self.digest.update(piece)


def figures(count, start, end):
    seconds = end - start if start is not None else 0.0
    return {"bytes": count, "seconds": round(seconds, 6), "rate": round(count / seconds) if seconds else None,
            "start": start, "end": end}


def say(record):
    print(json.dumps(record), flush=True)


class Connection:
    """One HTTP connection: requests one after the other."""

    def __init__(self, sock, tally, options):
        self.sock = sock
        self.tally = tally
        self.options = options
        self.client = sock.getpeername()[1]
        self.buffer = bytearray()

    def fill(self):
        piece = self.sock.recv(PIECE)
        if not piece:
            raise Closed
        self.buffer += piece

    def line(self):
        while (end := self.buffer.find(b"\n")) < 0:
            if len(self.buffer) > LINE_MAX:
                raise Closed
            self.fill()
        text = self.buffer[:end].decode("latin-1").rstrip("\r")
        del self.buffer[:end + 1]
        return text

    def body(self, upload, length):
        while length:
            if not self.buffer:
                self.fill()
            count = min(length, len(self.buffer))
            upload.took(self.buffer[:count])
            del self.buffer[:count]
            length -= count

    def chunks(self, upload):
        while length := int(self.line().split(";")[0], 16):
            self.body(upload, length)
            self.line()
        while self.line():
            pass

    def headers(self):
        fields = {}
        while text := self.line():
            name, _, value = text.partition(":")
            fields[name.strip().lower()] = value.strip()
        return fields

    def request(self):
        """One request; False when it was the last."""
        method, _, version = self.line().split(" ", 2)
        fields = self.headers()
        if fields.get("expect", "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        upload = Upload(self.tally, self.options)
        if fields.get("transfer-encoding", "").lower() == "chunked":
            self.chunks(upload)
        else:
            self.body(upload, int(fields.get("content-length", 0)))
        last = fields.get("connection", "").lower() == "close" or version == "HTTP/1.0"
        answer = b"" if method == "HEAD" else b"thanks\n"
        self.sock.sendall(b"HTTP/1.1 %d Here\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%s\r\n%s" % (
            self.options.status, len(answer), b"Connection: close\r\n" if last else b"", answer))
        if method in ("PUT", "POST"):
            self.tally.add(upload, self.client)
        return not last

    def serve(self):
        while self.request():
            pass


def serve_http(sock, tally, options):
    Connection(sock, tally, options).serve()


def serve_raw(sock, tally, options):
    upload = Upload(tally, options)
    client = sock.getpeername()[1]
    try:
        while piece := sock.recv(PIECE):
            upload.took(piece)
    finally:
        tally.add(upload, client)


def serve(sock, tally, options):
    try:
        if options.tls:
            sock = options.tls.wrap_socket(sock, server_side=True)
        (serve_raw if options.raw else serve_http)(sock, tally, options)
    except (Closed, ValueError, OSError):
        pass
    finally:
        sock.close()


def accept(listener, tally, options):
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        tally.touch()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(sock, tally, options), daemon=True).start()


def wait(tally, options):
    """Until it is time to end; always ends."""
    born = time.monotonic()
    while not tally.done.wait(0.05):
        now = time.monotonic()
        if now - born >= options.lifetime:
            tally.finish("lifetime")
        elif options.idle_timeout and now - tally.touched >= options.idle_timeout:
            tally.finish("idle")


def tls(file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", action="store_true", help="plain TCP: count each connection until its end")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--requests", type=int, metavar="N", help="end after N uploads")
    parser.add_argument("--idle-timeout", type=float, metavar="S", help="end after S seconds without a byte")
    parser.add_argument("--lifetime", type=float, default=120, metavar="S", help="end after S seconds (120)")
    parser.add_argument("--rcvbuf", type=int, metavar="BYTES", help="SO_RCVBUF of the connections")
    parser.add_argument("--status", type=int, default=200, metavar="CODE", help="HTTP status to answer (200)")
    parser.add_argument("--tls", type=tls, metavar="FILE", help="inside TLS; FILE has certificate and key")
    parser.add_argument("--sha256", action="store_true", help="say the digest of each body")
    return parser.parse_args()


def main():
    options = parse()
    tally = Tally(options.requests)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: tally.finish("signal"))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if options.rcvbuf:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.rcvbuf)
    listener.bind(("127.0.0.1", options.port))
    listener.listen(512)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener, tally, options), daemon=True).start()
    wait(tally, options)
    tally.summary()
    sys.stdout.flush()
    os._exit(0)  # threads may still be in recv; nobody waits for them


if __name__ == "__main__":
    main()
