#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Uploads by https, limited where they go into the TLS library: OpenSSL's and GnuTLS', by hooks."""
import kit

# http.client reads and sends a file in pieces; one that is sent as a whole would wait as a whole.
PYTHON = """
import http.client, os, ssl, sys
port, certificate, name = sys.argv[1:]
connection = http.client.HTTPSConnection("localhost", int(port), context=ssl.create_default_context(cafile=certificate))
with open(name, "rb") as file:
    connection.request("PUT", "/", file, {"Content-Length": str(os.path.getsize(name))})
connection.getresponse().read()
"""


def hooked(t, function, command):
    """Runs a command by a configuration file, which tundish run replaces itself with."""
    if t.is_limited:
        with open(t.path("hooks.conf"), "w", encoding="utf-8") as f:
            f.write(f'[bucket "{t.bucket}"]\nrate = {t.case.rate}B/s\nburst = {t.case.burst}B\n'
                    f'[rule "hooks"]\nbucket = {t.bucket}\ncalls = {function}\n')
        command = [kit.shim.TUNDISH, "run", "--config", t.path("hooks.conf"), "--", *command]
    process = t.start(command, limited=False)
    t.watched.append(process.pid)
    t.finish(process)
    if process.returncode:
        raise kit.Wrong(f"{function}: it ends badly")


def upload(t, function, words):
    """Runs a command, limited by a rule for this function; {url}, {port} and {crt} in its words."""
    sink = t.sink("--tls", t.pem())
    command = [word.format(url=sink.url, port=sink.port, crt=t.pem() + ".crt") for word in words]
    hooked(t, function, command)
    t.arrived(sink)


@kit.case("curl", "openssl", rate=1_000_000)
def curl_uploads_by_SSL_write(t):
    upload(t, "SSL_write", ["curl", "-sS", "-o", "/dev/null", "--cacert", "{crt}", "-T", t.file, "{url}"])


@kit.case("wget", "openssl", rate=1_000_000)
def wget_uploads_by_gnutls_record_send(t):
    upload(t, "gnutls_record_send", ["wget", "--no-config", "-q", "-O", "/dev/null", "--ca-certificate", "{crt}",
                                     "--post-file", t.file, "{url}"])


@kit.case("openssl", rate=1_000_000)
def python_uploads_by_SSL_write_ex(t):
    """Its ssl module is loaded where nobody else sees it."""
    with open(t.path("upload.py"), "w", encoding="ascii") as f:
        f.write(PYTHON)
    upload(t, "SSL_write_ex", [kit.PYTHON, "-I", t.path("upload.py"), "{port}", "{crt}", t.file])


kit.main()
