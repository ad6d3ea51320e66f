#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""git pushes to its daemon and by http, and a limited daemon is cloned from. Several processes hand one
socket on: pack-objects writes to what git has connected."""
import http.server
import os
import subprocess
import threading

import kit

GIT = ["git", "-c", "user.name=somebody", "-c", "user.email=somebody@localhost", "-c", "core.compression=0"]


def environment(t):
    return {"HOME": t.directory, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def repository(t):
    """A repository with the file in its only commit, "work", and an empty one to push to, "bare"."""
    for command in (["init", "-q", "-b", "main", "work"], ["init", "-q", "--bare", "-b", "main", "bare"]):
        t.help([*GIT, *command], env=environment(t))
    os.link(t.file, t.path("work/upload"))
    for command in (["add", "upload"], ["commit", "-q", "-m", "all"]):
        t.help([*GIT, "-C", "work", *command], env=environment(t))


def daemon(t, limited=False):
    port = kit.free_port()
    t.serve(["git", "daemon", "--export-all", "--enable=receive-pack", "--base-path=" + t.directory,
             "--reuseaddr", "--listen=127.0.0.1", f"--port={port}"], port, limited, env=environment(t))
    return port


def push(t, url):
    t.run([*GIT, "-C", "work", "push", "-q", url, "main"], env=environment(t))
    t.same(t.help(["git", "-C", "bare", "show", "main:upload"], env=environment(t)))


@kit.case("git")
def git_pushes_to_a_daemon(t):
    repository(t)
    push(t, f"git://127.0.0.1:{t.relay(daemon(t))}/bare")


@kit.case("git")
def git_daemon_is_cloned_from(t):
    repository(t)
    port = t.relay(daemon(t, limited=True), "down")
    t.help(["git", "clone", "-q", f"git://127.0.0.1:{port}/work", "got"], env=environment(t))
    t.same_file("got/upload")


class Backend(http.server.BaseHTTPRequestHandler):
    """git http-backend as the CGI program of a server that understands chunks."""

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while length := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.body()
        done = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, check=True, env={
            **kit.shim.environment(preload=""), **self.server.environment, "REQUEST_METHOD": self.command,
            "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)), "REMOTE_USER": "somebody", "REMOTE_ADDR": "127.0.0.1"})
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in {**fields, "Content-Length": len(answer)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@kit.case("git")
def git_pushes_by_http(t):
    repository(t)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    server.environment = {**environment(t), "GIT_PROJECT_ROOT": t.directory, "GIT_HTTP_EXPORT_ALL": "1"}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    t.stack.callback(server.server_close)
    t.stack.callback(server.shutdown)
    push(t, f"http://127.0.0.1:{t.relay(server.server_address[1])}/bare")


kit.main()
