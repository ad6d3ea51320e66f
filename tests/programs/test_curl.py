#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""curl and wget upload by http and https, and download: send with poll, write, GnuTLS' sendmsg, select."""
import kit


@kit.case("curl")
def curl_uploads_by_http(t):
    sink = t.sink()
    t.run(["curl", "-sS", "-o", "/dev/null", "-T", t.file, sink.url])
    t.arrived(sink)


@kit.case("curl", "openssl")
def curl_uploads_by_https(t):
    sink = t.sink("--tls", t.pem())
    t.run(["curl", "-sS", "-o", "/dev/null", "--cacert", t.pem() + ".crt", "-T", t.file, sink.url])
    t.arrived(sink)


@kit.case("wget")
def wget_uploads_by_http(t):
    sink = t.sink()
    t.run(["wget", "--no-config", "-q", "-O", "/dev/null", "--post-file", t.file, sink.url])
    t.arrived(sink)


@kit.case("wget", "openssl")
def wget_uploads_by_https(t):
    sink = t.sink("--tls", t.pem())
    t.run(["wget", "--no-config", "-q", "-O", "/dev/null", "--ca-certificate", t.pem() + ".crt",
           "--post-file", t.file, sink.url])
    t.arrived(sink)


@kit.case("curl", CALLS="down")
def curl_downloads_by_http(t):
    urls = t.parts()
    t.run(["curl", "-sS", "--output-dir", t.path("got"), "--create-dirs", "--remote-name-all", *urls])
    t.took(t.path("got"), urls)


@kit.case("wget", CALLS="down")
def wget_downloads_by_http(t):
    urls = t.parts()
    t.run(["wget", "--no-config", "-q", "-P", t.path("got"), *urls])
    t.took(t.path("got"), urls)


kit.main()
