#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a rule is for: destinations, programs, calls; whose bucket it is; and several rules at once."""
import os
import socket
import subprocess
import sys

import kit

ME = os.path.basename(sys.executable)
SMALL = {"RATE": "1kB/d", "BURST": "1000", "WHEN_EMPTY": "refuse"}


def second(**words):
    return {"2_" + key: value for key, value in words.items()}


def left(name):
    """Tokens in a bucket; -1 if there is none. It is removed."""
    done = subprocess.run([kit.TUNDISH, "peek", name], env=kit.environment(preload=""), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        return -1
    os.unlink(os.path.join(kit.DIRECTORY, name))
    return int(done.stdout.split()[1])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


DESTINATIONS = """
port = int(os.environ["PORT"])
six = socket.AF_INET6
def stream(*where):
    ours, peer = pair(*where)
    return room(ours.send)
def local():
    ours, peer = socket.socketpair()
    return room(ours.send)
def to(host, family=socket.AF_INET):
    return room(datagram(host, receiver(host, family).getsockname()[1], family))
found = {"2": apart(stream, "127.0.0.2"), "3": apart(stream, "127.0.0.3"), "9": apart(stream, "127.0.0.9"),
         "udp 2": apart(to, "127.0.0.2"), "udp 9": apart(to, "127.0.0.9"), "unix": apart(local),
         "port": apart(stream, "127.0.0.9", port)}
if socket.has_ipv6 and not named(receiver, "::1", six):
    found.update({"::1": apart(stream, "::1", 0, six), "udp ::1": apart(to, "::1", six),
                  "::1 port": apart(stream, "::1", port, six), "mapped 2": apart(stream, "::ffff:127.0.0.2", 0, six),
                  "mapped 9": apart(stream, "::ffff:127.0.0.9", 0, six), "udp mapped 2": apart(to, "::ffff:127.0.0.2", six)})
answer(found)
"""


def destinations():
    twos = {"2", "udp 2", "mapped 2", "udp mapped 2"}
    threes, ones = {"3"}, {"::1", "udp ::1", "::1 port"}
    inet = twos | threes | ones | {"9", "udp 9", "port", "mapped 9"}
    port = str(free_port())
    for dest, limited in {"127.0.0.2": twos, "127.0.0.0/30": twos | threes, "::1": ones, "::/127": ones,
                          ":" + port: {"port", "::1 port"}, f"[::1]:{port}": {"::1 port"}, "unix": {"unix"},
                          f"127.0.0.9:{port},127.0.0.2": {"port"} | twos, "inet": inet, "unix,inet": inet | {"unix"}
                          }.items():
        os.environ["PORT"] = port
        found = kit.answer_of(DESTINATIONS, DEST=dest, **SMALL)
        wrong = {name: n for name, n in found.items() if n != (10 if name in limited else 20)}
        kit.check(not wrong, "only what leads to " + dest, str(wrong))


TWO_DESTINATIONS = """
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peers = [receiver("127.0.0.%d" % i) for i in (2, 3)]
sent = [room(lambda data: sock.sendto(data, peer.getsockname())) for peer in peers]
sent += [room(lambda data: sock.sendmsg([data], [], 0, peer.getsockname())) for peer in peers]
sock.connect(peers[1].getsockname())
sent.append(named(sock.send, b"x"))
sock.connect(("127.0.0.4", 9))
sent.append(named(sock.send, b"x"))
sock.connect(peers[0].getsockname())
sent.append(named(sock.send, b"x"))
answer(sent)
"""


def datagrams_of_one_socket():
    found = kit.answer_of(TWO_DESTINATIONS, DEST="127.0.0.2", **SMALL, **second(DEST="127.0.0.3", RATE="500B/d", BURST="500",
                                                                        WHEN_EMPTY="refuse"))
    kit.check(found == [10, 5, 0, 0, "EAGAIN", "", "EAGAIN"], "each datagram goes by its own address", str(found))


FALSE_ADDRESS = """
ours, peer = pair()
answer([room(lambda data: ours.sendto(data, ("127.0.0.9", 9)), 5),
        room(lambda data: ours.sendmsg([data], [], 0, ("127.0.0.9", 9)))])
"""


def address_that_the_kernel_ignores():
    found = kit.answer_of(FALSE_ADDRESS, DEST="127.0.0.1", **SMALL)
    kit.check(found == [5, 5], "a connected stream goes by its peer, whatever address a send comes with", str(found))


def programs():
    small = {"RATE": "1kB/d", "BURST": "1000"}
    words = {"BUCKET": "mine", "ONLY": "curl," + ME, **small, **second(BUCKET="other", ONLY="curl", **small)}
    words.update({"3_BUCKET": "skipped", "3_SKIP": ME, "4_BUCKET": "kept", "4_SKIP": "curl"})
    words.update({f"{n}_{key}": value for n in (3, 4) for key, value in small.items()})
    kit.answer_of("answer(pair()[0].send(b'x' * 100))", **words)
    found = [left(name) for name in ("mine", "other", "skipped", "kept")]
    kit.check(found == [900, -1, -1, 900], "ONLY and SKIP say which programs", str(found))


CALLS = """
data = b"x" * 10
def once(name, ours, datagrams, to):
    return {"write": lambda: os.write(ours.fileno(), data), "writev": lambda: os.writev(ours.fileno(), [data]),
            "send": lambda: ours.send(data), "sendto": lambda: datagrams.sendto(data, to),
            "sendmsg": lambda: ours.sendmsg([data]), "sendfile": lambda: os.sendfile(ours.fileno(), file, 0, 10)}[name]
file = os.memfd_create("file")
os.ftruncate(file, 10)
def limited(name):
    ours, peer = pair()
    there = receiver()
    call = once(name, ours, socket.socket(socket.AF_INET, socket.SOCK_DGRAM), there.getsockname())
    call()
    return named(call) == "EAGAIN"
names = ["write", "writev", "send", "sendto", "sendmsg", "sendfile"]
answer([name for name in names if apart(limited, name)])
"""


def calls():
    small = {"RATE": "10B/d", "BURST": "10", "WHEN_EMPTY": "refuse"}
    for rule in ("write", "writev", "send", "sendto", "sendmsg,sendfile", "up"):
        found = kit.answer_of(CALLS, CALLS=rule, **small)
        wanted = rule.split(",") if rule != "up" else ["write", "writev", "send", "sendto", "sendmsg", "sendfile"]
        kit.check(found == wanted, f"CALLS={rule} is for these alone", str(found))


def bytes_and_calls():
    found = kit.answer_of("ours, peer = pair()\nanswer([room(ours.send), room(ours.send)])", BUCKET="bytes", **SMALL,
                  **second(BUCKET="calls", RATE="3/d", BURST="3", CALLS="up", WHEN_EMPTY="refuse"))
    tokens = [left("bytes"), left("calls")]
    kit.check(found == [3, 0] and tokens == [700, 0], "bytes and calls: what one refuses costs the other nothing",
              f"{found} {tokens}")


SHARED = """
ours, peer = pair()
there = receiver()
send = datagram(*there.getsockname())
answer([seconds(ours.send, b"x" * 1500), seconds(send, b"x" * 900), sum(os.times()[:2])])
"""


def one_bucket_in_two_rules():
    words = {"RATE": "10kB/s", "BURST": "1000"}
    stream, record, cpu = kit.answer_of(SHARED, BUCKET="both", **words, **second(BUCKET="both", DEST="127.0.0.0/8", **words),
                                        **{"3_BUCKET": "both-%h", "3_COUNT": "bytes", "3_RATE": "1MB/s"})
    kit.check(0.04 < stream < 2 and 0.08 < record < 2 and cpu < 1, "one bucket in two rules is charged once",
              f"{stream:.3f} {record:.3f} {cpu:.3f}")
    left("both")
    left("both-127.0.0.1")
    small = {"RATE": "1kB/d", "BURST": "1000"}
    sent = kit.answer_of("answer(pair()[0].send(b'x' * 300))", BUCKET="both", WHEN_EMPTY="observe", **small,
                         **second(BUCKET="both", **small))
    tokens = left("both")
    kit.check(sent == 300 and tokens == 700, "a dry run of it too", str(tokens))


AT_RATES = """
ours, peer = pair()
if os.environ["LOOP"]:
    import selectors
    ours.setblocking(False)
    loop = selectors.DefaultSelector()
    loop.register(ours, selectors.EVENT_WRITE)
child = os.fork()
if child == 0:
    ours.close()
    while peer.recv(65536): pass
    os._exit(0)
start = time.monotonic()
sent = 0
while sent < 40000:
    if os.environ["LOOP"]:
        loop.select()
    try:
        sent += ours.send(b"x" * min(1000, 40000 - sent))
    except BlockingIOError:
        pass
answer(time.monotonic() - start)
"""


def bytes_and_calls_at_rates():
    """40 kB in 40 calls or more: the slower of two rates is the rate, however the program waits."""
    for loop in ("", "1"):
        os.environ["LOOP"] = loop
        for first, second_rate, least in (("100kB/s", "1000/s", 0.35), ("10MB/s", "100/s", 0.35)):
            took = kit.answer_of(AT_RATES, RATE=first, BURST="4kB", **second(RATE=second_rate, BURST="4", CALLS="up"))
            kit.check(least < took < 5, f"{first} and {second_rate}" + (" in a loop" if loop else ""), f"{took:.3f}")


BOTH_WAYS = """
ours, peer = pair()
os.write(ours.fileno(), b"x" * 300)
peer.recv(100)
ours.send(b"x")
answer([len(peer.recv(50, socket.MSG_PEEK)), named(peer.recv, 150), named(peer.recv, 10)])
"""


def up_and_down():
    found = kit.answer_of(BOTH_WAYS, BUCKET="up", CALLS="up", **SMALL,
                  **second(BUCKET="down", CALLS="down", RATE="200B/d", BURST="200", WHEN_EMPTY="refuse"))
    tokens = [left("up"), left("down")]
    kit.check(found == [50, "", "EAGAIN"] and tokens == [699, 0], "up and down have buckets of their own",
              f"{found} {tokens}")


KEYED = """
hosts = ["127.0.0.%d" % i for i in (2, 3, 2, 3)]
if os.environ.get("LOST"):
    os.chdir("/")
    os.environ.clear()
sent = [room(datagram(host, 5000 + i % 2)) for i, host in enumerate(hosts)]
ours, peer = pair("127.0.0.2", 0)
answer([*sent, room(ours.send, 3), os.getpid(), peer.getsockname()[1]])
"""


def keyed():
    user = str(os.getuid())
    for name, sent, wanted in (("host-%h", [10, 10, 0, 0, 0], ["host-127.0.0.2", "host-127.0.0.3"]),
                               ("port-%P", [10, 10, 0, 0, 3], ["port-5000", "port-5001", "port-{port}"]),
                               ("%h:%P", [10, 10, 0, 0, 3], ["127.0.0.2:5000", "127.0.0.2:{port}", "127.0.0.3:5001"]),
                               ("%n-%u-%p", [10, 0, 0, 0, 0], [f"{ME}-{user}-" + "{pid}"]),
                               ("%n-%u-%h-%p", [10, 10, 0, 0, 0],
                                [f"{ME}-{user}-127.0.0.{i}-" + "{pid}" for i in (2, 3)])):
        for lost in ("", "1") if "h" in name else ("",):
            os.environ["LOST"] = lost
            *found, pid, port = kit.answer_of(KEYED, BUCKET=name, **SMALL)
            files = sorted(os.listdir(kit.DIRECTORY))
            table = subprocess.run([kit.TUNDISH, "status"], env=kit.environment(preload=""), text=True,
                                   stdout=subprocess.PIPE, check=True).stdout
            expected = sorted(w.format(pid=pid, port=port) for w in wanted)
            kit.check(found == sent and files == expected and all(f in table for f in files),
                      f"buckets named {name}" + (", met in another directory and environment" if lost else ""),
                      f"{found} {files}")
            for file in files:
                os.unlink(os.path.join(kit.DIRECTORY, file))


FORKED = """
here = receiver("127.0.0.2").getsockname()
def send_all():
    return [os.getpid(), room(datagram(*here))]
answer([send_all(), apart(send_all), apart(lambda: apart(send_all))])
"""


NO_DESCRIPTORS = """
import resource
ours = datagram("127.0.0.5", 9)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
while not named(lambda: taken.append(os.dup(0))): pass
passed = room(ours, 3)
for fd in taken: os.close(fd)
answer([passed, room(ours)])
"""


def keyed_without_a_descriptor_to_spare():
    found = kit.answer_of(NO_DESCRIPTORS, BUCKET="late-%h", **SMALL)
    tokens = left("late-127.0.0.5")
    kit.check(found == [3, 10] and tokens == 0, "a bucket that could not be opened for want of descriptors is later",
              f"{found} {tokens}")


def keyed_by_process():
    for name in ("of-%p", "of-%h-%p"):
        found = kit.answer_of(FORKED, BUCKET=name, **SMALL)
        files = sorted(os.listdir(kit.DIRECTORY))
        wanted = {name.replace("%h", "127.0.0.2").replace("%p", str(pid)) for pid, _ in found}
        kit.check([n for _, n in found] == [10, 10, 10] and wanted <= set(files),
                  f"{name} is another one in each forked child", f"{found} {files}")
        for file in files:
            os.unlink(os.path.join(kit.DIRECTORY, file))


CROWD = """
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(1300):
    sock.sendto(b"x", ("127.0.%d.%d" % (i // 250 + 1, i % 250 + 1), 9))
answer(0)
"""


def more_destinations_than_are_told_apart():
    kit.answer_of(CROWD, BUCKET="crowd-%h", RATE="1B/d", BURST="1000000")
    files = os.listdir(kit.DIRECTORY)
    others = 1000000 - left("crowd-others")
    kit.check("crowd-others" in files and 512 < len(files) <= 1024 and others == 1300 - (len(files) - 1),
              "the rest share one bucket", f"{len(files)} files, {others} bytes")
    for file in os.listdir(kit.DIRECTORY):
        os.unlink(os.path.join(kit.DIRECTORY, file))


if not kit.PRELOAD or not kit.TUNDISH:
    kit.skip("no preloaded library, or no program, was built")
for part in (destinations, datagrams_of_one_socket, address_that_the_kernel_ignores, programs, calls,
             bytes_and_calls, up_and_down, keyed, one_bucket_in_two_rules, bytes_and_calls_at_rates, keyed_by_process,
             keyed_without_a_descriptor_to_spare, more_destinations_than_are_told_apart):
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        part()
kit.finish()
