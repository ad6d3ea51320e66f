#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Java uploads by Socket, channels, HttpClient and datagrams, over its IPv6 sockets and with its threads."""
import os
import shutil
import subprocess

import kit

CLASSES = os.path.join(kit.shim.DIRECTORY, "classes")


def upload(t, how, port):
    t.run(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", CLASSES, "Upload",
           how, port, t.file])


def upload_raw(t, how):
    sink = t.sink("--raw")
    upload(t, how, sink.port)
    t.arrived(sink)


@kit.case("java", "javac")
def java_uploads_by_socket(t):
    upload_raw(t, "socket")


@kit.case("java", "javac")
def java_uploads_by_transfer_from_a_file(t):
    upload_raw(t, "transfer")


@kit.case("java", "javac")
def java_uploads_by_selector_and_writev(t):
    upload_raw(t, "selector")


# many small writes, each of which goes through several threads when the line is slow
@kit.case("java", "javac", slow_line=True)
def java_uploads_by_its_http_client(t):
    sink = t.sink()
    upload(t, "http", sink.port)
    t.arrived(sink)


@kit.case("java", "javac")
def java_uploads_by_datagrams(t):
    udp = t.udp()
    upload(t, "udp", udp.port)
    t.datagrams_arrived(udp)


if shutil.which("javac"):
    subprocess.run(["javac", "-d", CLASSES, os.path.join(kit.HERE, "Upload.java")], check=True,
                   env=kit.shim.environment(preload=""))
kit.main()
