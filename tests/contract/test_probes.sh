#!/bin/bash
# SPDX-License-Identifier: MIT
# The probes that the manual names are in the objects, as tracers find them: one note for each, provider tundish.
# Usage: test_probes.sh OBJECT...
set -u
failed=0
for object in "$@"; do
    notes=$(readelf -n --wide "$object" 2>/dev/null)
    for probe in grant refusal wait__start wait__end; do
        if ! grep -A1 'Provider: tundish' <<<"$notes" | grep -q "Name: $probe\$"; then
            echo "$object: no probe $probe"
            failed=1
        fi
    done
done
exit "$failed"
