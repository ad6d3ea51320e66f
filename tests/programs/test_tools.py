#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tools that move bytes: nc, socat, ncat, pv, lftp, ab, iperf3, aria2 and dig, each by the calls it likes."""
import kit


def upload_raw(t, command, stdin=False):
    """A command that sends the file; {port} and {file} in its words."""
    sink = t.sink("--raw")
    with open(t.file, "rb") as content:
        t.run([word.format(port=sink.port, file=t.file) for word in command],
              **({"stdin": content} if stdin else {}))
    t.arrived(sink)


@kit.case("nc.openbsd")
def nc_sends_its_input(t):
    upload_raw(t, ["nc.openbsd", "-N", "127.0.0.1", "{port}"], stdin=True)


@kit.case("socat")
def socat_sends_a_file(t):
    upload_raw(t, ["socat", "-u", "FILE:{file}", "TCP4:127.0.0.1:{port}"])


@kit.case("ncat")
def ncat_sends_its_input(t):
    upload_raw(t, ["ncat", "--send-only", "127.0.0.1", "{port}"], stdin=True)


@kit.case("pv", "bash")
def pv_writes_to_a_socket(t):
    upload_raw(t, ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{port}; pv -q {file} >&3"])


@kit.case("pv", "bash")
def pv_splices_to_a_socket(t):
    upload_raw(t, ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{port}; cat {file} | pv -q >&3"])


@kit.case("lftp")
def lftp_puts_a_file(t):
    sink = t.sink()
    t.run(["lftp", "--norc", "-c", f"put -O http://127.0.0.1:{sink.port}/ {t.file}"],
          env={"HOME": t.directory})
    t.arrived(sink)


@kit.case("ab", size=100_000)
def ab_posts_from_five_clients(t):
    requests = 30
    t.meter.expect(requests * t.size)
    sink = t.sink(uploads=requests)
    t.run(["ab", "-q", "-n", requests, "-c", "5", "-p", t.file, "-T", "application/octet-stream",
           f"http://127.0.0.1:{sink.port}/"])
    t.arrived(sink)


def iperf3(t, *arguments):
    server = kit.free_port()
    t.serve(["iperf3", "-s", "-p", server, "-B", "127.0.0.1"], server)
    t.run(["iperf3", "-c", "127.0.0.1", "-p", t.relay(server), "-n", t.size, "-l", "32K", *arguments])
    if t.is_limited and t.meter.total < t.size:  # else the server has enough before all has come
        raise kit.Wrong(f"{t.meter.total} bytes came")


@kit.case("iperf3")
def iperf3_sends(t):
    iperf3(t)


@kit.case("iperf3")
def iperf3_sends_without_copying(t):
    iperf3(t, "-Z")


@kit.case("aria2c", CALLS="down")
def aria2_takes_what_it_reads(t):
    urls = t.parts()
    with open(t.path("urls"), "w", encoding="ascii") as f:
        f.write("\n".join(urls))
    t.run(["aria2c", "--no-conf", "-q", "-j1", "--file-allocation=none", "-d", t.path("got"),
           "-i", t.path("urls")], env={"HOME": t.directory})
    t.took(t.path("got"), urls)


def no_such_name(query):
    """The answer to a DNS query: its question, and that the name is not there."""
    end = query.index(b"\0", 12) + 5
    return query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + query[12:end]


QUERY = 60  # bytes: header, name of 42 letters in two labels, type and class


@kit.case("dig", size=60 * QUERY, rate=2500, burst=2 * QUERY)
def dig_asks_sixty_times(t):
    udp = t.udp(no_such_name)
    count = t.size // QUERY
    with open(t.path("names"), "w", encoding="ascii") as f:
        f.write("".join(f"{n:030d}.example.not\n" for n in range(count)))
    t.run(["dig", "-r", "@127.0.0.1", "-p", udp.port, "+noedns", "+nocookie", "+tries=1",
           "-f", t.path("names")])
    names = {datagram[13:43].decode() for datagram in udp.datagrams}
    if names != {f"{n:030d}" for n in range(count)}:
        raise kit.Wrong(f"{len(names)} of {count} questions came")


kit.main()
