# SPDX-License-Identifier: MIT
"""What the limited programs of test_rules*.py begin with: peers on loopback, and an answer.

Answers go through mapped memory, which no rule is for, not through pipes, which one may be for.
"""
import errno
import json
import mmap
import os
import socket
import time

LOCAL = "127.0.0.1"
ANSWER = int(os.environ["RULES_ANSWER"])  # a descriptor


def pair(host=LOCAL, port=0, family=socket.AF_INET):
    """A connected pair of TCP sockets; the first is ours."""
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen()
    ours = socket.socket(family)
    ours.connect(listener.getsockname())
    return ours, listener.accept()[0]


def receiver(host=LOCAL, family=socket.AF_INET):
    """A UDP socket that somebody may send to."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind((host, 0))
    sock.setblocking(False)
    return sock


def datagram(host, port, family=socket.AF_INET):
    """sendto of an unconnected socket, as a function of what is to be sent."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    return lambda data: sock.sendto(data, (host, port))


def named(call, *arguments):
    """The name of the error, "" if there is none."""
    try:
        call(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def room(send, most=20):
    """How many times 100 bytes go before it is refused."""
    for n in range(most):
        if named(send, b"x" * 100):
            return n
    return most


def apart(function, *arguments):
    """function's result in a forked child, where every quota is a new one; None if it ended badly."""
    with mmap.mmap(-1, 65536) as page:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                put(page, function(*arguments))
                status = 0
            finally:
                os._exit(status)
        return get(page) if os.waitpid(child, 0)[1] == 0 else None


def seconds(call, *arguments):
    start = time.monotonic()
    call(*arguments)
    return time.monotonic() - start


def put(page, value):
    text = json.dumps(value).encode()
    page[:len(text) + 1] = text + b"\0"


def get(page):
    return json.loads(page[:page.find(b"\0")])


def answer(value):
    with mmap.mmap(ANSWER, 65536) as page:
        put(page, value)
