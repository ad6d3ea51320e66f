#!/bin/sh
# SPDX-License-Identifier: MIT
# doctor of a process that runs already: whether the preload library is in it, and has something to do.
. "$(dirname "$0")/kit.sh"
need cc
need_shim

cat > "$work/waits.c" << 'END'
#include <unistd.h>
int main(void) { write(1, "ready\n", 6); pause(); return 0; }
END
cc -o "$work/waits" "$work/waits.c" -w || exit 1
sleeper=
trap '[ -z "$sleeper" ] || kill "$sleeper" 2> /dev/null' EXIT

# start COMMAND...: runs it in the background until it says that it is ready.
start() {
    [ -z "$sleeper" ] || kill "$sleeper"
    rm -f "$work/ready"
    "$@" > "$work/ready" 2> "$work/started" &
    sleeper=$!
    while ! grep -q ready "$work/ready" 2> /dev/null; do
        kill -0 "$sleeper" 2> /dev/null || {
            echo "$1 did not start" >&2
            exit 1
        }
        sleep 0.02
    done
}

# finds STATUS VERDICT [FINDING]: of what was started last.
finds() {
    tundish doctor "$sleeper"
    exits "$1"
    says ''
    matches "$(tail -n 1 "$work/out")" "$2" || fail "the verdict is not: $2"
    matches "$(cat "$work/out")" "*${3:-}*" || fail "does not find: $3"
}

start "$work/waits"
finds 3 "not at all: the preload library is not in this process, *: restart it under 'tundish run'" \
    'limited    waits: write'

works create uplink --rate 1MB/s
start "$bin" run -b uplink -- "$work/waits"
finds 0 works "bucket     $TUNDISH_DIR/uplink"
start "$bin" run --rate 1MB/s -- "$work/waits"
finds 0 works 'active     the preload library is loaded and has 1 bucket open'
start "$bin" run --per-process --rate 1MB/s -- "$work/waits"
finds 0 works 'active     the preload library is loaded, with a quota of its own: 1'
start env TUNDISH_OFF=1 "$bin" run -b uplink -- "$work/waits"
finds 3 'not at all: the preload library is loaded, but off (TUNDISH_OFF)' "preload    $(realpath "$shim")"
start env LD_PRELOAD="$(realpath "$shim")" "$work/waits"
finds 3 'not at all: the preload library is loaded, but was given no bucket and no rate'
start env LD_PRELOAD="$(realpath "$shim")" TUNDISH_BUCKET=missing "$work/waits"
finds 3 'not at all: the preload library is loaded, but has no bucket open; it was to obey missing'

cat > "$work/ring.c" << 'END'
#include <unistd.h>
int main(void)
{
    char parameters[256] = {0};
    if (syscall(425L, 1L, parameters) < 0)
        return 1;
    write(1, "ready\n", 6);
    pause();
    return 0;
}
END
cc -o "$work/ring" "$work/ring.c" -w || exit 1
# Kernels may be told to have no io_uring.
if timeout 0.3 "$work/ring" > /dev/null || [ $? -eq 124 ]; then
    start "$bin" run -b uplink -- "$work/ring"
    finds 4 'partly: has 1 io_uring descriptor open: *'
fi

gone=$sleeper
kill "$gone"
wait "$gone" 2> /dev/null
sleeper=
tundish doctor "$gone"
exits 1
says "tundish: process $gone: there is no such process, *"
tundish doctor 99999999999999999999
exits 1
