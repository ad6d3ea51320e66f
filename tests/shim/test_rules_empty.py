#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a call is told when the bucket is empty, for every kind of call and of descriptor."""
import sys

import kit

SMALL = {"RATE": "10B/d", "BURST": "10"}


REFUSED = """
data = b"x" * 10
file = os.memfd_create("file")
os.ftruncate(file, 10)
inlet, outlet = os.pipe()
def fill():
    os.write(outlet, data)
def kinds(ours, fd, datagrams, to):
    return {"write": lambda: os.write(fd, data), "writev": lambda: os.writev(fd, [data]),
            "send": lambda: ours.send(data), "sendto": lambda: datagrams.sendto(data, to),
            "sendmsg": lambda: ours.sendmsg([data]), "sendfile": lambda: os.sendfile(fd, file, 0, 10),
            "splice": lambda: (fill(), os.splice(inlet, fd, 10)), "connected datagram": lambda: datagrams.send(data)}
def refused(name, blocking):
    ours, peer = pair()
    there = receiver()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if name == "connected datagram":
        datagrams.connect(there.getsockname())
    ours.setblocking(blocking)
    datagrams.setblocking(blocking)
    call = kinds(ours, ours.fileno(), datagrams, there.getsockname())[name]
    first = named(call)
    start = time.monotonic()
    return first or named(call) if time.monotonic() - start < 2 else "late"
names = ["write", "writev", "send", "sendto", "sendmsg", "sendfile", "connected datagram"]
if hasattr(os, "splice"):
    names.append("splice")
answer({name + way: apart(refused, name, not way) for name in names for way in ("", ", non-blocking")})
"""


def refused_calls():
    for manner, error in (("refuse", "EAGAIN"), ("refuse:ENOBUFS", "ENOBUFS"), ("refuse:EACCES", "EACCES")):
        found = kit.answer_of(REFUSED, WHEN_EMPTY=manner, **SMALL)
        wrong = {name: e for name, e in found.items() if e != error}
        kit.check(not wrong, f"{manner}: every call is {error} at once", str(wrong))


CONNECTS = """
def knock(kind):
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | kind)
    return named(sock.connect, listener.getsockname())
def twice(kind):
    return [knock(kind), knock(kind)]
answer([apart(twice, 0), apart(twice, socket.SOCK_NONBLOCK)])
"""


def refused_connects():
    for manner, error in (("refuse", "ECONNREFUSED"), ("refuse:EAGAIN", "ECONNREFUSED"),
                          ("refuse:ETIMEDOUT", "ETIMEDOUT")):
        found = kit.answer_of(CONNECTS, WHEN_EMPTY=manner, RATE="1/d", BURST="1")
        kit.check(found == [["", error], ["EINPROGRESS", error]], f"{manner}: a connect is {error}", str(found))


DESCRIPTORS = """
import pty
data = b"x" * 10
def two(fd):
    return [named(os.write, fd, data), named(os.write, fd, data)]
local, there = socket.socketpair()
seqpacket, there2 = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours, peer = pair()
answer({"pipe": apart(two, os.pipe()[1]), "file": apart(two, os.open(os.environ["TUNDISH_DIR"] + "/file", os.O_RDWR | os.O_CREAT)),
        "tty": apart(two, pty.openpty()[1]), "unix": apart(two, local.fileno()),
        "unix records": apart(two, seqpacket.fileno()), "socket": apart(two, ours.fileno()),
        "eventfd": apart(lambda: named(lambda: [os.eventfd_write(os.eventfd(0), 1) for i in range(20)]))
                   if hasattr(os, "eventfd") else ""})
"""


def refused_descriptors():
    for dest in ("pipe", "file", "tty", "unix", "inet"):
        found = kit.answer_of(DESCRIPTORS, WHEN_EMPTY="refuse:ENOBUFS", DEST=dest, **SMALL)
        limited = {"inet": ["socket"], "unix": ["unix", "unix records"]}.get(dest, [dest])
        wrong = {kind: e for kind, e in found.items()
                 if kind != "eventfd" and e != ["", "ENOBUFS" if kind in limited else ""]}
        kit.check(not wrong and found["eventfd"] == "", f"DEST={dest} holds these descriptors alone", str(found))


RECORDS = """
def pipe_of(n, size):
    inlet, outlet = os.pipe()
    reads = []
    took = 0
    for i in range(n):
        child = os.fork()
        if child == 0:
            os.write(outlet, b"x" * size)
            os._exit(0)
        reads.append(len(os.read(inlet, 65536)))
        os.waitpid(child, 0)
    return reads
def big():
    inlet, outlet = os.pipe()
    if os.fork() == 0:
        os.close(outlet)
        while os.read(inlet, 65536):
            pass
        os._exit(0)
    return [seconds(os.write, outlet, b"x" * 21000)]
def file():
    fd = os.open(os.environ["TUNDISH_DIR"] + "/file", os.O_RDWR | os.O_CREAT)
    took = seconds(os.write, fd, b"x" * 21000)
    return [took, os.fstat(fd).st_size]
def terminal():
    import pty
    master, slave = pty.openpty()
    return [os.write(slave, b"x" * 3000)]
answer({"pipe": apart(pipe_of, 3, 4096), "big": apart(big), "file": apart(file), "tty": apart(terminal)})
"""


def records_and_rates():
    found = kit.answer_of(RECORDS, DEST="pipe,file,tty,unix", RATE="100kB/s", BURST="1kB")
    kit.check(found["pipe"] == [4096] * 3, "what is written to a pipe in one piece is read in one", str(found["pipe"]))
    kit.check(0.19 <= found["big"][0] < 5, "a pipe at a rate", str(found["big"]))
    kit.check(0.19 <= found["file"][0] < 5 and found["file"][1] == 21000, "a file at a rate", str(found["file"]))
    kit.check(found["tty"] == [3000], "a terminal gets all", str(found["tty"]))


