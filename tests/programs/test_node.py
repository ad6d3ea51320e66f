#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""node uploads: one writev of everything by http, TLS, fetch, and datagrams; and it never blocks its loop."""
import kit


def upload(t, how, port, **options):
    t.run(["node", f"{kit.HERE}/upload.mjs", how, port, t.file], **options)


@kit.case("node")
def node_uploads_by_http(t):
    sink = t.sink()
    upload(t, "http", sink.port)
    t.arrived(sink)


@kit.case("node", "openssl")
def node_uploads_by_https(t):
    sink = t.sink("--tls", t.pem())
    upload(t, "https", sink.port, env={"NODE_EXTRA_CA_CERTS": t.pem() + ".crt"})
    t.arrived(sink)


@kit.case("node")
def node_uploads_by_fetch(t):
    sink = t.sink()
    upload(t, "fetch", sink.port)
    t.arrived(sink)


@kit.case("node")
def node_uploads_by_datagrams(t):
    udp = t.udp()
    upload(t, "dgram", udp.port)
    t.datagrams_arrived(udp)


# the timer of a loop that is throttled is late by no more than this
TICK_LATE_MAX = 0.003 if kit.STRICT else 0.010  # of a timer of 10 ms
LOOP = """
const fs = require("node:fs"), net = require("node:net");
const late = [];
let last = performance.now();
const timer = setInterval(() => { const now = performance.now(); late.push(now - last - 5); last = now; }, 5);
const s = net.connect(Number(process.argv[1]), "127.0.0.1");
s.end(fs.readFileSync(process.argv[2]));
s.on("close", () => {
    clearInterval(timer);
    late.sort((a, b) => a - b);
    console.log(late[Math.floor(late.length * 0.9)]);
});
s.resume();
"""


@kit.case("node")
def node_serves_its_timers_while_it_uploads(t):
    sink = t.sink("--raw")
    late = float(t.run(["node", "-e", LOOP, sink.port, t.file]).decode().replace("undefined", "0")) / 1e3
    t.arrived(sink)
    t.note(f"timers late, p90: {1e3 * late:.1f} ms")
    t.in_time(late <= TICK_LATE_MAX)


kit.main()
