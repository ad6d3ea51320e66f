# SPDX-License-Identifier: MIT
"""Unmodified programs under the limit, judged from outside.

A case is a function that is given a Try: it starts servers, sinks and programs, and says what must have
arrived. It runs once without the library, which proves that the case itself is right and shows status and
complaints of the program as they are, and then with the library up to TRIES times until rate and processor
time are as promised: a loaded machine makes both only worse.

The rate is read where the bytes leave the limited program: by a relay between it and its peer (so TLS and
ssh count with all they add), or by a peer that is part of the test. It is the slope between two instants, the
least late one of those after 10 to 30 % of the bytes and of those after 95 to 100 %: the burst is long gone
at the first, and whoever reads can be late but never early.

Processor time is that of the program, all its threads and children. What waiting costs is what it used with
the library more than without, as a part of the time from the 20 % to the 95 % mark: either between the marks,
which leaves out the start, whose cost varies, or up to the second mark, which holds all the work of a program
that has most of it done before the first byte has come; the lower one counts. What has more to do whenever
its peer is slow is compared with itself on a slow line, which the relay plays. Where others take the
processors and the caches, the same work takes several times as long: the kernel says how long the program was
ready and had to wait, and when that is much, only a looser bound can be held, which no busy loop meets. A
test holds the looser one in any case; PROGRAMS_STRICT=1 is for a machine that has nothing else to do.

PROGRAMS_REPEATS=N runs every case N times with few bytes instead, to find hangs. Arguments select cases by
parts of their names.
"""
import contextlib
import ctypes
import functools
import hashlib
import http.server
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PYTHON = sys.executable
HERE = os.path.dirname(os.path.abspath(__file__))
RATE, BURST = 2_000_000, 100_000
SIZE = 3_000_000
SIZE_OF_REPEATS = 300_000
PART = 50_000  # of a download in turns
LOW, HIGH = 0.98, 1.01
STRICT = "PROGRAMS_STRICT" in os.environ
CPU_MAX, CPU_MAX_CROWDED, CROWDED = 0.03 if STRICT else 0.25, 0.12 if STRICT else 0.25, 0.02
TRIES = 5
PATIENCE = 20  # seconds for one try; nothing here takes five
PR_SET_PDEATHSIG = 1


