#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What status writes for other programs can be read by them, whatever names buckets have, and says what was done.

Usage: status_formats.py VICTIM, which is storm_victim."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = os.environ["KIT_BIN"]
VICTIM = sys.argv[1]
DIR = Path(os.environ["TUNDISH_DIR"])
ESCAPES = {"\\": "\\", '"': '"', "n": "\n"}
HOSTILE = [b'quo"te', b"back\\slash", b"new\nline", b"\xff\xfe", b"100%", b"%p", b"\\xff", b"\xc2\x9b31m", b"two words",
           "\u00e9\u20ac\U0001f600".encode(), b"{le=}", b"\xed\xa0\x80", b"\xc0\xaf", b"\xe2\x82", b"\xff" * 255]


def tundish(*words, status=0):
    done = subprocess.run([BIN, *words], capture_output=True, timeout=60, check=False)
    assert done.returncode == status, (words, done)
    return done


def observed(*names):
    return json.loads(tundish("status", "--json", *names).stdout.decode())["buckets"]


def one(name):
    bucket, = observed(name)
    return bucket


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def unquoted(text):
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], text)


def metrics(text):
    """{family: type} and {(name, labels): value}; each family in one piece, each sample once and of its family."""
    types, samples, family = {}, {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types and re.fullmatch(r"# HELP [a-z0-9_]+ [A-Z].*\.", line), line
            continue
        if line.startswith("# TYPE "):
            _, _, name, types[family] = line.split(" ")
            assert name == family, line
            continue
        name, labels, value = re.fullmatch(r'([a-z0-9_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} (\S+)', line).groups()
        ends = "(_bucket|_sum|_count)" if types[family] == "histogram" else ""
        assert re.fullmatch(family + ends, name), line
        pairs = re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', labels)
        key = name, tuple((label, unquoted(quoted)) for label, quoted in pairs)
        assert key not in samples, key
        samples[key] = float(value)
    return types, samples


def original(label):
    """The bytes of a name, from its label."""
    return re.sub(rb"\\(\\|x(..))", lambda match: bytes([int(match[2], 16)]) if match[2] else b"\\", label.encode())


def histograms(samples):
    """{bucket: [(le, count)]}, and that they add up."""
    found = {}
    for (name, labels), value in samples.items():
        if name == "tundish_wait_seconds_bucket":
            found.setdefault(labels[:-1], []).append((float(dict(labels)["le"]), value))
    for labels, counts in found.items():
        assert counts == sorted(counts) and [n for _, n in counts] == sorted(n for _, n in counts), counts
        assert counts[-1] == (float("inf"), samples["tundish_wait_seconds_count", labels]), counts
        below = [(0, 0), *counts]
        least = sum(le * (n - before) for (le, before), (_, n) in zip(below, counts))
        assert least <= samples["tundish_wait_seconds_sum", labels] * 1.000001, (labels, least)
    return found


def raw_blocks(text):
    blocks = []
    for line in text[:-1].split("\n"):
        key, _, value = line.partition(" ")
        if key == "name":
            blocks.append({})
        blocks[-1][key] = value
    return blocks


def counts_are_what_was_done():
    tundish("create", "api", "--rate", "1/d", "--burst", "20")
    tundish("take", "api", "3")
    tundish("take", "api", "2")
    tundish("take", "api", "16", status=75)
    tundish("wait", "api", "4")
    tundish("wait", "api", "12", "--timeout", "20ms", status=124)
    bucket = one("api")
    assert (bucket["granted_total"], bucket["refused_total"], bucket["ended_total"]) == (3, 1, 1), bucket
    assert (bucket["tokens_granted_total"], bucket["tokens"], bucket["capacity"]) == (9, 11, 20), bucket
    tries = {"granted_total": 2, "refused_total": 1, "ended_total": 0, "tokens_granted_total": 5}
    assert bucket["kinds"]["try"] == tries, bucket
    assert bucket["kinds"]["acquire"]["tokens_granted_total"] == 4, bucket
    assert 0.02 <= bucket["wait_seconds_total"] < 60 and bucket["waits_total"] == 0, bucket
    assert (bucket["unit"], bucket["processes"], bucket["instances"]) == ("calls", 0, []), bucket
    assert abs(bucket["rate_per_second"] * 86400 - 1) < 1e-9, bucket


def waits_are_in_the_histogram():
    tundish("create", "slow", "--rate", "20/s", "--burst", "1")
    tundish("take", "slow")
    for _ in range(3):
        tundish("wait", "slow", "4")  # of which the bucket holds one
    bucket = one("slow")
    waits = bucket["waits_total"]
    assert waits == 3 and 0.1 < bucket["wait_seconds_p50"] <= bucket["wait_seconds_p99"] < 60, bucket
    types, samples = metrics(tundish("status", "--prom", "slow").stdout.decode())
    assert types["tundish_wait_seconds"] == "histogram" and types["tundish_waiting"] == "gauge", types
    assert all(kind == "counter" for name, kind in types.items() if name.endswith("_total")), types
    counts, = histograms(samples).values()
    assert counts[-1][1] == waits
    labels = (("bucket", "slow"), ("unit", "calls"))
    assert abs(samples["tundish_wait_seconds_sum", labels] - bucket["wait_seconds_total"]) < 1e-9
    assert samples["tundish_granted_total", labels] == bucket["granted_total"] == 4


def every_name_can_be_read():
    for name in HOSTILE:
        shutil.copy(DIR / "slow", os.fsencode(DIR) + b"/" + name)
    names = {name for name in os.listdir(os.fsencode(DIR)) if not name.startswith(b".")}
    told = {bucket["name"] for bucket in observed()}
    for name in names:
        try:
            assert name.decode() in told, name
        except UnicodeDecodeError:
            assert any("\ufffd" in other for other in told)
    _, samples = metrics(tundish("status", "--prom").stdout.decode())
    assert {original(dict(labels)["bucket"]) for _, labels in samples} == names
    assert len(histograms(samples)) == len(names)
    raw = tundish("status", "--raw").stdout.decode()
    assert {original(block["name"]) for block in raw_blocks(raw)} == names
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", raw)
    assert len(tundish("status").stdout.split(b"\n")) == len(names) + 2
    for name in HOSTILE:
        os.unlink(os.fsencode(DIR) + b"/" + name)


def raw_lines_are_the_figures_of_json():
    tundish("create", "bytes", "--rate", "1kB/d", "--burst", "64KiB", "--initial", "5")
    blocks = raw_blocks(tundish("status", "--raw", "bytes", "api").stdout.decode())
    for block, bucket in zip(blocks, observed("bytes", "api")):
        scalars = {key: value for key, value in bucket.items() if not isinstance(value, (list, dict))}
        assert list(block) == list(scalars), block
        for key, value in scalars.items():
            assert block[key] == value if isinstance(value, str) else float(block[key]) == value, (key, block)
    assert [block["unit"] for block in blocks] == ["bytes", "calls"]


def the_dead_are_not_alive():
    with subprocess.Popen([b'p"\\\n%\xff', "wait", "api", "20"], executable=BIN) as waiter:
        until(lambda: one("api")["waiting"] == 1)
        bucket = one("api")
        instance, = bucket["instances"]
        assert instance["alive"] and instance["pid"] == waiter.pid and bucket["processes"] == 1, bucket
        assert instance["program"] == 'p"\\\n%\ufffd' and instance["strategy"] == "direct", instance
        assert instance["granted_total"] == 0 and instance["kinds"]["try"]["granted_total"] == 0, instance
        waiter.kill()
    bucket = one("api")
    assert [(instance["pid"], instance["alive"]) for instance in bucket["instances"]] == [(waiter.pid, False)], bucket
    assert bucket["processes"] == 0, bucket


def instances_count_for_themselves():
    shim = os.environ.get("KIT_PRELOAD_LIB", "")
    if not os.path.exists(shim):
        return
    tundish("create", "writes", "--rate", "1/d", "--burst", "100")
    writer = "for _ in 1 2 3 4 5; do echo x; done; read line"
    with subprocess.Popen([BIN, "run", "-b", "writes", "--calls", "write", "--dest", "pipe", "--", "sh", "-c", writer],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        until(lambda: one("writes")["granted_total"] == 5)
        instance, = one("writes")["instances"]
        assert instance["pid"] == shell.pid and instance["alive"], instance
        assert instance["granted_total"] == instance["tokens_granted_total"] == 5, instance
        shell.communicate(b"\n", timeout=60)
    bucket = one("writes")
    assert bucket["granted_total"] == 5 and not any(instance["alive"] for instance in bucket["instances"]), bucket


def handles_that_find_no_place_are_counted():
    tundish("create", "full", "--rate", "1/d")
    with subprocess.Popen([VICTIM, "full", "crowds"], stdout=subprocess.PIPE) as crowd:
        assert crowd.stdout.readline() == b"ready\n"
        bucket = one("full")
        assert (len(bucket["instances"]), bucket["unlisted_total"], bucket["processes"]) == (64, 6, 1), bucket
        assert not any("unlisted_total" in instance for instance in bucket["instances"]), bucket
        assert tundish("status", "full").stdout.split()[-1] == b"1+"
        crowd.kill()
    types, samples = metrics(tundish("status", "--prom", "full").stdout.decode())
    assert types["tundish_unlisted_total"] == "counter", types
    assert samples["tundish_unlisted_total", (("bucket", "full"), ("unit", "calls"))] == 6, samples
    tundish("rm", "full")


def printed_on_a_terminal(**variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("TERM", "NO_COLOR")}
    mine, terminal = pty.openpty()
    subprocess.run([BIN, "status", "none"], stdout=terminal, env={**environment, **variables}, timeout=60, check=True)
    os.close(terminal)
    text = os.read(mine, 4096)
    os.close(mine)
    return text


def a_terminal_gets_colours_if_it_has_any_and_nobody_minds():
    tundish("create", "none", "--rate", "1/d", "--initial", "0")
    assert b"\x1b" in printed_on_a_terminal(TERM="xterm")
    for variables in {}, {"TERM": ""}, {"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}:
        text = printed_on_a_terminal(**variables)
        assert b"none" in text and b"\x1b" not in text, (variables, text)
    tundish("rm", "none")


def what_cannot_be_read_is_said_elsewhere():
    (DIR / "file").write_text("text")
    done = tundish("status", "--json", "nowhere", "api", "file", status=1)
    assert [bucket["name"] for bucket in json.loads(done.stdout)["buckets"]] == ["api"], done
    assert len(done.stderr.splitlines()) == 2, done
    os.unlink(DIR / "file")
    assert json.loads(tundish("status", "--json", "nowhere", status=1).stdout) == {"buckets": []}
    assert len(observed("api", "api")) == 1


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for test in (counts_are_what_was_done, waits_are_in_the_histogram, every_name_can_be_read,
                 raw_lines_are_the_figures_of_json, the_dead_are_not_alive, instances_count_for_themselves,
                 handles_that_find_no_place_are_counted, a_terminal_gets_colours_if_it_has_any_and_nobody_minds,
                 what_cannot_be_read_is_said_elsewhere):
        print(test.__name__, flush=True)
        test()


if __name__ == "__main__":
    sys.exit(main())
