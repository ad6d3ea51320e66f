#!/bin/sh
# SPDX-License-Identifier: MIT
# status shows all buckets it can and says which it cannot.
. "$(dirname "$0")/kit.sh"

tundish status
exits 0
prints ''
says "tundish: no buckets in $TUNDISH_DIR"

works create calls --rate 10/s
works create bytes --rate 1kB/d --burst 64KiB --initial 0
works status
prints 'NAME*RATE*BURST*TOKENS*FULL IN*WAITING*OLDEST*PROCESSES
bytes*1 kB/d*64 KiB*0 B*65 d * h*0
calls*10/s*10*10*full*0*-*0'

works status calls
same "$(wc -l < "$work/out")" 2 'lines for one bucket'

echo text > "$TUNDISH_DIR/file"
tundish status nowhere calls file bytes
exits 1
same "$(wc -l < "$work/out")" 3 'lines for two buckets'
says 'tundish: nowhere: no such bucket*
tundish: file: not a bucket*'
tundish status
exits 1
says 'tundish: file: not a bucket*'
prints '*bytes *
calls *'
rm "$TUNDISH_DIR/file"

# A bucket that lost its end, or whose name has a %, is no other thing for that.
head -c 300000 "$TUNDISH_DIR/calls" > "$TUNDISH_DIR/100%"
tundish status
exits 1
says 'tundish: 100%: not a bucket (too short: 300000 bytes, a bucket has [0-9]*)'
rm "$TUNDISH_DIR/100%"

(
    TUNDISH_DIR=$work/missing
    export TUNDISH_DIR
    tundish status
    exits 0
    says "tundish: no buckets in $work/missing"
) || exit 1

# No escape sequences where nobody asked for them.
! grep -q "$(printf '\033')" "$work/out"
