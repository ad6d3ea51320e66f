#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sink counts what it is sent, by each way of sending it, and always ends by itself."""
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SINK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sink.py")


class Sink:
    def __init__(self, *options):
        self.process = subprocess.Popen([sys.executable, SINK, "--lifetime", "60", *options],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def records(self):
        text, _ = self.process.communicate(timeout=50)
        return [json.loads(line) for line in text.splitlines()]


class SinkTest(unittest.TestCase):
    def put(self, port, **request):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("PUT", "/x", **request)
            self.assertEqual(connection.getresponse().read(), b"thanks\n")
        finally:
            connection.close()

    def test_counts_a_body_of_known_length(self):
        with Sink("--requests", "1") as sink:
            self.put(sink.port, body=b"a" * 300000)
            upload, summary = sink.records()
            self.assertEqual(upload["bytes"], 300000)
            self.assertEqual((summary["bytes"], summary["uploads"], summary["why"]), (300000, 1, "requests"))
            self.assertEqual(summary["start"], upload["start"])

    def test_counts_a_chunked_body(self):
        with Sink("--requests", "1") as sink:
            self.put(sink.port, body=iter([b"a" * 1000, b"b" * 70000]), encode_chunked=True,
                     headers={"Transfer-Encoding": "chunked"})
            self.assertEqual(sink.records()[0]["bytes"], 71000)

    def test_one_connection_may_carry_several_uploads(self):
        with Sink("--requests", "3") as sink:
            connection = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=30)
            for size in (1, 0, 5000):
                connection.request("POST", "/", body=b"x" * size)
                connection.getresponse().read()
            connection.close()
            self.assertEqual([record["bytes"] for record in sink.records()], [1, 0, 5000, 5001])

    def test_says_continue_when_asked(self):
        with Sink("--requests", "1") as sink, socket.create_connection(("127.0.0.1", sink.port), 30) as peer:
            peer.sendall(b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            self.assertTrue(peer.recv(100).startswith(b"HTTP/1.1 100 "))
            peer.sendall(b"abc")
            self.assertTrue(peer.recv(100).startswith(b"HTTP/1.1 200 "))
            self.assertEqual(sink.records()[0]["bytes"], 3)

    def raw_upload(self, pause):
        with Sink("--raw", "--requests", "1") as sink:
            with socket.create_connection(("127.0.0.1", sink.port), 30) as peer:
                peer.sendall(b"a" * 100)
                time.sleep(pause)
                peer.sendall(b"b" * 900)
            upload, _ = sink.records()
            self.assertEqual(upload["bytes"], 1000)
            return upload["seconds"]

    def test_raw_counts_until_the_end_and_measures_time(self):
        # A sink that gets no processor finds both parts at once: then with a longer pause.
        pauses = (0.1, 0.4, 1.6, 6.4)
        self.assertTrue(any(self.raw_upload(pause) > pause / 2 for pause in pauses))

    def test_says_the_digest_when_asked(self):
        body = bytes(range(256)) * 1000
        with Sink("--sha256", "--requests", "1") as sink:
            self.put(sink.port, body=body)
            self.assertEqual(sink.records()[0]["sha256"], hashlib.sha256(body).hexdigest())

    @unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
    def test_speaks_tls(self):
        with tempfile.TemporaryDirectory() as directory:
            pem = os.path.join(directory, "pem")
            subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost", "-keyout", pem, "-out", pem + ".crt"],
                           check=True, stderr=subprocess.DEVNULL)
            with open(pem + ".crt", encoding="ascii") as crt, open(pem, "a", encoding="ascii") as both:
                both.write(crt.read())
            with Sink("--tls", pem, "--requests", "1") as sink:
                connection = http.client.HTTPSConnection("localhost", sink.port, timeout=30,
                                                         context=ssl.create_default_context(cafile=pem))
                connection.request("PUT", "/", body=b"a" * 100000)
                connection.getresponse().read()
                connection.close()
                self.assertEqual(sink.records()[0]["bytes"], 100000)

    def test_serves_many_at_once(self):
        with Sink("--requests", "20") as sink:
            threads = [threading.Thread(target=self.put, args=(sink.port,), kwargs={"body": b"x" * 100000})
                       for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sink.records()[-1]["bytes"], 2000000)

    def test_a_signal_brings_the_summary(self):
        with Sink() as sink:
            sink.process.send_signal(signal.SIGTERM)
            summary, = sink.records()
            self.assertEqual((summary["why"], summary["bytes"], summary["rate"]), ("signal", 0, None))
            self.assertEqual(sink.process.returncode, 0)

    def test_idleness_and_age_end_it(self):
        with Sink("--idle-timeout", "0.2") as sink:
            self.assertEqual(sink.records()[-1]["why"], "idle")
        with Sink("--lifetime", "0.2") as sink:
            self.assertEqual(sink.records()[-1]["why"], "lifetime")


if __name__ == "__main__":
    unittest.main()
