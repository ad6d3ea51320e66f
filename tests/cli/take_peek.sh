#!/bin/sh
# SPDX-License-Identifier: MIT
# take takes all or nothing at once; peek looks and takes nothing.
. "$(dirname "$0")/kit.sh"

works create api --rate 1/d --burst 10
works take api
works take api 3
same "$(value available api)" 6 'tokens after taking 1 and 3'
tundish take api 7
exits 75
says ''
prints ''
same "$(value available api)" 6 'tokens after a refusal'
works take api 0
works take api 6
tundish take api
exits 75
tundish take api 11
exits 1
says 'tundish: api: never holds 11 tokens at once, its capacity is 10'

tundish peek api 2
exits 0
says ''
prints 'available 0
capacity 10
rate 1/d
wait 1[67]*[0-9] s
waiting 0
oldest_wait 0 s'

works create bytes --rate 1kB/d --burst 64KiB
works take bytes 64KiB
tundish peek bytes
prints 'available 0
capacity 65536
rate 1 kB/d
wait * s
waiting 0
oldest_wait 0 s'
works reset bytes
tundish peek bytes
prints '*
wait 0 s
*'

tundish take api 1.5
exits 64
says "tundish: count '1.5': is no whole number"
tundish take api 3M
exits 64
says "tundish: count '3M': 'M' is ambiguous: *"
for command in take peek; do
    tundish $command nowhere
    exits 1
    says "tundish: nowhere: no such bucket*"
    echo text > "$TUNDISH_DIR/file"
    tundish $command file
    exits 1
    says 'tundish: file: not a bucket*'
    tundish $command
    exits 64
    tundish $command api 1 2
    exits 64
    says "tundish: $command: needs NAME and perhaps a count; try 'tundish help $command'"
done
