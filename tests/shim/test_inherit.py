#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_inherit.py HEIR: what executed programs are given of the library, in every way of executing them."""
import os
import shutil
import subprocess
import sys

import kit

HEIR = sys.argv[1]
SAY = [HEIR, "say"]
# The second byte is one too many.
QUOTA = {"RATE": "1/d", "BURST": "1", "COUNT": "bytes", "WHEN_EMPTY": "refuse"}
WITHOUT_ENVIRONMENT = ["execv", "execvp", "execl", "execlp"]  # these take environ
EXECS = [*WITHOUT_ENVIRONMENT, "execve", "execvpe", "execle", "fexecve", "execveat"]
CALLS = [*EXECS, "posix_spawn", "posix_spawnp"]
OTHER = "int other_library = 1;"
# Executes itself with an environment of its own again and again; counts its descriptors first and last.
CHAIN = r"""
count() { set -- /proc/$$/fd/*; echo $#; }
[ "$1" = 100 ] && count
[ "$1" = 0 ] && count && exec "$2" say
exec env -i PATH="$PATH" sh -c "$0" "$0" $(($1 - 1)) "$2"
"""


class Said:
    """What `heir say` said, or why it did not."""

    def __init__(self, done):
        self.done = done
        self.lines = done.stdout.splitlines()
        self.words = dict(line.split("=", 1) for line in self.lines if "=" in line)

    def __repr__(self):
        return f"{self.done.returncode}, {self.lines}, {self.done.stderr!r}"

    def ended_well(self):
        return self.done.returncode == 0 and self.done.stderr == "" and "errno 0" in self.lines

    def is_limited(self):
        return self.ended_well() and "limited" in self.lines

    def is_free(self):
        return self.ended_well() and "free" in self.lines

    def has_nothing(self):
        others = self.words.keys() - {"TUNDISH_DIR"}
        return not any(word == "LD_PRELOAD" or word.startswith("TUNDISH_") for word in others)

    def grown(self):
        return next((int(line.split()[1]) for line in self.lines if line.startswith("grown ")), None)


def heir(how, *arguments, preload=kit.PRELOAD, command=HEIR, **words):
    """A limited heir that hands on in this way."""
    return Said(kit.run([command, *arguments], preload=preload, INHERIT=how, **QUOTA, **words))


def run_in(env, command):
    return Said(subprocess.run(command, env=env, text=True, capture_output=True, check=False))


def limited(what, said):
    kit.check(said.is_limited(), what, "" if said.is_limited() else repr(said))


def free(what, said):
    well = said.is_free() and said.has_nothing()
    kit.check(well, what, "" if well else repr(said))


def library(name, text=OTHER):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    path = os.path.join(kit.DIRECTORY, name)
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=text, text=True, check=True)
    return path


def environments(call):
    """The ways to take a program's words from it that this call knows."""
    ways = ["cleared", "replaced", "many"]
    if call in WITHOUT_ENVIRONMENT:
        return ways[:2]
    return ["own", "many"] if call == "fexecve" else [*ways, "own", "none"]  # libc refuses fexecve without one


def always_limits_every_child():
    for call in CALLS:
        limited(f"always: {call} with what it has limits the child", heir("always", call, "kept", *SAY))
        for environment in environments(call):
            said = heir("always", call, environment, *SAY)
            limited(f"always: {call} limits a child whose environment is {environment}", said)
            kit.check(said.words.get("TUNDISH_INHERIT") == "always" and said.words.get("LD_PRELOAD") == kit.PRELOAD and
                      ("OTHER" in said.words) == (environment in ("replaced", "own")),
                      f"always: {call} adds to an environment that is {environment} and takes nothing", repr(said))


