#!/bin/sh
# SPDX-License-Identifier: MIT
# A run inside a run adds its rules to the outer ones, and charges no bucket twice.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
need_shim

works create outer --rate 10/s
works create inner --rate 5/s
works create bytes --rate 1MB/s

# nested INNER-ARGS...: runs the program inside a run on outer.
nested() {
    tundish run -b outer "$bin" "$@"
}

# rules: what the command is told, without the directory.
rules='env | grep ^TUNDISH_ | grep -v ^TUNDISH_DIR | sort | sed "s,$TUNDISH_DIR/,,"'

nested run -b inner sh -c "$rules"
exits 0
says ''
prints 'TUNDISH_2_BUCKET=inner
TUNDISH_2_COUNT=calls
TUNDISH_BUCKET=outer
TUNDISH_COUNT=calls'
nested run --rate 1/s sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_2_BUCKET $LD_PRELOAD"'
prints "$TUNDISH_DIR/outer $TUNDISH_DIR/run-* $(realpath "$shim")"
nested run -b inner --verbose true
exits 0
says "*tundish: run: the outer run's limit holds as well: $TUNDISH_DIR/outer*"

# What used to be impossible: another unit, other calls, a quota for each process, other places.
nested run -b bytes sh -c "$rules"
prints 'TUNDISH_2_BUCKET=bytes
TUNDISH_2_COUNT=bytes
TUNDISH_BUCKET=outer
TUNDISH_COUNT=calls'
nested run --rate 1/s --calls write --per-process sh -c "$rules"
prints 'TUNDISH_2_CALLS=write
TUNDISH_2_COUNT=calls
TUNDISH_2_RATE=1/s
TUNDISH_BUCKET=outer
TUNDISH_COUNT=calls'
tundish run --per-process --rate 1/s "$bin" run -b inner --dest unix sh -c "$rules"
prints 'TUNDISH_2_BUCKET=inner
TUNDISH_2_COUNT=calls
TUNDISH_2_DEST=unix
TUNDISH_COUNT=calls
TUNDISH_RATE=1/s'
tundish run --up 1MB/s --dest :443 "$bin" run --down 1MB/s --connect 1/s sh -c "$rules"
prints 'TUNDISH_2_BUCKET=run-*-down
TUNDISH_2_CALLS=down
TUNDISH_2_COUNT=bytes
TUNDISH_3_BUCKET=run-*-connect
TUNDISH_3_CALLS=connect
TUNDISH_3_COUNT=calls
TUNDISH_BUCKET=run-*-up
TUNDISH_CALLS=up
TUNDISH_COUNT=bytes
TUNDISH_DEST=:443'

# A bucket that the outer run takes the same tokens from.
nested run -b outer sh -c "$rules"
prints 'TUNDISH_BUCKET=outer
TUNDISH_COUNT=calls'
nested run -b inner -b "$TUNDISH_DIR/outer" sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_2_BUCKET"'
prints "$TUNDISH_DIR/outer $TUNDISH_DIR/inner"
tundish run -b outer --calls up,connect "$bin" run -b outer --calls send sh -c "$rules"
prints 'TUNDISH_BUCKET=outer
TUNDISH_CALLS=up,connect
TUNDISH_COUNT=calls'
nested run -b outer --calls send sh -c 'echo "$TUNDISH_2_BUCKET $TUNDISH_2_CALLS"'
prints "$TUNDISH_DIR/outer send"
nested run -b outer --dest 10.0.0.0/8 sh -c 'echo "$TUNDISH_2_BUCKET $TUNDISH_2_DEST"'
prints "$TUNDISH_DIR/outer 10.0.0.0/8"
nested run -b outer --count bytes sh -c 'echo "$TUNDISH_2_BUCKET $TUNDISH_2_COUNT"'
prints "$TUNDISH_DIR/outer bytes"
nested run -b outer --when-empty refuse true
exits 125
says 'tundish: */outer: the outer run takes these tokens already, with another --when-empty or --max-wait; *'
tundish_with TUNDISH_ONLY=nobody run -b outer "$bin" run -b outer sh -c 'echo "$TUNDISH_2_BUCKET"'
prints "$TUNDISH_DIR/outer"

