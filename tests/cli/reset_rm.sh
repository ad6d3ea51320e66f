#!/bin/sh
# SPDX-License-Identifier: MIT
# reset and rm see to each name, and rm removes buckets only.
. "$(dirname "$0")/kit.sh"

works create one --rate 1/d --burst 5 --initial 0
works create two --rate 1/d --burst 7 --initial 0
tundish reset one nowhere two
exits 1
says 'tundish: nowhere: no such bucket*'
same "$(value available one)" 5 'one is full'
same "$(value available two)" 7 'two is full though another failed'

echo precious > "$TUNDISH_DIR/file"
mkdir "$TUNDISH_DIR/directory"
ln -s one "$TUNDISH_DIR/link"
tundish rm file one directory nowhere link two
exits 1
says '*tundish: file: not a bucket*'
same "$(wc -l < "$work/err")" 4 'lines said'
same "$(cat "$TUNDISH_DIR/file")" precious 'a file that is no bucket'
[ -d "$TUNDISH_DIR/directory" ] || fail 'removed a directory'
[ -h "$TUNDISH_DIR/link" ] || fail 'removed a link'
[ ! -e "$TUNDISH_DIR/one" ] || fail 'kept one'
[ ! -e "$TUNDISH_DIR/two" ] || fail 'kept two'

works create one --rate 1/s
works rm "$TUNDISH_DIR/one"
for command in reset rm; do
    tundish $command
    exits 64
    says "tundish: $command: needs a NAME; *"
done