def never_limits_no_child():
    for call in CALLS:
        for environment in ("kept", *environments(call)):
            said = heir("never", call, environment, *SAY)
            free(f"never: {call} frees a child whose environment is {environment}", said)
    other = library("other.so")
    for order in filter(None, (other, other and f"{other}:{kit.PRELOAD}", other and f"{kit.PRELOAD} {other}")):
        said = heir("never", "execv", "kept", *SAY, preload=order if kit.PRELOAD in order else f"{kit.PRELOAD}:{order}")
        kit.check(said.is_free() and said.words.get("LD_PRELOAD") == other,
                  "never: other libraries stay in LD_PRELOAD", repr(said))
    said = heir("never", "execv", "kept", *SAY)
    kit.check(said.words == {"TUNDISH_DIR": kit.DIRECTORY}, "never: TUNDISH_DIR stays, for who uses the library itself",
              repr(said))


def env_changes_nothing():
    for call in CALLS:
        limited(f"env: {call} with what it has limits the child", heir("env", call, "kept", *SAY))
        for environment in environments(call):
            said = heir("env", call, environment, *SAY)
            words = {"many": ["TUNDISH_VERBOSE"], "cleared": [], "none": []}.get(environment, ["OTHER"])
            kit.check(said.is_free() and list(said.words) == words,
                      f"env: {call} leaves an environment that is {environment} as it is", repr(said))
    with_it, alone = (kit.run(["env", "-u", "LD_PRELOAD", "env"], preload=p, **QUOTA).stdout for p in (kit.PRELOAD, ""))
    kit.check(with_it == alone, "env: the words and their order are those of the program", repr((with_it, alone)))


def programs_words_win():
    done = Said(kit.run(["env", "-i", "TUNDISH_WHEN_EMPTY=observe", *SAY], INHERIT="always", **QUOTA))
    kit.check(done.is_free() and done.words["TUNDISH_WHEN_EMPTY"] == "observe" and done.words["TUNDISH_RATE"] == "1/d",
              "a word that the program sets keeps its value, and the others are added", repr(done))
    done = Said(kit.run(["env", "-i", "TUNDISH_OFF=1", *SAY], INHERIT="always", **QUOTA))
    kit.check(done.is_free(), "a program may switch it off for its child", repr(done))
    done = Said(kit.run(["env", "-i", "TUNDISH_RATE=2/d", *SAY], INHERIT="always", **QUOTA))
    kit.check(done.words.get("TUNDISH_RATE") == "2/d" and "TUNDISH_BURST" not in done.words and
              done.words.get("TUNDISH_INHERIT") == "always",
              "a rule of the program's own is not mixed with ours", repr(done))
    done = Said(kit.run(["env", "-i", "TUNDISH_RATE=2/d", *SAY], INHERIT="always", **QUOTA, **{"2_RATE": "3/d"}))
    kit.check(done.words.get("TUNDISH_2_RATE") == "3/d", "but other rules of ours are added to it", repr(done))
    limited("a program that no rule is for hands them on as well",
            Said(kit.run(["env", "-i", *SAY], INHERIT="always", ONLY=os.path.basename(HEIR), **QUOTA)))
    done = Said(kit.run(["env", "-i", "XDG_RUNTIME_DIR=/nowhere", *SAY], INHERIT="always", **QUOTA))
    kit.check(done.words.get("TUNDISH_DIR") == kit.DIRECTORY, "buckets are looked for where we found them", repr(done))


def default_directory_is_handed_on():
    def words(command, **more):
        env = kit.environment(INHERIT="always", **QUOTA)
        env = {k: v for k, v in env.items() if k not in ("TUNDISH_DIR", "XDG_RUNTIME_DIR")} | more
        return run_in(env, command).words.get("TUNDISH_DIR")
    runtime = kit.DIRECTORY
    kit.check(words(["env", "-i", *SAY], XDG_RUNTIME_DIR=runtime) == runtime + "/tundish",
              "who loses XDG_RUNTIME_DIR is told where the buckets are")
    kit.check(words(SAY, XDG_RUNTIME_DIR=runtime) is None and
              words(["env", *SAY], XDG_RUNTIME_DIR=runtime) is None, "who keeps it is told nothing")
    kit.check(words(["env", "-i", *SAY]) is None, "nor is who never had it")
    kit.check(words(["env", "XDG_RUNTIME_DIR=/other", *SAY]) == f"/dev/shm/tundish-{os.getuid()}",
              "who is given another is told where the buckets are")


