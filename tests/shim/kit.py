# SPDX-License-Identifier: MIT
"""What the shim's scripts share: the sink, limited commands, and a report of checks."""
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["KIT_SOURCE"]
PRELOAD = os.environ.get("KIT_PRELOAD_LIB", "")
TUNDISH = os.environ.get("KIT_BIN", "")
DIRECTORY = os.environ["TUNDISH_DIR"]

failures = []


def check(condition, what, detail=""):
    print("ok" if condition else "FAILED", what, detail, flush=True)
    if not condition:
        failures.append(what)


def finish():
    sys.exit(1 if failures else 0)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def environment(preload=PRELOAD, **words):
    """Ours without its TUNDISH_ words but for the directory, with the library and these words."""
    result = {k: v for k, v in os.environ.items() if not k.startswith("TUNDISH_") or k == "TUNDISH_DIR"}
    if preload:
        result["LD_PRELOAD"] = preload
    result.update({"TUNDISH_" + k: v for k, v in words.items()})
    return result


def run(command, preload=PRELOAD, timeout=60, **words):
    """A limited command to its end: status, stdout, stderr."""
    return subprocess.run(command, env=environment(preload, **words), timeout=timeout, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def answered(script, env, timeout=60):
    """What a script that begins with rules_guest.py answers (None if it does not), and how it ended."""
    with tempfile.TemporaryFile() as page:
        page.truncate(65536)
        env = {**env, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "RULES_ANSWER": str(page.fileno())}
        done = subprocess.run([sys.executable, "-c", "from rules_guest import *\n" + script], env=env, timeout=timeout,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              pass_fds=[page.fileno()], check=False)
        page.seek(0)
        text = page.read().split(b"\0")[0]
    return json.loads(text) if text else None, done


def answer_of(script, **words):
    """The answer of a limited script, which must end well."""
    answer, done = answered(script, environment(**words))
    if done.returncode != 0 or answer is None:
        check(False, "ends well: " + " ".join(f"{k}={v}" for k, v in words.items()), repr(done.stderr))
    return answer


class Sink:
    """tests/kit/sink.py, for a number of uploads."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(SOURCE, "tests/kit/sink.py"), "--lifetime", "60", *arguments],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/"

    def summary(self):
        """Ends it; the sum of all uploads."""
        self.process.terminate()
        lines = self.process.communicate(timeout=30)[0].splitlines()
        return json.loads(lines[-1])
