#!/bin/sh
# SPDX-License-Identifier: MIT
# create makes buckets as asked and never touches one that is there.
. "$(dirname "$0")/kit.sh"

works create calls --rate 10/s
prints ''
same "$(value capacity calls)" 10 'default burst of calls'
same "$(value available calls)" 10 'a new bucket is full'
same "$(stat -c %a "$TUNDISH_DIR/calls")" 600 'mode'

tundish create calls --rate 20/s
exits 1
says "tundish: calls: exists already*"
same "$(value rate calls)" 10/s 'rate after a second create'

works create bytes --rate 5MiB/s
same "$(value capacity bytes)" 1048576 'default burst of bytes'
same "$(value rate bytes)" '5 MiB/s' 'rate in bytes'
works create trickle --rate 1kB/s
same "$(value capacity trickle)" 65536 'least default burst of bytes'

tundish create shown --rate 8Mbit/s --verbose
exits 0
says 'tundish: shown: 1 MB/s, burst 200 kB by default'
tundish create chosen --rate 10/s --burst 500ms --verbose
exits 0
says 'tundish: chosen: 10/s, burst 5'

works create some --rate 1/d --burst 9 --initial 4
same "$(value available some)" 4 'initial tokens'
works create none --rate 1/d --burst 9 --initial 0
same "$(value available none)" 0 'initial tokens'
tundish create more --rate 1/d --burst 9 --initial 10
exits 64
says 'tundish: create: --initial 10 is more than the burst of 9; *'

umask 077
works create open --rate 1/s --mode 0666
same "$(stat -c %a "$TUNDISH_DIR/open")" 666 'mode, whatever the umask'
for mode in 999 u+w '' 01777 0x1ff; do
    tundish create other --rate 1/s --mode "$mode"
    exits 64
    says 'tundish: create: --mode * is no octal mode such as 0660; *'
done

works create stepped --rate 100/d --stepped --initial 0
same "$(value capacity stepped)" 100 'a stepped bucket holds a step'
works create flags --rate 100/s --unfair --strict

works create half --rate 0.5/s
same "$(value rate half)" 1/2s 'a fraction is exact'
works create fast --rate 10GB/s
same "$(value rate fast)" '10 GB/s' 'a large rate is exact'

works create "$work/by-path" --rate 1/s
[ -f "$work/by-path" ] || exit 1

tundish create huge --rate 1000000000/s --stepped --burst 2000000000
exits 1
says 'tundish: huge: * is more than a bucket can do; lower the rate or the burst'
tundish create /nowhere/at/all --rate 1/s
exits 1
says 'tundish: /nowhere/at/all: its directory does not exist: /nowhere/at'
tundish create .hidden --rate 1/s
exits 1
says 'tundish: .hidden: not a name for a bucket*'
echo kept > "$TUNDISH_DIR/file"
tundish create file --rate 1/s
exits 1
same "$(cat "$TUNDISH_DIR/file")" kept 'a file in the way'
