#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nginx serves a file, limited: by sendfile, by writev, from threads, to one and to fifty at once. Its
sockets do not block and its epoll is edge-triggered: who answers EAGAIN owes an event."""
import hashlib
import selectors
import socket
import time

import kit

CONFIGURATION = """
daemon off; master_process on; worker_processes 1; pid {directory}/pid; error_log stderr error; {user}
events {{ worker_connections 256; }}
http {{
    access_log off;
    {how}
    client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
    uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
    server {{ listen 127.0.0.1:{port}; root {directory}; }}
}}
"""
REQUEST = b"GET /upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CROWD = 50
CROWD_SPREAD = 1.2  # 99th percentile of the times of fifty equal downloads by their median


def serve(t, how):
    """A limited nginx; its port."""
    port = kit.free_port()
    with open(t.path("nginx.conf"), "w", encoding="ascii") as f:
        f.write(CONFIGURATION.format(directory=t.directory, port=port, how=how,
                                     user="user root;" if kit.is_root() else ""))
    t.serve(["nginx", "-e", "stderr", "-p", t.directory, "-c", t.path("nginx.conf")], port, limited=True)
    return port


def download(t, how):
    head, _, body = t.pull(serve(t, how), REQUEST).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise kit.Wrong(head.decode())
    t.same(body)


@kit.case("nginx")
def nginx_serves_by_sendfile(t):
    download(t, "sendfile on; tcp_nopush on;")


@kit.case("nginx")
def nginx_serves_by_writev(t):
    download(t, "sendfile off; output_buffers 2 256k;")


@kit.case("nginx")
def nginx_serves_from_threads(t):
    download(t, "aio threads; sendfile off; output_buffers 2 256k;")


@kit.case("nginx")
def nginx_serves_by_sendfile_from_threads(t):
    download(t, "aio threads; sendfile on;")


def serve_crowd(t, how):
    port = serve(t, how)
    t.meter.expect(CROWD * t.size)
    born = time.monotonic()
    hashes, heads, times = {}, {}, []
    with selectors.DefaultSelector() as selector:
        for _ in range(CROWD):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(REQUEST)
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
            heads[sock], hashes[sock] = b"", hashlib.sha256()
        while heads:
            events = selector.select(t.left())
            if not events:
                raise TimeoutError(f"{len(heads)} of {CROWD} downloads still wait")
            for key, _ in events:
                sock = key.fileobj
                piece = sock.recv(1 << 18)
                t.meter.add(len(piece))
                if not piece:
                    times.append(time.monotonic() - born)
                    if hashes.pop(sock).hexdigest() != t.digest:
                        raise kit.Wrong("one of fifty got something else")
                    del heads[sock]
                    selector.unregister(sock)
                    sock.close()
                elif heads[sock] is None:
                    hashes[sock].update(piece)
                else:
                    head, end, body = (heads[sock] + piece).partition(b"\r\n\r\n")
                    heads[sock] = None if end else head
                    hashes[sock].update(body)
    times.sort()
    spread = times[int(CROWD * 0.99)] / times[CROWD // 2]
    t.note(f"p50 {times[CROWD // 2]:.2f} s, p99 / p50 {spread:.2f}")
    t.in_time(spread <= CROWD_SPREAD)


@kit.case("nginx", size=110_000)
def nginx_serves_fifty_at_once(t):
    serve_crowd(t, "sendfile on;")


@kit.case("nginx", size=1_000_000, rate=20_000_000, burst=1_000_000)
def nginx_serves_fifty_at_once_fast_by_sendfile(t):
    serve_crowd(t, "sendfile on;")


@kit.case("nginx", size=1_000_000, rate=20_000_000, burst=1_000_000)
def nginx_serves_fifty_at_once_fast_by_writev(t):
    serve_crowd(t, "sendfile off; output_buffers 2 256k;")


kit.main()
