#!/bin/sh
# SPDX-License-Identifier: MIT
# check tells what a configuration file says. check/NAME.conf is a file and check/NAME.txt what is told of it: on
# stdout behind the file's name, or if that is nothing on stderr, where FILE stands for the name.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
cases=$(cd "$(dirname "$0")/check" && pwd)

# answer FILE: what check makes of it, as the cases have it.
answer() {
    tundish check "$1"
    if [ "$status" -eq 0 ]; then
        says ''
        same "$(head -n 1 "$work/out")" "$1" 'the first line'
        tail -n +2 "$work/out"
    else
        exits 64
        prints ''
        sed "s,$1,FILE," "$work/err"
    fi
}

different=0
for file in "$cases"/*.conf; do
    answer "$file" > "$work/answer" || exit 1
    diff -u "${file%.conf}.txt" "$work/answer" || different=$((different + 1))
done
same "$different" 0 'cases that are told in another way'

# The example has every key of the reader, and is in order as it is and with all that is commented out.
example=$source_tree/config/tundish.conf
answer "$example" > "$work/answer"
same "$(cat "$work/answer")" '' 'what the example says as it is'
sed 's/^#\([^ ]\)/\1/' "$example" > "$work/full.conf"
answer "$work/full.conf" > "$work/answer"
same "$(grep -c . "$work/answer")" 5 'sections of the example'
sed -n 's/.*\[TDI_KEY_[A-Z_]*\] = "\(.*\)",.*/\1/p' "$source_tree/src/policy/conf.c" > "$work/keys"
[ -s "$work/keys" ] || fail 'the keys are not found'
while read -r key; do
    grep -q "^$key = " "$work/full.conf" || {
        echo "the example has no $key" >&2
        exit 1
    }
done < "$work/keys"

# Which file it is.
cd "$work" || exit 1
here=$(pwd)
mkdir -p xdg/tundish home/.config/tundish
echo '[bucket "xdg"]
rate = 1/s' > xdg/tundish/tundish.conf
sed 's/xdg/home/' xdg/tundish/tundish.conf > home/.config/tundish/tundish.conf
sed 's/xdg/word/' xdg/tundish/tundish.conf > word.conf
keep env "XDG_CONFIG_HOME=$here/xdg" "HOME=$here/home" TUNDISH_CONFIG=word.conf "$bin" check
prints "$here/word.conf
bucket word: *"
keep env "XDG_CONFIG_HOME=$here/xdg" TUNDISH_CONFIG='!' "$bin" check # a launcher has failed
prints "$here/xdg/tundish/tundish.conf
*"
keep env "XDG_CONFIG_HOME=$here/xdg" "HOME=$here/home" TUNDISH_CONFIG= "$bin" check
prints "$here/xdg/tundish/tundish.conf
bucket xdg: *"
for config in '' relative; do
    keep env "XDG_CONFIG_HOME=$config" "HOME=$here/home" "$bin" check
    prints "$here/home/.config/tundish/tundish.conf
bucket home: *"
done
if [ ! -e /etc/tundish/tundish.conf ]; then
    keep env "XDG_CONFIG_HOME=$here/nowhere" "$bin" check
    exits 64
    says "tundish: check: there is no configuration file: neither $here/nowhere/tundish/tundish.conf nor /etc/*"
fi
tundish_with TUNDISH_CONFIG=nowhere.conf check
exits 64
says 'tundish: nowhere.conf: No such file or directory'
tundish check .
exits 64
says 'tundish: .: Is a directory'
tundish check nowhere.conf
exits 64
works check /dev/null
prints /dev/null
works check word.conf
prints "$here/word.conf
*"
yes '# much to say' | head -c 1048576 > long.conf
works check long.conf
prints "$here/long.conf"
echo >> long.conf
tundish check long.conf
exits 64
says 'tundish: long.conf:*: a file is at most 1 MiB long'
tundish_with TUNDISH_CONFIG="$here/word.conf" check word.conf
exits 0

# Standard output that is full is an error here as well.
keep sh -c '"$1" check word.conf > /dev/full' sh "$bin"
exits 1

# What a run has made of a file.
[ -e "$shim" ] || exit 0
has_hooks || exit 0
echo '[rule "a"]
rate = 10/s
calls = fsync
[hook "fsync"]' > frozen.conf
works run --config frozen.conf sh -c '"$0" check; "$0" check "$TUNDISH_CONFIG"' "$bin"
prints "$TUNDISH_DIR/.tundish-policy-*: a run has made it of $here/frozen.conf
rule a: every program; fsync; counts calls; each process has 10/s, burst 10 by default; when empty: wait, however long
hook fsync: int (int); costs 1 for each call; cannot be refused
$TUNDISH_DIR/.tundish-policy-*: a run has made it of *"
for file in "$TUNDISH_DIR"/.tundish-policy-*; do
    head -c 200 "$file" > short
    tundish check short
    exits 64
    says 'tundish: short: is not as long as it says'
    sed 's/fsync/fsinc/' "$file" > damaged
    tundish check damaged
    exits 64
    says 'tundish: damaged: is damaged'
done
