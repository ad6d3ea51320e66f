#!/bin/sh
# SPDX-License-Identifier: MIT
# A run inside a run stays within the outer limit, or does not start.
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

nested run -b inner sh -c 'echo "$TUNDISH_BUCKET"'
exits 0
says ''
prints "$TUNDISH_DIR/outer,$TUNDISH_DIR/inner"
nested run -b outer sh -c 'echo "$TUNDISH_BUCKET"'
prints "$TUNDISH_DIR/outer"
nested run --rate 1/s sh -c 'echo "$TUNDISH_BUCKET $LD_PRELOAD"'
prints "$TUNDISH_DIR/outer,$TUNDISH_DIR/run-* $(realpath "$shim")"
nested run -b inner --verbose true
exits 0
says "*tundish: run: the outer run's limit holds as well: $TUNDISH_DIR/outer,$TUNDISH_DIR/inner*"

nested run -b bytes true
exits 125
says "tundish: run: the outer run's bucket $TUNDISH_DIR/outer counts calls, this run counts bytes: *"
nested run --rate 1/s --calls write true
exits 125
says 'tundish: run: the outer run limits other calls than this one: *'
nested run --per-process --rate 1/s true
exits 125
says "tundish: run: --per-process cannot be added to the outer run's bucket $TUNDISH_DIR/outer"
same "$(find "$TUNDISH_DIR" -name 'run-*' | wc -l)" 0 'a refused run leaves no bucket'

tundish run --per-process --rate 1/s "$bin" run -b inner true
exits 125
says 'tundish: run: the outer run gives each process a quota of its own (TUNDISH_RATE=1/s), *'

# A run that replaces itself by another keeps its process id and both buckets.
tundish run --rate 10/s sh -c 'exec "$0" run --rate 5/s sh -c "echo \$\$ \$TUNDISH_BUCKET"' "$bin"
exits 0
read -r pid list < "$work/out"
same "$list" "$TUNDISH_DIR/run-$pid,$TUNDISH_DIR/run-$pid-2" 'buckets of both'

# A rule set by hand counts as an outer run.
tundish_with TUNDISH_BUCKET=outer run -b inner sh -c 'echo "$TUNDISH_BUCKET"'
exits 0
prints "outer,$TUNDISH_DIR/inner"
tundish_with TUNDISH_BUCKET=bytes run -b inner true
exits 125
says "tundish: run: the outer run's bucket bytes counts bytes, this run counts calls: *"
