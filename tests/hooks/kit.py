# SPDX-License-Identifier: MIT
"""What the scripts of hooks share: configuration files, programs that run by them, and what their calls took.

Tokens are exact: a bucket that gets the next one tomorrow is looked at after the program has ended. Arguments
of the scripts: the guest, and the program that looks for what there is not; then more programs as NAME=PATH, and
parts of the names of cases.
"""
import contextlib
import importlib.util
import itertools
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def load_shim_kit():
    spec = importlib.util.spec_from_file_location("shim_kit", os.path.join(HERE, "../shim/kit.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shim = load_shim_kit()
check, skip = shim.check, shim.skip
GUEST, WEAK = sys.argv[1:3]
OTHERS = dict(each.split("=", 1) for each in sys.argv[3:] if "=" in each)
PARTS = [each for each in sys.argv[3:] if "=" not in each]
PLENTY = 1_000_000_000
LEAST = 0.95  # of the time that the rate promises: clocks of two processes, and the first instant
SLACK = 0.5 if "PROGRAMS_STRICT" in os.environ else 5.0  # seconds that a loaded machine may take longer

SIGNATURES = {
    "guest_send": "size_t (const void *, size_t)",
    "guest_take": "long (long)",
    "guest_puts": "size_t (const char *)",
    "guest_writev": "long (pointer, int)",
    "guest_fwrite": "size_t (pointer, size_t, size_t)",
    "guest_count": "int (int)",
    "guest_ten": "int64_t (signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,"
                 " long long, const char *)",
    "guest_doubles": "double (double, int, double, long, float, short, double, int, double, int64_t,"
                     " double, int, double, int, double, int, double, int, double, int)",
    "guest_swap_pair": "{int, double} (int, {int, double})",
    "guest_turn_large": "{long, long, long, long, long} ({long, long, long, long, long}, long double, int)",
    "guest_swap_floats": "{float, float} ({float, float})",
    "guest_swap_small": "{char, short} ({char, short})",
    "guest_turn_nested": "{{float, float}, int64_t} ({{float, float}, int64_t}, double)",
    "guest_long_double": "long double (long double, int)",
    "guest_printf": "int (const char *, ... int, double, pointer)",
    "guest_bool": "bool (int)",
    "guest_uchar": "unsigned char (int)",
    "guest_schar": "signed char (int)",
    "guest_short": "short (int)",
    "guest_ushort": "unsigned short (int)",
    "guest_int": "int (int)",
    "guest_float": "float (int)",
    "guest_pointer": "void * (int)",
    "guest_nothing": "void (int *)",
    "guest_alignment": "unsigned (void)",
    "guest_errno_found": "int ()",
    "guest_errno_left": "int ()",
    "guest_outer": "int (int)",
    "guest_inner": "int (int)",
    "guest_call": "int (pointer, pointer)",
    "guest_call_plainly": "int (pointer, pointer)",
    "guest_nobody": "int (int)",
    "plugin_answer": "int (int)",
}

numbers = itertools.count(1)


class Ran:
    """How a program ended, and the tokens that its calls took, None if there is no bucket."""

    def __init__(self, done, seconds, tokens):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.seconds, self.tokens = seconds, tokens

    def is_as(self, other):
        return (self.status, self.out, self.err) == (other.status, other.out, other.err)

    def __repr__(self):
        return f"{self.status}, {self.out[-1500:]!r}, {self.err[-1500:]!r}, {self.tokens} tokens, {self.seconds:.3f} s"


def section(kind, name, keys):
    lines = [f"{key.replace('_', '-')} = {value}" for key, value in keys.items() if value is not None]
    return "\n".join([f'[{kind} "{name}"]', *lines, ""])


def hook(name, **keys):
    """A [hook] section; by its known signature unless another one is given."""
    return section("hook", name, {"signature": SIGNATURES.get(name), **keys})


def tundish(*arguments):
    return subprocess.run([shim.TUNDISH, *arguments], env=shim.environment(preload=""), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def left(bucket):
    """The tokens in a bucket, None if there is none."""
    done = tundish("peek", bucket)
    return int(done.stdout.split()[1]) if done.returncode == 0 else None


@contextlib.contextmanager
def written(text):
    path = os.path.join(shim.DIRECTORY, f"{next(numbers)}.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    try:
        yield path
    finally:
        os.unlink(path)


def started(command, **options):
    """A program to its end, as it is; and how long that took."""
    start = time.monotonic()
    done = subprocess.run(command, env=shim.environment(preload="", **options), timeout=60, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done, time.monotonic() - start


def free(command):
    return Ran(*started(command), None)


def run_by(text, command):
    """Runs a command by the text of a configuration file."""
    with written(text) as path:
        return Ran(*started([shim.TUNDISH, "run", "--config", path, "--", *command]), None)


def run(command, hooks, calls=None, rate="1/d", burst=PLENTY, initial=None, **rule):
    """Runs a command with one rule for these hooks: {name: keys of its section}, or a list of names."""
    hooks = hooks if isinstance(hooks, dict) else {name: {} for name in hooks}
    bucket = f"bucket-{next(numbers)}"
    unit = "B" if "B" in rate else ""
    text = "\n".join([section("bucket", bucket, {"rate": rate, "burst": f"{burst}{unit}", "initial": initial}),
                      section("rule", "hooks", {"calls": calls or ", ".join(hooks), "bucket": bucket, **rule}),
                      *(hook(name, **keys) for name, keys in hooks.items())])
    ran = run_by(text, command)
    rest = left(bucket)
    ran.tokens = None if rest is None else burst - rest
    tundish("rm", bucket)
    return ran


def guest(case, hooks, tokens, what, **keys):
    """A case of the guest says the same with and without hooks, and takes so many tokens."""
    command = [GUEST, *case.split()]
    alone, ran = free(command), run(command, hooks, **keys)
    check(ran.is_as(alone) and ran.tokens == tokens, f"{case}: {what}",
          f"{tokens} tokens" if ran.is_as(alone) and ran.tokens == tokens
          else f"{tokens} expected: {ran!r}, without: {alone!r}")
    return ran


def in_time(seconds, ran, what, most=SLACK):
    """It took at least so long, and not much longer."""
    check(LEAST * seconds <= ran.seconds <= seconds + most, what, f"{ran.seconds:.3f} of {seconds} s")


def main(*cases):
    if not shim.PRELOAD or not shim.TUNDISH:
        skip("no preloaded library or no command was built")
    for case in cases:
        if not PARTS or any(part in case.__name__ for part in PARTS):
            case()
    shim.finish()
