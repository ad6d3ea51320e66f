#!/bin/sh
# SPDX-License-Identifier: MIT
# What run's options tell the command, and the buckets that it makes for them.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
need_shim

# told PATTERN ARGS...: the rules of the command, without the directory.
told() {
    pattern=$1
    shift
    # What the shell itself was given: an env of its own would be given what --inherit leaves.
    works run "$@" -- sh -c 'tr "\\0" "\\n" </proc/$$/environ | grep ^TUNDISH_ | grep -v ^TUNDISH_DIR | sort | sed "s,$TUNDISH_DIR/,,"'
    prints "$pattern"
}

# Each direction has a bucket of its own.
told 'TUNDISH_BUCKET=run-*-up
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes' --up 1MB/s
told 'TUNDISH_BUCKET=run-*-down
TUNDISH_CALLS=down
TUNDISH_COUNT=bytes' --down 1MB/s
told 'TUNDISH_BUCKET=run-*-connect
TUNDISH_CALLS=connect
TUNDISH_COUNT=calls' --connect 10/s
told 'TUNDISH_2_BUCKET=run-*-down
TUNDISH_2_CALLS=down
TUNDISH_2_COUNT=bytes
TUNDISH_BUCKET=run-*-up
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes' --up 1MB/s --down 2MB/s
told 'TUNDISH_2_BUCKET=run-*-up
TUNDISH_2_CALLS=up
TUNDISH_2_COUNT=bytes
TUNDISH_3_BUCKET=run-*-down
TUNDISH_3_CALLS=down
TUNDISH_3_COUNT=calls
TUNDISH_4_BUCKET=run-*-connect
TUNDISH_4_CALLS=connect
TUNDISH_4_COUNT=calls
TUNDISH_BUCKET=run-*
TUNDISH_CALLS=sendfile
TUNDISH_COUNT=bytes' --connect 5/s --down 10/s --up 1MB/s --rate 3MB/s --calls sendfile

# All are there while the command runs, with the rates asked for; the burst is each one's.
works run --up 1MB/s --down 2MB/s --connect 4/s --burst 500ms sh -c '
    for name in "$TUNDISH_BUCKET" "$TUNDISH_2_BUCKET" "$TUNDISH_3_BUCKET"; do
        "$0" peek "$name" | sed -n -e "s/^capacity //p" -e "s/^rate //p"
    done' "$bin"
prints '500000
1 MB/s
1000000
2 MB/s
2
4/s'
works run --rate 1/s sh -c 'ls "$TUNDISH_DIR"'
prints 'run-[0-9]*[0-9]'
tundish run --up 1MB/s --down 2MB/s --verbose true
exits 0
says "tundish: $TUNDISH_DIR/run-*-up: 1 MB/s, burst 200 kB by default
tundish: $TUNDISH_DIR/run-*-down: 2 MB/s, burst 400 kB by default*"
told 'TUNDISH_BUCKET=run-*-up
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes' --up 1000/s --count bytes

# A run that fails half-way leaves none.
"$bin" run --rate 1/s true # which sweeps
rm -f "$TUNDISH_DIR"/run-*
tundish_with TUNDISH_NONSENSE=1 run --up 1MB/s --down 2MB/s true
exits 125
tundish run --up 1MB/s --down 2MB/s /
exits 126
tundish run --up 1/s --down 4000000000/us true
exits 64
tundish run --up 1MB/s --down 2MB/s --connect 1/s --dest :443,unix nosuchcommand
exits 127
same "$(find "$TUNDISH_DIR" -name 'run-*')" '' 'buckets of runs that failed'

# Where, what if it is empty, for whom: of all rules.
told 'TUNDISH_2_BUCKET=run-*-down
TUNDISH_2_CALLS=down
TUNDISH_2_COUNT=bytes
TUNDISH_2_DEST=10.0.0.0/8,:443
TUNDISH_2_MAX_WAIT=500ms
TUNDISH_2_WHEN_EMPTY=refuse:EACCES
TUNDISH_BUCKET=run-*-up
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes
TUNDISH_DEST=10.0.0.0/8,:443
TUNDISH_INHERIT=always
TUNDISH_MAX_WAIT=500ms
TUNDISH_WHEN_EMPTY=refuse:EACCES' --up 1MB/s --down 1MB/s --dest 10.0.0.0/8,:443 --when-empty refuse:EACCES \
    --max-wait 500ms --inherit always
works create api --rate 10/s
told 'TUNDISH_BUCKET=api
TUNDISH_COUNT=calls
TUNDISH_DEST=unix
TUNDISH_INHERIT=never
TUNDISH_WHEN_EMPTY=drop' -b api --dest unix --inherit never --when-empty drop

# A dry run: nothing held, and a report.
tundish run --dry-run --up 1MB/s --connect 1/s -- sh -c 'env | grep -e EMPTY -e VERBOSE | sort'
exits 0
prints 'TUNDISH_2_WHEN_EMPTY=observe
TUNDISH_VERBOSE=1
TUNDISH_WHEN_EMPTY=observe'
tundish run --dry-run --when-empty observe --rate 1/s true
exits 0

# Quotas of each process.
tundish run --per-process --up 1MB/s --connect 10/s --burst 1s -- \
    sh -c 'env | grep ^TUNDISH_ | grep -v ^TUNDISH_DIR | sort'
exits 0
prints 'TUNDISH_2_BURST=1s
TUNDISH_2_CALLS=connect
TUNDISH_2_COUNT=calls
TUNDISH_2_RATE=10/s
TUNDISH_BURST=1s
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes
TUNDISH_RATE=1MB/s'
tundish run --per-process --up 1MB/s --connect 10/s --verbose true
exits 0
says '*tundish: run: 1 MB/s, burst 200 kB for each process: up
tundish: run: 10/s, burst 10 for each process: connect*'