DROPPED = """
there = receiver()
send = datagram(*there.getsockname())
took = seconds(lambda: [send(b"%050d" % i) for i in range(20)])
came = []
while not named(lambda: came.append(int(there.recv(100)))):
    pass
ours, peer = pair()
answer([took, came, seconds(ours.send, b"x" * 500)])
"""


def dropped():
    took, came, stream = kit.answer_of(DROPPED, WHEN_EMPTY="drop", RATE="1kB/s", BURST="200")
    kit.check(4 <= len(came) < 20 and came[:4] == [0, 1, 2, 3] and took < 0.5, "datagrams are lost and nobody waits",
              f"{took:.3f} {came}")
    kit.check(0.25 < stream < 5, "a stream waits", f"{stream:.3f}")
    done = kit.run([sys.executable, "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                    "for i in range(5): s.sendto(b'x' * 5, ('127.0.0.1', 9))"], WHEN_EMPTY="drop", VERBOSE="1", **SMALL)
    kit.check("dropped 3" in done.stderr, "and the line at the end says how many", done.stderr)


def observed():
    script = "import socket, time\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nt = time.monotonic()\n" \
             "for i in range(5): a.send(b'x' * 1000); b.recv(2000)\nassert time.monotonic() - t < 5"
    done = kit.run([sys.executable, "-c", script], WHEN_EMPTY="observe", DEST="unix", VERBOSE="1",
                   RATE="1B/d", BURST="2000")
    kit.check(done.returncode == 0 and " 5 calls" in done.stderr and " 5 kB" in done.stderr
              and "would have held 3" in done.stderr, "a dry run counts and does not hold", done.stderr)
    found = kit.answer_of("ours, peer = pair()\nanswer([named(ours.send, b'x' * n) for n in (1000, 400, 400, 400)])",
                  WHEN_EMPTY="observe", RATE="1B/d", BURST="100", **{
                      "2_RATE": "1kB/d", "2_BURST": "1800", "2_WHEN_EMPTY": "refuse:ENOBUFS"})
    kit.check(found == ["", "", "", "ENOBUFS"], "beside a rule that does", str(found))


LATE = """
import select
ours, peer = pair()
ours.send(b"x" * 10)
start = time.monotonic()
error = named(ours.send, b"x")
blocking = [error, time.monotonic() - start]
ours.setblocking(False)
select.select([], [ours], [], 0)
start = time.monotonic()
while (error := named(ours.send, b"x")) == "EAGAIN" and time.monotonic() - start < 0.5:
    select.select([], [ours], [], 5)
answer([blocking, [error, time.monotonic() - start]])
"""


def longest_wait():
    found = kit.answer_of(LATE, MAX_WAIT="200ms", WHEN_EMPTY="refuse:ETIMEDOUT", **SMALL)
    kit.check([e for e, _ in found] == ["ETIMEDOUT"] * 2, "refused does not wait at all", str(found))
    found = kit.answer_of(LATE, MAX_WAIT="200ms", **SMALL)
    kit.check(found[0][0] == "EAGAIN" and 0.19 < found[0][1] < 3, "no longer than MAX_WAIT", str(found[0]))
    kit.check(found[1][0] == "EAGAIN" and found[1][1] < 3, "an event loop hears of it again and again", str(found[1]))
    found = kit.answer_of(CONNECTS, MAX_WAIT="200ms", RATE="1/d", BURST="1")
    kit.check(found == [["", "ECONNREFUSED"], ["EINPROGRESS", "ECONNREFUSED"]], "a connect neither", str(found))


EDGES = """
import select
ours, peer = pair()
ours.setblocking(False)
loop = select.epoll()
loop.register(ours, select.EPOLLOUT | select.EPOLLET)
sent = 0
while sent < 3:
    if not named(lambda: ours.send(b"x" * 5)):
        sent += 1
    elif not loop.poll(5):
        break
answer(sent)
"""


def longest_wait_of_an_edge_triggered_loop():
    found = kit.answer_of(EDGES, MAX_WAIT="100ms", RATE="2B/s", BURST="5")
    kit.check(found == 3, "after the longest wait an event is owed again", str(found))


BROKEN = """
import tempfile
listener = socket.socket()
listener.bind((LOCAL, 0))
local, there = socket.socketpair()
with tempfile.TemporaryFile() as f:
    file = named(os.write, f.fileno(), b"x")
answer([named(socket.socket().connect, (LOCAL, 9)), named(datagram(LOCAL, 9), b"x"), named(local.send, b"x"), file])
"""


def what_cannot_be_obeyed():
    for name, words in {"no such bucket": {"BUCKET": "missing"}, "a second rule": {"RATE": "1MB/s", "2_BUCKET": "missing"},
                        "a bad word": {"RATE": "fast"}, "a bad second word": {"RATE": "1MB/s", "2_RATE": "1MB/s", "2_DEST": "x"},
                        }.items():
        failing, passing = kit.answer_of(BROKEN, ON_ERROR="fail", **words), kit.answer_of(BROKEN, **words)
        kit.check(failing == ["EACCES", "EACCES", "", ""], name + ": calls fail", str(failing))
        kit.check(passing == ["ECONNREFUSED", "", "", ""], name + ": calls pass", str(passing))


if not kit.PRELOAD:
    kit.skip("no preloaded library was built")
for part in (refused_calls, refused_connects, refused_descriptors, records_and_rates, dropped, observed, longest_wait,
             longest_wait_of_an_edge_triggered_loop, what_cannot_be_obeyed):
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        part()
kit.finish()
