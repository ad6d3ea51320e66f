#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis answers with one big value, limited, while others on the same event loop are served; its clients
send. It clears its environment, and its allocator is jemalloc."""
import socket
import statistics
import threading
import time

import kit

PING_LATER_MAX = 0.002 if kit.STRICT else 0.010  # than without the library
WITHOUT = {}  # what a ping takes then, by the name of the case


def serve(t, limited=True):
    """A redis with the value "big"; its port."""
    port = kit.free_port()
    t.serve(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", t.directory, "--unixsocket", t.path("socket"), "--daemonize", "no",
             "--loglevel", "warning"], port, limited)
    with socket.create_connection(("127.0.0.1", port), timeout=t.left()) as sock:
        sock.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n%s\r\n" % (t.size, t.content))
        if sock.recv(100) != b"+OK\r\n":
            raise kit.Wrong("SET was not answered")
    return port


def get(t, port):
    head = b"$%d\r\n" % t.size
    answer = t.pull(port, b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n", len(head) + t.size + 2)
    t.same(answer[len(head):-2])


def ping_during_get(t, family, address):
    """How long pings take while the big value is under way."""
    port = serve(t)
    getting = threading.Thread(target=get, args=(t, port))
    times = []
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(t.left())
        sock.connect(address(port))
        getting.start()
        while getting.is_alive():
            time.sleep(0.003)
            begin = time.monotonic()
            sock.sendall(b"PING\r\n")
            if sock.recv(100) != b"+PONG\r\n":
                raise kit.Wrong("no pong")
            times.append(time.monotonic() - begin)
    getting.join()
    times.sort()
    p99 = times[len(times) * 99 // 100]
    t.note(f"{len(times)} pings: p50 {1e3 * statistics.median(times):.2f} ms, p99 {1e3 * p99:.2f} ms, "
           f"worst {1e3 * times[-1]:.1f} ms")
    if not t.is_limited:
        WITHOUT[t.case.name] = p99
    t.in_time(p99 <= WITHOUT.get(t.case.name, 0) + PING_LATER_MAX)


@kit.case("redis-server")
def redis_answers_a_big_get(t):
    get(t, serve(t))


@kit.case("redis-server", "redis-cli")
def redis_cli_takes_a_big_get_from_a_limited_server(t):
    port = t.relay(serve(t), "down")
    t.same(t.help(["redis-cli", "-p", port, "get", "big"])[:-1])


@kit.case("redis-server", rate=1_000_000)
def redis_answers_pings_by_a_local_socket_during_a_big_get(t):
    ping_during_get(t, socket.AF_UNIX, lambda port: t.path("socket"))


@kit.case("redis-server", rate=1_000_000)
def redis_answers_pings_by_network_during_a_big_get(t):
    ping_during_get(t, socket.AF_INET, lambda port: ("127.0.0.1", port))


@kit.case("redis-server", "redis-cli")
def redis_cli_sends_a_big_value(t):
    real = serve(t, limited=False)
    port = t.relay(real)
    with open(t.file, "rb") as value:
        t.run(["redis-cli", "-p", port, "-x", "set", "sent"], stdin=value)
    t.same(t.help(["redis-cli", "-p", real, "get", "sent"])[:-1])


@kit.case("redis-server", "redis-benchmark")
def redis_benchmark_sends_from_five_clients(t):
    port = t.relay(serve(t, limited=False))
    requests = t.size // 10_000
    out = t.run(["redis-benchmark", "-p", port, "-t", "set", "-d", "10000", "-n", requests, "-c", "5",
                 "--csv"])
    if b'"SET"' not in out or t.meter.total < requests * 10_000:
        raise kit.Wrong(f"{t.meter.total} bytes, {out}")


kit.main()
