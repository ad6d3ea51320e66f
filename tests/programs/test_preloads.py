#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library beside another that is preloaded, first and last: allocators, which look for functions before
there is a heap."""
import subprocess

import kit


def is_there(library):
    done = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False)
    return library in done.stdout


def upload(t, *libraries):
    sink = t.sink()
    preload = " ".join(library or kit.shim.PRELOAD for library in libraries if library or t.is_limited)
    t.run(["curl", "-sS", "-o", "/dev/null", "-T", t.file, sink.url], env={"LD_PRELOAD": preload})
    t.arrived(sink)


if is_there("libjemalloc.so.2"):
    @kit.case("curl")
    def curl_uploads_with_jemalloc_before_the_library(t):
        upload(t, "libjemalloc.so.2", None)

    @kit.case("curl")
    def curl_uploads_with_jemalloc_after_the_library(t):
        upload(t, None, "libjemalloc.so.2")

if is_there("libtcmalloc_minimal.so.4"):
    @kit.case("curl")
    def curl_uploads_with_tcmalloc_before_the_library(t):
        upload(t, "libtcmalloc_minimal.so.4", None)

    @kit.case("curl")
    def curl_uploads_with_tcmalloc_after_the_library(t):
        upload(t, None, "libtcmalloc_minimal.so.4")

kit.main()