# Eight rules are the most. (Buckets of runs before stay for some seconds after a fork, then go.)
rm -f "$TUNDISH_DIR"/run-*
tundish run --rate 1/s "$bin" run --up 1/s --down 1/s --connect 1/s \
    "$bin" run --rate 1/s --up 1/s --down 1/s --connect 1/s sh -c 'echo "${TUNDISH_8_CALLS}"'
prints connect
tundish run --rate 1/s --up 1/s --down 1/s --connect 1/s \
    "$bin" run --rate 1/s --up 1/s --down 1/s "$bin" run --up 1/s --down 1/s true
exits 125
says 'tundish: run: with those of the outer runs there are more than the 8 rules that a program can have'
# What a shell that forked has left is not swept at once.
for _ in 1 2 3 4 5 6 7 8 9; do
    works run --rate 1/s true
    [ "$(find "$TUNDISH_DIR" -name 'run-*' | wc -l)" -gt 1 ] || break
    sleep 1
done
same "$(find "$TUNDISH_DIR" -name 'run-*' | wc -l)" 1 'what is left of refused runs'

# An inner run lets nobody out.
tundish run -b outer --inherit always "$bin" run --rate 1/s --inherit never true
exits 125
says "tundish: run: --inherit never would let programs out of the outer run's limit, which says always"
nested run --rate 1/s --inherit never true
exits 125
nested run --rate 1/s --inherit always sh -c 'echo "$TUNDISH_INHERIT"'
prints always

# A run that replaces itself by another keeps its process id and both buckets.
both='echo $$ $TUNDISH_BUCKET $TUNDISH_2_BUCKET'
tundish run --rate 10/s sh -c 'exec "$0" run --rate 5/s sh -c "$1"' "$bin" "$both"
exits 0
read -r pid first second < "$work/out"
same "$first $second" "$TUNDISH_DIR/run-$pid $TUNDISH_DIR/run-$pid-2" 'buckets of both'
tundish run --up 10/s sh -c 'exec "$0" run --up 5/s sh -c "$1"' "$bin" "$both"
read -r pid first second < "$work/out"
same "$first $second" "$TUNDISH_DIR/run-$pid-up $TUNDISH_DIR/run-$pid-up-2" 'buckets of both directions'

# A rule set by hand counts as an outer run, whatever its number.
tundish_with TUNDISH_BUCKET=outer run -b inner sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_2_BUCKET"'
exits 0
prints "outer $TUNDISH_DIR/inner"
tundish_with TUNDISH_BUCKET=outer run -b outer sh -c 'echo "$TUNDISH_BUCKET ${TUNDISH_2_BUCKET-none}"'
prints 'outer none'
tundish_with TUNDISH_5_BUCKET=outer run -b inner -b outer sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_5_BUCKET"'
prints "$TUNDISH_DIR/inner outer"
tundish_with TUNDISH_5_BUCKET=outer run -b outer sh -c 'echo "${TUNDISH_BUCKET-none}"'
prints none
tundish_with TUNDISH_BUCKET=%x run --rate 1/s true
exits 125
says 'tundish: TUNDISH_BUCKET=%x: after % comes *'
tundish_with TUNDISH_2_CALLS=send run --rate 1/s true
exits 125
says 'tundish: TUNDISH_2_CALLS=send: there is nothing to limit without *'

# Words that limit nothing by themselves are for all rules of the run.
keep env TUNDISH_ONLY=curl TUNDISH_MAX_WAIT=1s TUNDISH_CALLS=send TUNDISH_BURST=7 \
    "$bin" run --rate 1/s --up 1MB/s --max-wait 2s sh -c "$rules"
exits 0
says ''
prints 'TUNDISH_2_BUCKET=run-*-up
TUNDISH_2_CALLS=up
TUNDISH_2_COUNT=bytes
TUNDISH_2_MAX_WAIT=2s
TUNDISH_2_ONLY=curl
TUNDISH_BUCKET=run-*
TUNDISH_CALLS=send
TUNDISH_COUNT=calls
TUNDISH_MAX_WAIT=2s
TUNDISH_ONLY=curl'