def preload_is_appended():
    other = library("other.so")
    if other is None:
        print("skipped other preloaded libraries: no compiler")
        return
    for name, order in (("first", f"{kit.PRELOAD}:{other}"), ("last", f"{other} {kit.PRELOAD}"), ("alone", kit.PRELOAD),
                        ("by name only", os.path.basename(kit.PRELOAD))):
        more = {"LD_LIBRARY_PATH": os.path.dirname(kit.PRELOAD)}
        env = {**kit.environment(order, INHERIT="always", **QUOTA), **more}
        for given in ([], [f"LD_PRELOAD={order}"]):
            said = run_in(env, ["env", *given, *SAY])
            kit.check(said.words.get("LD_PRELOAD") == order and said.is_limited(),
                      f"{name} in LD_PRELOAD: it stays as it is", repr(said))
        entry = order if "/" not in order else kit.PRELOAD
        for given, wanted in ((other, f"{other}:{entry}"), (f"{other} {other}", f"{other} {other}:{entry}"),
                              ("", entry)):
            said = run_in(env, ["env", f"LD_PRELOAD={given}", *SAY])
            kit.check(said.words.get("LD_PRELOAD") == wanted and said.is_limited(),
                      f"{name} in LD_PRELOAD: it is appended to what the program gives", repr(said))
    said = Said(kit.run(["env", "-i", *SAY], preload=f"{other}:{kit.PRELOAD}", INHERIT="always", **QUOTA))
    kit.check(said.words.get("LD_PRELOAD") == kit.PRELOAD, "only our own entry is added", repr(said))


def chains():
    for how in ("always", "env", "never"):
        done = kit.run(["sh", "-c", CHAIN, CHAIN, "100", HEIR], INHERIT=how, **QUOTA)
        counts, said = done.stdout.split()[:2], Said(done)
        kit.check(len(counts) == 2 and counts[0] == counts[1],
                  f"{how}: no descriptor leaks over 100 executions", repr(said))
        if how == "always":
            kit.check(said.is_limited() and said.words.get("LD_PRELOAD") == kit.PRELOAD and
                      len([line for line in said.lines if line.startswith("TUNDISH_")]) == len(QUOTA) + 2,
                      "always: nothing is there twice after 100 executions", repr(said))
        else:
            free(f"{how}: and the last program is free", said)
    done = kit.run(["sh", "-c", CHAIN.replace("env -i", "env"), CHAIN.replace("env -i", "env"), "100", HEIR],
                   INHERIT="always", **QUOTA)
    kit.check(Said(done).is_limited() and Said(done).words.get("LD_PRELOAD") == kit.PRELOAD,
              "always: nothing is there twice after 100 executions with the words kept", repr(Said(done)))


def vfork_children():
    for how, verdict in (("always", Said.is_limited), ("never", Said.is_free)):
        for environment in ("own", "kept", "many"):
            said = heir(how, "vfork", "100", "execve", environment, *SAY)
            kit.check(verdict(said), f"{how}: 100 vfork children whose environment is {environment}",
                      repr(said.lines[:9]))
            kit.check(said.grown() == 0, f"{how}: they leave nothing behind in their parent", str(said.grown()))


def failures():
    for how in ("always", "never"):
        for environment in ("own", "many", "none"):
            for call in ("execve", "execvpe", "posix_spawn"):
                said = heir(how, "fails", "1000", call, environment)
                kit.check("No such file or directory" in said.lines and said.grown() == 0,
                          f"{how}: a failing {call} says why and costs nothing", repr(said))
    said = heir("always", "execve", "bad", *SAY)
    kit.check("Bad address" in said.done.stderr and said.done.returncode == 1,
              "a bad environment is EFAULT", repr(said))
    for call in ("execv", "execvp", "execve", "posix_spawn"):
        with_it, alone = heir("always", call, "own", "/dev/null"), heir("always", call, "own", "/dev/null", preload="")
        kit.check((with_it.done.returncode, with_it.done.stderr) == (alone.done.returncode, alone.done.stderr),
                  f"{call} of what cannot be executed fails as it does alone", repr(with_it))