def load_shim_kit():
    spec = importlib.util.spec_from_file_location("shim_kit", os.path.join(HERE, "../shim/kit.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shim = load_shim_kit()
libc = ctypes.CDLL(None)
cases = []


class Wrong(Exception):
    """The program did something else than without the library, or bytes are not what they were."""


class Meter:
    """When how many bytes had come; and the processor time of the watched processes at two marks."""

    MARKS = (0.20, 0.95)

    def __init__(self, size, watched):
        self.watched = watched
        self.lock = threading.Lock()
        self.total = 0
        self.samples = []
        self.marks = [threading.Event() for _ in self.MARKS]
        self.readings = []
        self.expect(size)
        threading.Thread(target=self.read_marks, daemon=True).start()

    def expect(self, size):
        self.thresholds = [mark * size for mark in self.MARKS]

    def add(self, count):
        now = time.monotonic()
        with self.lock:
            self.total += count
            self.samples.append((now, self.total))
        for threshold, mark in zip(self.thresholds, self.marks):
            if self.total >= threshold and not mark.is_set():
                mark.set()

    def read_marks(self):
        for mark in self.marks:
            mark.wait()
            used = [cpu_seconds(pid) for pid in tree(self.watched)]
            self.readings.append((time.monotonic(), *map(sum, zip(*used))))

    def rate(self, asked, burst):
        def least_late(low, high):
            return max((s for s in self.samples if low * self.total <= s[1] <= high * self.total),
                       key=lambda s: s[1] - asked * s[0], default=None)
        if not self.total:
            return None
        begin = max(0.10, 1.2 * burst / self.total)
        first, last = least_late(begin, begin + 0.20), least_late(0.95, 1.0)
        if not first or last[0] <= first[0]:
            return None
        return (last[1] - first[1]) / (last[0] - first[0])

    def cpu(self):
        """Seconds: between the marks elapsed, used and waited for a processor; and used up to the second."""
        if [len(reading) for reading in self.readings] != [3, 3]:
            return None  # it had ended before
        return *(after - before for before, after in zip(*self.readings)), self.readings[1][1]


def stat(pid):
    """The fields of /proc/PID/stat after the name, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def tree(pids):
    """These processes and all that descend from them."""
    parents = {int(p): int(s[1]) for p in os.listdir("/proc") if p.isdigit() and (s := stat(p))}
    found = [p for p in pids if p in parents]
    for pid in found:
        found += [p for p, parent in parents.items() if parent == pid and p not in found]
    return found


def cpu_seconds(pid):
    """What the process' living threads and its buried children have used, and how long they had to wait."""
    used = waited = 0.0
    with contextlib.suppress(OSError, TypeError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                nanoseconds = f.read().split()
            used += int(nanoseconds[0]) / 1e9
            waited += int(nanoseconds[1]) / 1e9
        used += sum(map(int, stat(pid)[13:15])) / os.sysconf("SC_CLK_TCK")
    return used, waited


def describe(pids):
    """What each thread of these processes waits for, for whoever looks into a hang."""
    for pid in tree(pids):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                print(f"  process {pid}: {f.read().replace(bytes(1), b' ').decode('latin-1')}")
            for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
                print(f"    fd {fd}: {os.readlink(f'/proc/{pid}/fd/{fd}')}")
            for task in os.listdir(f"/proc/{pid}/task"):
                thread = f"/proc/{pid}/task/{task}"
                for what in ("comm", "wchan", "syscall", "stack"):
                    with contextlib.suppress(OSError), open(f"{thread}/{what}", encoding="latin-1") as f:
                        print(f"    thread {task} {what}: {f.read().strip()}")
                with open(f"{thread}/status", encoding="latin-1") as f:
                    print("    " + " ".join(line.strip().replace("\t", " ") for line in f
                                            if line.startswith(("State", "Sig", "voluntary"))))
    sys.stdout.flush()


def end(process):
    """Ends a process and what descends from it, by pid."""
    family = {pid: s[19] for pid in tree([process.pid]) if (s := stat(pid))}
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pid, started in family.items():
        now = stat(pid)
        if now and now[19] == started and now[0] != "Z":
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


class Relay:
    """Stands between a program and a server and meters what it carries: "up" to the server, "down" from it
    as it comes, or "slow": from the server, as fast as the program takes it."""

    PIECE = {"up": 1 << 18, "down": 1 << 18, "slow": 1 << 13}
    LINE_PIECE, LINE_SEGMENT = 1 << 14, 1400  # of a slow line; small segments keep senders' buffers small

    def __init__(self, port, meter, direction, line_rate=None):
        self.target = port
        self.meter = meter
        self.direction = direction
        self.line_rate = line_rate
        self.piece = self.LINE_PIECE if line_rate else self.PIECE[direction]
        self.listener = self.socket()
        if direction == "slow":
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def socket(self):
        sock = socket.socket()
        if self.line_rate:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self.LINE_SEGMENT)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.LINE_PIECE)
        return sock

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = self.socket()
                server.connect(("127.0.0.1", self.target))
            except OSError:
                return
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [client, server]
            for way in ((client, server, "up"), (server, client, "down")):
                threading.Thread(target=self.carry, args=way, daemon=True).start()

    def carry(self, source, target, way):
        metered = way == self.direction
        slow = way == "down" and self.direction == "slow"
        try:
            while piece := source.recv(self.piece):
                if metered:
                    self.meter.add(len(piece))
                    if self.line_rate:
                        time.sleep(len(piece) / self.line_rate)
                target.sendall(piece)
                if slow:
                    self.meter.add(len(piece))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # a reset is passed on as an end: shutdown() also wakes the other thread
            for sock in (source, target):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        for sock in (self.listener, *self.sockets):
            sock.close()


class UdpSink:
    """Takes datagrams; answers them if the case says how."""

    SO_RCVBUFFORCE = 33

    def __init__(self, meter, answer=None):
        self.meter = meter
        self.answer = answer
        self.datagrams = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, self.SO_RCVBUFFORCE, 16 << 20)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.take, daemon=True).start()

    def take(self):
        with contextlib.suppress(OSError):
            while True:
                datagram, peer = self.socket.recvfrom(1 << 16)
                self.meter.add(len(datagram))
                self.datagrams.append(datagram)
                if self.answer:
                    self.socket.sendto(self.answer(datagram), peer)

    def close(self):
        self.socket.close()


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass


class Try:
    """One run of a case, with or without the library; everything that it starts ends with it."""

    def __init__(self, case, limited, size):
        self.case = case
        self.is_limited = limited
        self.size = size
        self.deadline = time.monotonic() + PATIENCE
        self.stack = contextlib.ExitStack()
        self.directory = self.stack.enter_context(tempfile.TemporaryDirectory(dir=shim.DIRECTORY))
        self.bucket = os.path.join(shim.DIRECTORY, "bucket-" + os.path.basename(self.directory))
        self.watched = []
        self.meter = Meter(size, self.watched)
        self.outcomes = []
        self.notes = []
        self.late = False
        self.content = os.urandom(size)
        self.digest = hashlib.sha256(self.content).hexdigest()
        self.file = self.path("upload")
        with open(self.file, "wb") as f:
            f.write(self.content)

    def path(self, name):
        return os.path.join(self.directory, name)

    def left(self):
        return max(0.1, self.deadline - time.monotonic())

    def start(self, command, limited=True, **options):
        """A program, limited or one that helps the case."""
        words = {"RATE": f"{self.case.rate}B/s", "BURST": f"{self.case.burst}B", "BUCKET": self.bucket,
                 **self.case.words}
        if limited and self.is_limited:
            environment = shim.environment(**words)
        else:
            environment = shim.environment(preload="")
        environment.update(options.pop("env", {}))
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "cwd": self.directory, **options}
        process = subprocess.Popen([str(word) for word in command], env=environment,
                                   preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **options)
        self.stack.callback(end, process)
        if limited:
            self.watched.append(process.pid)
        return process

    def finish(self, process):
        """Waits for a limited program's own end; status and complaints must be as without the limit."""
        out, err = process.communicate(timeout=self.left())
        self.outcomes.append((process.returncode, err and err.decode(errors="replace")))
        return out

    def run(self, command, **options):
        return self.finish(self.start(command, **options))

    def help(self, command, **options):
        """A helper to its end; it must end well."""
        process = self.start(command, limited=False, **options)
        out, err = process.communicate(timeout=self.left())
        if process.returncode:
            complaint = err and err.decode(errors="replace")
            raise Wrong(f"{command[0]} ended with {process.returncode}: {complaint}")
        return out

    def serve(self, command, port, limited=False, **options):
        """A server, until it listens; its talk goes to a file of the try."""
        with open(self.path("server.log"), "ab") as log:
            process = self.start(command, limited, stdout=log, stderr=log, **options)
        while not listens(port):
            if process.poll() is not None or time.monotonic() > self.deadline:
                with open(self.path("server.log"), encoding="utf-8", errors="replace") as log:
                    raise Wrong(f"{command[0]} does not listen: {log.read()[-2000:]}")
            time.sleep(0.01)
        return process

    def own(self, thing):
        self.stack.callback(thing.close)
        return thing

    def relay(self, port, direction="up"):
        line_rate = self.case.rate if self.case.slow_line and not self.is_limited else None
        return self.own(Relay(port, self.meter, direction, line_rate)).port

    def udp(self, answer=None):
        return self.own(UdpSink(self.meter, answer))

    def sink(self, *arguments, uploads=1):
        """tests/kit/sink.py behind a relay. For TLS it needs pem()."""
        sink = shim.Sink("--sha256", "--requests", str(uploads), *arguments)
        self.stack.callback(end, sink.process)
        sink.port = self.relay(sink.port)
        sink.url = f"http{'s' if '--tls' in arguments else ''}://localhost:{sink.port}/"
        return sink

    def arrived(self, sink):
        """The sink has all its uploads, each as it was sent."""
        out, _ = sink.process.communicate(timeout=self.left())
        *uploads, summary = [json.loads(line) for line in out.splitlines()]
        if summary["why"] != "requests" or any(upload["sha256"] != self.digest for upload in uploads):
            raise Wrong(f"something else arrived: {out}")

    def datagrams_arrived(self, udp):
        """All of the file came, datagram by datagram. Without the library it may come too fast."""
        while sum(map(len, udp.datagrams)) < self.size and self.is_limited:
            if time.monotonic() > self.deadline:
                raise Wrong(f"datagrams are lost: {udp.datagrams and len(udp.datagrams)} came")
            time.sleep(0.01)
        if self.is_limited:
            self.same(b"".join(udp.datagrams))

    def same(self, content, what="what arrived"):
        if content != self.content:
            raise Wrong(f"{what} is not what was sent: {len(content)} bytes of {len(self.content)}")

    def same_file(self, name):
        with open(self.path(name), "rb") as f:
            self.same(f.read(), name)

    def parts(self):
        """A web server with the file in parts, behind a slow relay, for programs limited in what they take;
        their addresses. What has left need not have been read yet, but no part leaves before its turn."""
        names = []
        for at in range(0, self.size, PART):
            names.append(f"part-{at:08d}")
            with open(self.path(names[-1]), "wb") as f:
                f.write(self.content[at:at + PART])
        files = functools.partial(Files, directory=self.directory)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), files)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)
        port = self.relay(server.server_address[1], "slow")
        return [f"http://localhost:{port}/{name}" for name in names]

    def took(self, directory, urls):
        """The program has put the parts into this directory."""
        pieces = []
        for url in urls:
            with open(os.path.join(directory, os.path.basename(url)), "rb") as f:
                pieces.append(f.read())
        self.same(b"".join(pieces))

    def pull(self, port, request=b"", length=None):
        """Connects to a limited server, asks, and takes all there is, or so many bytes."""
        with socket.create_connection(("127.0.0.1", port), timeout=self.left()) as sock:
            sock.sendall(request)
            pieces, count = [], 0
            while (length is None or count < length) and (piece := sock.recv(1 << 18)):
                self.meter.add(len(piece))
                pieces.append(piece)
                count += len(piece)
        return b"".join(pieces)

    def pem(self):
        """A certificate for localhost and its key, in one file."""
        path = self.path("pem")
        if not os.path.exists(path):
            self.help(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
                       "ec_paramgen_curve:P-256", "-days", "2", "-subj", "/CN=localhost",
                       "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                       "-keyout", path + ".key", "-out", path + ".crt"])
            with open(path, "wb") as both:
                for part in (".key", ".crt"):
                    with open(path + part, "rb") as f:
                        both.write(f.read())
        return path

    def note(self, text):
        self.notes.append(text)

    def in_time(self, condition):
        """A promise about time, of the limited program with all its bytes: one of the tries has to keep it."""
        self.late = self.late or not condition


def is_root():
    return os.geteuid() == 0


def free_port():
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def listens(port):
    """Whether somebody listens at a TCP port; without connecting, which a server would notice."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(fields[1].endswith(f":{port:04X}") and fields[3] == "0A" for fields in map(str.split, f))


class Case:
    def __init__(self, body, needs, size=SIZE, rate=RATE, burst=BURST, steady=True, slow_line=False,
                 starts=1, **words):
        self.body = body
        self.name = body.__name__.replace("_", " ")
        self.needs = needs
        self.size, self.rate, self.burst, self.steady = size, rate, burst, steady
        self.slow_line = slow_line
        self.starts = starts  # of programs one after another, which cost more than any wait
        self.words = words

    def attempt(self, limited, size):
        """One try: it, or None after an outcome that another try would not change."""
        t = Try(self, limited, size)
        with t.stack:
            try:
                self.body(t)
                return t
            except (subprocess.TimeoutExpired, TimeoutError) as hang:
                print(f"hang of {self.name}{'' if limited else ' without the library'}: {hang}")
                print(f"  after {t.meter.total} bytes; of these processes:")
                describe(t.watched)
            except (Wrong, OSError) as wrong:
                print(f"{self.name}{'' if limited else ' without the library'}: {wrong} {t.outcomes}")
        return None

    def check(self, condition, detail=""):
        shim.check(condition, self.name, detail)

    def repeat(self, times):
        for count in range(times):
            t = self.attempt(True, SIZE_OF_REPEATS if self.size == SIZE else self.size // 10)
            if t is None or any(status for status, _ in t.outcomes):
                self.check(False, f"at repeat {count + 1}: {t and t.outcomes}")
                return
        self.check(True, f"{times} times")

    def measure(self):
        free = self.attempt(False, self.size)
        if free is None:
            self.check(False, "it does not work without the library")
            return
        rates, shares = [], []
        in_time = False
        rate_is_right = cpu_is_right = not self.steady
        for _ in range(TRIES):
            t = self.attempt(True, self.size)
            if t is None:
                self.check(False)
                return
            if t.outcomes != free.outcomes:
                self.check(False, f"ended otherwise: {t.outcomes}, without the library {free.outcomes}")
                return
            in_time = in_time or not t.late
            if self.steady:
                rates.append((t.meter.rate(self.rate, self.burst) or 0) / self.rate)
                rate_is_right = rate_is_right or LOW <= rates[-1] <= HIGH
                if self.starts > 1:
                    cpu_is_right = True
                elif spent := t.meter.cpu():
                    elapsed, used, waited, used_in_all = spent
                    _, work, _, work_in_all = free.meter.cpu() or (0, 0, 0, 0)
                    # work below nothing: threads have ended meanwhile
                    more = min(used - max(0.0, work), used_in_all - work_in_all)
                    shares.append(max(0.0, more) / elapsed)
                    bound = CPU_MAX_CROWDED if waited > CROWDED * elapsed else CPU_MAX
                    cpu_is_right = cpu_is_right or shares[-1] <= bound
            if rate_is_right and cpu_is_right and in_time:
                break
        detail = []
        if self.steady:
            detail = ["rate " + " ".join(f"{rate:.3f}" for rate in rates),
                      "cpu " + (" ".join(f"{100 * share:.1f}" for share in shares) or "unknown") + " %"]
        self.check(rate_is_right and cpu_is_right and in_time, ", ".join(detail + t.notes))


def case(*needs, **options):
    """Declares a case that needs these programs; options as in Case, words of the environment in capitals."""
    def declare(body):
        cases.append(Case(body, needs, **options))
        return body
    return declare


def main():
    repeats = int(os.environ.get("PROGRAMS_REPEATS", 0))
    ran = False
    for each in cases:
        if sys.argv[1:] and not any(part in each.name for part in sys.argv[1:]):
            continue
        missing = [program for program in each.needs if not shutil.which(program)]
        if missing:
            print("skipped", each.name + ":", ", ".join(missing), "not installed", flush=True)
            continue
        ran = True
        if repeats:
            each.repeat(repeats)
        else:
            each.measure()
    if not ran:
        shim.skip("none of the programs is installed")
    shim.finish()
