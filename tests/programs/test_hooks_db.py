#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Databases under a rule for one function: how often SQLite syncs its file, and how often psql sends a
statement to a server that this test starts."""
import atexit
import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

import kit

INSERTS = 8
STATEMENTS = 25
PER_SECOND = 10
LEAST, MOST = 0.95, 1.05  # of the time that the rate promises
START = 0.5 if kit.STRICT else 3.0  # seconds for all that a program does besides
PLENTY = 1_000_000


# Debian has the server's programs in a directory of their own; psql itself is there, too, not a script.
for directory in sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:]:
    os.environ["PATH"] = directory + os.pathsep + os.environ["PATH"]


def hooked(t, function, command, rate, burst, when_empty="wait", **options):
    """Runs a command by a configuration file: what it says, how many tokens it took, and how long."""
    if not t.is_limited:
        return t.finish(t.start(command, limited=False, **options)), 0, 0
    bucket = f"{t.bucket}-{rate.replace('/', '-')}"
    with open(t.path("hooks.conf"), "w", encoding="utf-8") as f:
        f.write(f'[bucket "{bucket}"]\nrate = {rate}\nburst = {burst}\n'
                f'[rule "hooks"]\nbucket = {bucket}\ncalls = {function}\nwhen-empty = {when_empty}\n')
    start = time.monotonic()
    process = t.start([kit.shim.TUNDISH, "run", "--config", t.path("hooks.conf"), "--", *command], limited=False,
                      **options)
    out = t.finish(process)
    seconds = time.monotonic() - start
    peek = t.help([kit.shim.TUNDISH, "peek", bucket])
    return out, burst - int(peek.split()[1]), seconds


def count(t, function, command, **options):
    """How many tokens it takes while nobody is held."""
    out, tokens, _ = hooked(t, function, command, "1/d", PLENTY, "observe", **options)
    return out, tokens


def pace(t, function, tokens, command, **options):
    """So many tokens come at PER_SECOND, but for the first."""
    out, _, seconds = hooked(t, function, command, f"{PER_SECOND}/s", 1, **options)
    if t.is_limited:
        promised = (tokens - 1) / PER_SECOND
        t.note(f"{tokens} tokens in {seconds:.2f} s of {promised}")
        if seconds < LEAST * promised:
            raise kit.Wrong(f"{tokens} tokens took only {seconds:.3f} s of {promised}")
        t.in_time(seconds <= MOST * promised + START)
    return out


@kit.case("sqlite3", steady=False)
def sqlite_syncs_ten_times_a_second(t):
    """Each insert is a transaction of its own, which syncs a few times."""
    inserts = "".join(f"insert into t values({i});\n" for i in range(INSERTS))
    with open(t.path("insert.sql"), "w", encoding="ascii") as f:
        f.write(inserts)
    databases = [t.path(f"{name}.db") for name in ("counted", "paced")]
    commands = [["sqlite3", "-batch", "-init", "/dev/null", name, ".read insert.sql"] for name in databases]
    for name in databases:
        t.help(["sqlite3", name, "create table t(i)"])
    _, tokens = count(t, "fdatasync", commands[0])
    if t.is_limited and not INSERTS <= tokens <= 6 * INSERTS:
        raise kit.Wrong(f"{INSERTS} transactions take {tokens} tokens")
    pace(t, "fdatasync", tokens, commands[1])
    for name in databases:
        if t.help(["sqlite3", name, "select sum(i), count(*) from t"]) != b"%d|%d\n" % (sum(range(INSERTS)), INSERTS):
            raise kit.Wrong(f"{name} has other rows")


class Server:
    """PostgreSQL in a directory of its own, reached by a socket in it; by a user without rights, as it wants."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tundish-postgres-")  # its socket's path has to be short
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self.user = []
        if os.geteuid() == 0:
            name = next(name for name in ("postgres", "nobody") if self.has_user(name))
            owner = pwd.getpwnam(name)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            self.user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        data = os.path.join(self.directory, "data")
        self.options = {"cwd": self.directory, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                        "stderr": subprocess.DEVNULL, "env": kit.shim.environment(preload="")}
        subprocess.run([*self.user, "initdb", "-D", data, "-A", "trust", "-U", "tester", "--no-sync",
                        "--locale=C", "--encoding=UTF8"], check=True, timeout=60, **self.options)
        self.process = subprocess.Popen([*self.user, "postgres", "-D", data, "-k", self.directory,
                                         "-c", "listen_addresses=", "-c", "fsync=off"],
                                        preexec_fn=lambda: kit.libc.prctl(kit.PR_SET_PDEATHSIG, kit.signal.SIGINT),
                                        **self.options)
        atexit.register(self.stop)
        self.wait()

    @staticmethod
    def has_user(name):
        return any(entry.pw_name == name for entry in pwd.getpwall())

    def wait(self):
        deadline = time.monotonic() + 30
        while subprocess.run(["pg_isready", "-q", "-h", self.directory], check=False,
                             **self.options).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("postgres does not listen")
            time.sleep(0.1)

    def stop(self):
        """At once, but in order: it is a child of ours, and its children end with it."""
        self.process.send_signal(kit.signal.SIGINT)
        self.process.wait(30)


servers = []


def server():
    """The one of this run, started when it is needed."""
    if not servers:
        servers.append(Server())
    return servers[0]


@kit.case("postgres", "initdb", "psql", "setpriv", steady=False)
def psql_sends_ten_statements_a_second(t):
    with open(t.path("select.sql"), "w", encoding="ascii") as f:
        f.writelines(f"select {i};\n" for i in range(STATEMENTS))
    command = ["psql", "-h", server().directory, "-U", "tester", "-X", "-q", "-A", "-t", "-f", "select.sql",
               "postgres"]
    said, tokens = count(t, "PQsendQuery", command)
    if t.is_limited and tokens != STATEMENTS:
        raise kit.Wrong(f"{STATEMENTS} statements take {tokens} tokens")
    for out in (said, pace(t, "PQsendQuery", tokens, command)):
        if out.split() != [b"%d" % i for i in range(STATEMENTS)]:
            raise kit.Wrong(f"psql says {out[:300]}")


kit.main()
