#!/bin/sh
# SPDX-License-Identifier: MIT
# run -b obeys buckets that are there, makes them only if it is told their rate, and never changes them.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
need_shim

tundish run -b api true
exits 125
says 'tundish: api: no such bucket*'
same "$(ls "$TUNDISH_DIR")" '' 'nothing was made'

works run -b api --rate 10/s --burst 4 true
same "$(value capacity api)" 4 'made with the burst asked for'
works run -b api --rate 10/s true
works run -b api --rate 600/min true
works run -b api --rate 10/s --burst 400ms true
tundish run -b api --rate 20/s true
exits 125
says 'tundish: api: has 10/s, burst 4, but this run asks for 20/s, burst 4; *'
tundish run -b api --rate 10/s --burst 5 true
exits 125
says 'tundish: api: has 10/s, burst 4, but this run asks for 10/s, burst 5; *'
tundish run -b api --rate 10B/s true
exits 125
says 'tundish: api: has 10/s, burst 4, but this run asks for 10 B/s, *'
same "$(value rate api)" 10/s 'unchanged'

works create other --rate 1/s
works run -b api -b other sh -c 'echo "$TUNDISH_BUCKET"'
prints "$TUNDISH_DIR/api,$TUNDISH_DIR/other"
works create bytes --rate 1MB/s
tundish run -b api -b bytes true
exits 125
says 'tundish: bytes: counts bytes, api counts calls; say --count bytes or --count calls'
works run -b api -b bytes --count calls sh -c 'echo "$TUNDISH_COUNT"'
prints calls
works run -b bytes sh -c 'echo "$TUNDISH_COUNT"'
prints bytes
tundish run -b api --verbose true
exits 0
says "tundish: $TUNDISH_DIR/api: 10/s, burst 4*"

# Names with a meaning of their own.
works create "$work/50%%" --rate 1/s
works run -b "$work/50%%" sh -c 'echo "$TUNDISH_BUCKET"'
prints "$work/50%%"
works run -b 'mine-%u' --rate 1/s sh -c 'echo "$TUNDISH_BUCKET"'
prints "$TUNDISH_DIR/mine-$(id -u)"

# What each process or each destination has for itself is only made there: by its rate, which is handed on.
for key in n p h P; do
    works run -b "each-%$key" --rate 1/s --burst 3 sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_RATE $TUNDISH_BURST"'
    prints "$TUNDISH_DIR/each-%$key 1/s 3"
done
[ ! -e "$TUNDISH_DIR/each-tundish" ] || fail 'was made before the command ran'
works create own-sh --rate 1/s
works run -b 'own-%n' sh -c 'echo "$TUNDISH_BUCKET ${TUNDISH_RATE-none} ${TUNDISH_COUNT-unknown}"'
prints "$TUNDISH_DIR/own-%n none unknown"
works run -b 'each-%h:%P' --count bytes sh -c 'echo "$TUNDISH_BUCKET ${TUNDISH_RATE-none} $TUNDISH_COUNT"'
prints "$TUNDISH_DIR/each-%h:%P none bytes"
tundish run -b 'each-%h' true
exits 125
says 'tundish: each-%h: is not there yet, so say what it counts: --count or --rate'
works run -b bytes -b 'each-%h' sh -c 'echo "$TUNDISH_BUCKET $TUNDISH_COUNT"'
prints "$TUNDISH_DIR/bytes,$TUNDISH_DIR/each-%h bytes"
mkdir "$work/100%"
(
    cd "$work/100%" || exit 1
    works run -b './each-%h' --rate 1/s sh -c 'echo "$TUNDISH_BUCKET"'
    prints "$work/100%%/./each-%h"
    tundish_with TUNDISH_DIR=. run -b 'each-%h' --rate 1/s sh -c 'echo "$TUNDISH_BUCKET"'
    prints "$work/100%%/./each-%h"
) || exit 1
tundish run -b 'each-%x' --rate 1/s true
exits 125
tundish run -b 'each-%h-%x' --rate 1/s true
exits 125
says 'tundish: TUNDISH_BUCKET=*: after % comes *'
tundish run -b a,b --rate 1/s true
exits 125
says 'tundish: a,b: a name with a comma cannot be handed to a command; *'

# The limit is real: calls of all descendants come out of the one bucket.
command -v bash > /dev/null || exit 0
works create slow --rate 1/d --burst 9
tundish run -b slow --calls connect -- \
    bash -c 'for i in 1 2 3; do bash -c "exec 3<> /dev/tcp/127.0.0.1/1"; done'
same "$(value available slow)" 6 'tokens after three connects'

# A run that is over for its command but not for a child of it, which is nobody's but by fork, is not swept. The
# command waits for the child to run: until then nothing tells of it.
left=$({
    "$bin" run --rate 5/s -- bash -c '(: > "$0"; sleep 0.7; exec bash -c :) & until [ -e "$0" ]; do :; done' "$work/is-there"
    "$bin" run --rate 1/s -- true
    sleep 1.5
} 2>&1)
same "$left" '' 'what a child of a run said after a sweep'
