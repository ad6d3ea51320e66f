#!/bin/sh
# SPDX-License-Identifier: MIT
# run becomes the command, in its environment and with its status.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
need_shim

works run --rate 1/s -- true
tundish run --rate 1/s sh -c 'exit 7'
exits 7
tundish run --rate 1/s sh -c 'kill -9 $$'
exits 137

works run --rate 10/s --burst 3 sh -c 'echo $$ "$TUNDISH_BUCKET" "$TUNDISH_COUNT" "$LD_PRELOAD"'
read -r pid bucket count preload < "$work/out"
same "$bucket" "$TUNDISH_DIR/run-$pid" "the run's own bucket, named after the command's process"
same "$count" calls 'count'
same "$preload" "$(realpath "$shim")" 'preload list'
same "$(value capacity "$bucket")" 3 "burst of the run's bucket"
same "$(value rate "$bucket")" 10/s "rate of the run's bucket"

# A later run sweeps it, and only it.
works create run-keeper --rate 1/s
"$bin" run --rate 1/s sh -c 'echo ready; exec sleep 60' > "$work/ready" &
sleeper=$!
while [ ! -s "$work/ready" ]; do
    sleep 0.02
done
works run --rate 1/s true
[ ! -e "$bucket" ] || fail 'the bucket of a run that is over is still there'
[ -e "$TUNDISH_DIR/run-$sleeper" ] || fail 'the bucket of a living run was swept'
kill $sleeper
wait $sleeper 2> /dev/null

# The rule is spelled out for the command, and what was there before does not leak in.
tundish_with TUNDISH_BURST='' run --rate 5MiB/s --calls write,send sh -c 'env | grep ^TUNDISH_ | sort'
exits 0
says ''
prints "TUNDISH_BUCKET=$TUNDISH_DIR/run-*
TUNDISH_CALLS=write,send
TUNDISH_COUNT=bytes
TUNDISH_DIR=*"

works run --per-process --rate 5MiB/s --burst 1MiB sh -c 'env | grep ^TUNDISH_ | sort'
prints 'TUNDISH_BURST=1MiB
TUNDISH_COUNT=bytes
TUNDISH_DIR=*
TUNDISH_RATE=5MiB/s'

tundish run --rate 10/s --count bytes --verbose true
exits 0
says "tundish: $TUNDISH_DIR/run-*: 10 B/s, burst 64 KiB by default*"
tundish run --rate 10/s --per-process --verbose true
exits 0
says '*tundish: run: 10/s, burst 10 for each process*'

# Appended, never twice, never replacing.
# (The loader grumbles about a library that is nowhere; one that is there would get in a sanitizer's way.)
tundish_with LD_PRELOAD=libnowhere.so run --rate 1/s sh -c 'echo "$LD_PRELOAD"'
exits 0
prints "libnowhere.so:$(realpath "$shim")"
tundish_with LD_PRELOAD="$(realpath "$shim") libnowhere.so" run --rate 1/s sh -c 'echo "$LD_PRELOAD"'
exits 0
prints "$(realpath "$shim") libnowhere.so"

# Options end at the command.
works run --rate 1/s echo --rate -b
prints '--rate -b'

# A descendant with another directory of names and another working directory finds the bucket.
(
    cd "$TUNDISH_DIR" || exit 1
    tundish_with TUNDISH_DIR=. run --rate 1/s sh -c 'echo "$TUNDISH_BUCKET"'
    exits 0
    says ''
    prints '/*/run-*'
) || exit 1

tundish run --rate 1/s --verbose true
tundish_with TUNDISH_NONSENSE=1 run --rate 1/s true
exits 125
says 'tundish: TUNDISH_NONSENSE: no such setting'

# Connects are calls, whatever says that bytes are to be counted.
works create bytes --rate 1kB/s
keep sh -c 'echo $$; exec "$0" run --rate 1MB/s --calls connect true' "$bin"
exits 125
says 'tundish: TUNDISH_CALLS=connect: a connect has no bytes; TUNDISH_COUNT=calls counts it'
[ ! -e "$TUNDISH_DIR/run-$(cat "$work/out")" ] || fail 'the bucket of a run that did not start is left'
tundish_with TUNDISH_CALLS=connect run --per-process --rate 1MB/s true
exits 125
says 'tundish: TUNDISH_CALLS=connect: a connect has no bytes; *'
tundish run -b bytes --calls connect true
exits 125
says 'tundish: TUNDISH_CALLS=connect: a connect has no bytes; TUNDISH_COUNT=calls counts it'
works run -b bytes --calls connect --count calls true
works run -b bytes --calls connect,send true
works rm bytes

# What is for the launcher itself is not for the command, which has its process number.
tundish_with TUNDISH_RELAUNCHED=1 run --rate 1/s sh -c 'echo "${TUNDISH_RELAUNCHED-none}"'
exits 0
prints none

tundish_with TUNDISH_OFF=1 run --rate 1/s true
exits 0
says 'tundish: run: TUNDISH_OFF is set: the command runs without any limit'