def tight_places():
    for how, verdict in (("always", Said.is_limited), ("never", Said.is_free)):
        for where in (["thread", "16384"], ["thread", "32768"], ["thread", "65536"], ["thread", "131072"], ["handler"]):
            for call in ("execve", "execle", "execvpe", "posix_spawnp"):
                said = heir(how, *where, call, "many", *SAY)
                kit.check(verdict(said), f"{how}: {call} with 5000 words works in a {' of '.join(where)}",
                          repr(said.done.stderr))
    most = os.sysconf("SC_ARG_MAX") - 100_000
    arguments = ["x" * 119] * (most // 130)
    said = heir("always", "execve", "own", *SAY, *arguments)
    kit.check(said.is_limited() and f"arguments {len(arguments) + 2}" in said.lines,
              f"{len(arguments)} arguments, nearly all that the kernel takes, arrive", repr(said.lines[:3]))


def too_many_words():
    env = kit.environment(INHERIT="always", **QUOTA) | {"XDG_RUNTIME_DIR": "/" + "x" * 20_000}
    said = run_in(env, SAY)
    lines = said.done.stderr.splitlines()
    kit.check("limited" in said.lines and len(lines) == 1 and "TUNDISH_INHERIT" in lines[0],
              "words that are too long to be kept: one line, and the program runs", repr(said))


def compiled(name, text, *flags):
    path = os.path.join(kit.DIRECTORY, name)
    compiler = shutil.which("cc") or shutil.which("gcc")
    done = compiler and subprocess.run([compiler, "-w", "-x", "c", "-", "-o", path, *flags], input=text, text=True,
                                       stderr=subprocess.DEVNULL, check=False)
    if not done or done.returncode != 0:
        print("skipped a program made by", *flags)
        return None
    return path


def runs(path):
    try:
        return kit.run([path], preload="").returncode == 0
    except OSError:
        return False


def others():
    """Programs that no preloaded library gets into: they just run."""
    bare = 'void _start(void) { __asm__("mov $1, %%eax; xor %%ebx, %%ebx; int $0x80" ::); }'
    for name, path in (("a static", compiled("static", "int main(void) { return 0; }", "-static")),
                       ("a 32-bit", compiled("bare32", bare, "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie"))):
        if path and not runs(path):
            print("skipped", name, "program: this machine runs none")
        elif path:
            for how in ("always", "never"):
                said = heir(how, "execve", "own", path)
                kit.check((said.done.returncode, said.done.stderr) == (0, ""), f"{how}: {name} program is executed",
                          repr(said))
    if os.getuid() != 0:
        print("skipped a setuid program: that takes root")
        return
    setuid = os.path.join(kit.DIRECTORY, "setuid")
    shutil.copy(HEIR, setuid)
    os.chmod(kit.DIRECTORY, 0o755)
    os.chown(setuid, 65534, 65534)
    os.chmod(setuid, 0o4755)
    said = heir("always", "execve", "own", setuid, "say")
    kit.check(said.is_free() and said.words.get("TUNDISH_INHERIT") == "always",
              "always: a setuid program is executed, and the loader leaves us out", repr(said))
    os.unlink(setuid)


def libc_from_inside():
    """system() and popen() start their shell inside libc, which is in the manual."""
    for how in ("system", "popen"):
        said = heir("always", "shell", how, f"{HEIR} say")
        free(f"{how} after clearenv is out of reach", said)
        said = Said(kit.run(["sh", "-c", f"{HEIR} say; true"], INHERIT="never", **QUOTA))
        free("never: a shell is limited itself, but not what it runs", said)


if not kit.PRELOAD:
    kit.skip("no preloaded library was built")
PARTS = (always_limits_every_child, never_limits_no_child, env_changes_nothing, programs_words_win,
         default_directory_is_handed_on, preload_is_appended, chains, vfork_children, failures,
         tight_places, too_many_words, others, libc_from_inside)
for part in PARTS:
    if len(sys.argv) < 3 or part.__name__ in sys.argv[2:]:
        part()
kit.finish()
