#!/bin/sh
# SPDX-License-Identifier: MIT
# What run says of commands that cannot run, which leave no bucket behind, or that no preload reaches.
. "$(dirname "$0")/kit.sh"
need_shim

# refuses STATUS PATTERN COMMAND...
refuses() {
    expected=$1 pattern=$2
    shift 2
    tundish run --rate 1/s -- "$@"
    exits "$expected"
    says "$pattern"
    prints ''
    same "$(ls "$TUNDISH_DIR")" '' 'buckets left behind'
}

refuses 127 'tundish: no-such-command: command not found' no-such-command
refuses 127 'tundish: ./no/such: No such file or directory' ./no/such
refuses 127 'tundish: : command not found' ''
echo text > "$work/text"
refuses 126 "tundish: $work/text: Permission denied" "$work/text"
refuses 126 "tundish: $work: Is a directory" "$work"
printf '#!/no/such/interpreter\n' > "$work/script"
chmod +x "$work/script"
refuses 127 "tundish: $work/script: cannot run: its interpreter is missing" "$work/script"
mkdir "$work/bin"
cp "$work/text" "$work/bin/text"
tundish_with "PATH=$work/bin:$PATH" run --rate 1/s text
exits 126
says 'tundish: text: Permission denied'

# A script without #! runs as the shell would run it.
echo 'echo plain' > "$work/plain"
chmod +x "$work/plain"
works run --rate 1/s "$work/plain"
prints plain

# The preload library must be where it can be found and named.
mkdir "$work/lone" "$work/a space"
cp "$bin" "$work/lone/tundish"
keep "$work/lone/tundish" run --rate 1/s true
exits 125
says "tundish: libtundish-preload.so: is neither at $work/lone/libtundish-preload.so nor at $work/lone/*"
cp "$bin" "$shim" "$work/a space"
keep "$work/a space/tundish" run --rate 1/s true
exits 125
says "tundish: $work/a space/libtundish-preload.so: its path holds a space, *"

command -v cc > /dev/null || exit 0
echo 'int main(void) { return 3; }' > "$work/static.c"
cc -static "$work/static.c" -o "$work/static" 2> /dev/null || exit 0
tundish run --rate 1/s "$work/static"
exits 3
says "tundish: $work/static: is statically linked, which no preloaded library can reach: *"
cc -m32 "$work/static.c" -o "$work/small" 2> /dev/null || exit 0
tundish run --rate 1/s "$work/small"
exits 3
says "*tundish: $work/small: is a 32-bit program, *"
