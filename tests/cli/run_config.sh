#!/bin/sh
# SPDX-License-Identifier: MIT
# run obeys a configuration file: which one, what is made of it, and what the command is told.
# shellcheck disable=SC2016 # $ is for inner shells
. "$(dirname "$0")/kit.sh"
need_shim
cd "$work" || exit 1
here=$(pwd)
preload=$(realpath "$shim")

# file NAME LINE...: writes a configuration file.
file() {
    name=$1
    shift
    printf '%s\n' "$@" > "$name"
}

# rest: what is in the directory of names, but for what is hidden or will be swept.
rest() {
    find "$TUNDISH_DIR" -maxdepth 1 -name '[!.]*' ! -name 'run-*' -type f -printf '%f\n' | sort
}

# held: the rules that the command is told, without the directory.
held='"$0" check "$TUNDISH_CONFIG" | sed -e "1s/.*made it of //" -e "2,\$s,$TUNDISH_DIR/,,g"'

# Which file it is, of four.
mkdir -p xdg/tundish
for place in option word; do
    file $place.conf "[rule \"$place\"]" 'rate = 1/s'
done
file xdg/tundish/tundish.conf '[rule "xdg"]' 'rate = 1/s'
export XDG_CONFIG_HOME="$here/xdg"
works run sh -c "$held" "$bin"
prints "$here/xdg/tundish/tundish.conf
rule xdg: *"
tundish_with TUNDISH_CONFIG=word.conf run sh -c "$held" "$bin"
prints "$here/word.conf
rule word: *"
tundish_with TUNDISH_CONFIG=word.conf run --config option.conf sh -c "$held" "$bin"
prints "$here/option.conf
rule option: *"
tundish_with TUNDISH_CONFIG= run sh -c "$held" "$bin"
prints "$here/xdg/tundish/tundish.conf
rule xdg: *"
keep env XDG_CONFIG_HOME= "HOME=$here/home" "$bin" run --rate 1/s true
exits 0
mkdir -p home/.config/tundish
file home/.config/tundish/tundish.conf '[rule "home"]' 'rate = 1/s'
keep env XDG_CONFIG_HOME= "HOME=$here/home" "$bin" run sh -c "$held" "$bin"
exits 0
prints "$here/home/.config/tundish/tundish.conf
rule home: *"
tundish_with TUNDISH_CONFIG=word.conf run --no-config --rate 1/s sh -c 'echo "${TUNDISH_CONFIG-none} $TUNDISH_BUCKET"'
exits 0
prints 'none */run-*'
tundish run --no-config true
exits 64
tundish run --config nowhere.conf true
exits 64
says 'tundish: nowhere.conf: No such file or directory'
tundish_with TUNDISH_CONFIG=nowhere.conf run --rate 1/s true
exits 64
says 'tundish: nowhere.conf: No such file or directory'
keep sh -c 'cat option.conf | "$0" run --config /dev/stdin true' "$bin"
exits 0
export XDG_CONFIG_HOME="$here/nowhere"

# A file without rules limits nothing, but its buckets are made.
file bare.conf '[bucket "bare"]' 'rate = 1/s'
tundish run --config bare.conf true
exits 64
says 'tundish: run: needs -b NAME, *, or a configuration file with rules, *'
same "$(rest)" '' 'what a run without a limit makes'
works run --config bare.conf --rate 5/s sh -c 'echo "${TUNDISH_CONFIG-none}"'
prints none
same "$(value rate bare)" 1/s 'the bucket of a file without rules'
works rm bare

# All mistakes are told, and nothing is made or changed.
file wrong.conf '[bucket "made"]' 'rate = 1/s' '[rule "r"]' 'bucket = made' 'calls = fly' 'max-wait = 5'
tundish run --config wrong.conf sh -c 'echo ran'
exits 64
prints ''
says 'tundish: wrong.conf:5: *
tundish: wrong.conf:6: *'
same "$(rest)" '' 'what a wrong file makes'
works create there --rate 5/s --burst 7
file other.conf '[bucket "made"]' 'rate = 1/s' '[bucket "there"]' 'rate = 6/s' '[rule "r"]' 'bucket = made, there'
tundish run --config other.conf true
exits 125
says "tundish: there: has 5/s, burst 7, but $here/other.conf:3 asks for 6/s, burst 7; change the file or use 'tundish set'"
same "$(rest)" there 'what is made beside a bucket that is another'
file burst.conf '[bucket "there"]' 'rate = 5/s' 'burst = 8' '[rule "r"]' 'bucket = there'
tundish run --config burst.conf true
exits 125
says "tundish: there: has 5/s, burst 7, but $here/burst.conf:1 asks for 5/s, burst 8; *"
file late.conf '[bucket "made"]' 'rate = 1/s' '[bucket "/nowhere/at/all"]' 'rate = 6/s' '[rule "r"]' 'bucket = made'
tundish run --config late.conf true
exits 125
says 'tundish: /nowhere/at/all: its directory does not exist: *'
same "$(rest)" there 'what is left when one cannot be made'
file missing.conf '[rule "r"]' 'bucket = missing'
tundish run --config missing.conf true
exits 125
says 'tundish: missing: no such bucket*'
works create bytes --rate 1MB/s
file mixed.conf '[rule "r"]' 'bucket = there, bytes'
tundish run --config mixed.conf true
exits 125
says 'tundish: bytes: counts bytes, there counts calls; say count = bytes or count = calls in the rule'
for list in 'calls.there, bytes' 'bytes, calls.there'; do # a section decides what is counted, and another bucket is to agree
    file half.conf '[bucket "calls.there"]' 'rate = 1/s' '[rule "r"]' "bucket = $list"
    tundish run --config half.conf true
    exits 125
    says 'tundish: bytes: counts bytes, a section counts calls; say count = bytes or count = calls in the rule'
done
file half.conf '[bucket "calls.there"]' 'rate = 1/s' '[rule "r"]' 'bucket = calls.there, bytes' 'count = calls'
works run --config half.conf true
works rm calls.there
file connect.conf '[rule "r"]' 'calls = connect' 'bucket = bytes'
tundish run --config connect.conf true
exits 125
says "tundish: $here/connect.conf:1: bytes counts bytes, but a connection is a call; say count = calls in the rule"
file costless.conf '[hook "fsync"]' '[rule "r"]' 'calls = fsync' 'bucket = bytes'
tundish run --config costless.conf true
exits 125
says "tundish: $here/costless.conf:2: bytes counts bytes, but fsync costs 1 for each call; say its cost in *fsync*"
tundish run --config option.conf no-such-command
exits 127
file fine.conf '[bucket "made"]' 'rate = 1/s' '[rule "r"]' 'bucket = made'
tundish run --config fine.conf -b missing true
exits 125
same "$(rest | tr '\n' ' ')" 'bytes there ' 'what is left when an option is wrong'

# Buckets are made as their sections say, and never changed.
file buckets.conf '[bucket "made"]' 'rate = 100/d' 'initial = 7' 'burst = 50' 'stepped = yes' 'mode = 0640' \
    'fair = no' 'strict = yes' '[bucket "there"]' 'rate = 300/min' '[rule "r"]' 'bucket = made, there'
works run --config buckets.conf sh -c "$held" "$bin"
prints "$here/buckets.conf
rule r: every program; connect by default; *; counts calls; from made and there; *"
same "$(value available made)" 7 'initial'
same "$(value capacity made)" 50 'burst'
same "$(value rate made)" 100/d 'rate'
same "$(stat -c %a "$TUNDISH_DIR/made")" 640 'mode'
same "$(value capacity there)" 7 'a bucket that was there'
works run --config buckets.conf true
works rm made

# What a rule counts is what its buckets hold.
file count.conf '[rule "b"]' 'bucket = bytes' '[rule "c"]' 'bucket = there'
works run --config count.conf sh -c "$held" "$bin"
prints "$here/count.conf
rule b: every program; up by default; *; counts bytes; from bytes; *
rule c: every program; connect by default; *; counts calls; from there; *"

# Names are absolute for the command, whose directories may be others; those with keys are left to it.
file keys.conf '[bucket "each-%h"]' 'rate = 1MB/s' '[bucket "mine-%u"]' 'rate = 1/s' '[rule "k"]' 'bucket = each-%h' \
    '[rule "u"]' 'bucket = mine-%u' '[rule "p"]' 'bucket = ./own-%p' 'count = calls' 'program = nobody'
works run --config keys.conf sh -c '"$0" check "$TUNDISH_CONFIG"' "$bin"
prints "*
rule k: *; counts bytes; from $TUNDISH_DIR/each-%h; *
rule u: *; counts calls; from $TUNDISH_DIR/mine-$(id -u); *
rule p: *; counts calls; from $here/./own-%p; *"
same "$(rest | tr '\n' ' ')" "bytes mine-$(id -u) there " 'what is made for names with keys'
works rm "mine-$(id -u)"

# What the command is told: the frozen file, the launcher's process, and the hook library before ours.
call="fsync"
has_hooks || call="write"
file hooks.conf '[rule "h"]' 'rate = 1/s' "calls = $call" 'program = nobody'
works run --config hooks.conf sh -c 'echo "$$ $TUNDISH_RUN $TUNDISH_CONFIG $LD_PRELOAD"'
read -r pid run config list < "$work/out"
same "$run" "$pid" 'the process of the run'
matches "$config" "$TUNDISH_DIR/.tundish-policy-*" || fail 'the frozen file lies elsewhere'
hooks=${list%"$preload"} # with its colon
if has_hooks; then
    matches "$hooks" '/*/.tundish-hooks-*.so:' || fail 'the hook library is not before the preload library'
    grep -q fsync "${hooks%:}" || fail 'the hook library has no fsync'
fi
works run --config option.conf sh -c 'echo "$LD_PRELOAD"'
prints "$preload"
tundish_with LD_PRELOAD=libnowhere.so run --config hooks.conf sh -c 'echo "$LD_PRELOAD"'
prints "libnowhere.so:$hooks$preload"
tundish_with LD_PRELOAD="$preload libnowhere.so" run --config hooks.conf sh -c 'echo "$LD_PRELOAD"'
prints "$hooks$preload libnowhere.so"
tundish_with LD_PRELOAD="/old/.tundish-hooks-0123.so libnowhere.so:$preload" run --config hooks.conf sh -c 'echo "$LD_PRELOAD"'
prints "libnowhere.so:$hooks$preload"
tundish_with LD_PRELOAD="/old/.tundish-hooks-0123.so" run --config option.conf sh -c 'echo "$LD_PRELOAD"'
prints "$preload"
tundish run --config hooks.conf --verbose true
exits 0
says "*tundish: run: $here/hooks.conf: 1 rule, $([ $call = write ] || echo 1)* hook*"
file unused.conf '[hook "fsync"]' '[rule "r"]' 'rate = 1/s'
works run --config unused.conf sh -c 'echo "$LD_PRELOAD"'
prints "$preload"

# With options both hold.
works run --config option.conf --rate 7/s sh -c "echo \"\$TUNDISH_BUCKET\"; $held" "$bin"
prints "*/run-*
$here/option.conf
rule option: *"
for words in '--dest unix' '--when-empty drop' '--max-wait 1s' '--count bytes' '--burst 3' '--calls up' --per-process; do
    # shellcheck disable=SC2086 # words
    tundish run --config option.conf $words true
    exits 64
    says "tundish: run: ${words%% *} goes with *"
done
file manners.conf '[rule "r"]' 'rate = 1/s' 'when-empty = refuse' 'max-wait = 1s'
works run --config manners.conf sh -c "$held" "$bin"
prints '*; when empty: refuse with the call*'
tundish run --config manners.conf --dry-run sh -c "$held" "$bin"
exits 0
prints '*; when empty: pass and be counted'

# Eight rules are the most, for one program.
for i in 1 2 3 4 5 6 7; do
    printf '[rule "r%s"]\nrate = 1/s\nprogram = sh\n' "$i"
done > seven.conf
works run --config seven.conf --rate 1/s sh -c :
works run --config seven.conf --rate 1/s --up 1/s true
tundish run --config seven.conf --rate 1/s --up 1/s sh -c 'echo ran'
exits 125
prints ''
says "tundish: run: more than 8 rules for sh, with rule \"r7\" of $here/seven.conf"

# Sixteen buckets, of which a quota is one.
for i in 1 2 3; do
    printf '[rule "r%s"]\nbucket = b1, b2, b3, b4, b5\n' "$i"
done > many.conf
printf '[rule "quota"]\nrate = 1/s\n' >> many.conf
for i in 1 2 3 4 5; do
    printf '[bucket "b%s"]\nrate = 1/s\n' "$i"
done >> many.conf
works run --config many.conf true
printf '[rule "last"]\nprogram = true\nrate = 1/s\n' >> many.conf
works run --config many.conf sh -c :
tundish run --config many.conf true
exits 125
says "tundish: run: more than 16 buckets for true, with rule \"last\" of $here/many.conf"
works rm b1 b2 b3 b4 b5

# An inner run keeps the outer one's file, even if that has changed; another one is refused.
cp hooks.conf outer.conf
inner='"$0" run "$@" sh -c "echo \"\$TUNDISH_CONFIG \$LD_PRELOAD\"; [ \$\$ = \"\$TUNDISH_RUN\" ]"'
for words in '' '--config outer.conf' "--config $here/./outer.conf" --no-config '--rate 1/s'; do
    # shellcheck disable=SC2086 # words
    works run --config outer.conf sh -c "echo wrong >> outer.conf; $inner" "$bin" $words
    prints "$TUNDISH_DIR/.tundish-policy-* $hooks$preload"
    cp hooks.conf outer.conf
done
tundish run --config outer.conf "$bin" run --config option.conf sh -c 'echo ran'
exits 125
prints ''
says "tundish: option.conf: an outer run's configuration holds already: $here/outer.conf; put the rules of both into one file"
tundish run --config outer.conf "$bin" run --verbose true
says "*tundish: run: the outer run's configuration holds as well: $here/outer.conf*"
works run --config outer.conf sh -c 'LD_PRELOAD= "$0" run sh -c "echo \$LD_PRELOAD"' "$bin"
prints "$hooks$preload"
tundish run --config outer.conf sh -c 'f=$TUNDISH_CONFIG; unset LD_PRELOAD TUNDISH_CONFIG; "$0" run --config "$f" true' "$bin"
exits 64
says "tundish: *.tundish-policy-*: is what a run has made of a configuration file; give that one: $here/outer.conf"
tundish_with TUNDISH_CONFIG='!' run --rate 1/s sh -c 'echo "$TUNDISH_CONFIG"'
exits 0
prints '!'

# In the place of a program that was preloaded by hand: it runs, whatever is wrong.
again() {
    keep sh -c 'exec env "TUNDISH_RELAUNCHED=$$" "$@"' sh "TUNDISH_CONFIG=$1" "LD_PRELOAD=${list_before-$preload}" \
        "$bin" run --config "$1" --relaunched /bin/sh -- own-name -c \
        'echo "$0 $* ${TUNDISH_RELAUNCHED-none} $TUNDISH_CONFIG ${LD_PRELOAD-}"' own-name 'a b' --rate
}
again hooks.conf
exits 0
says ''
prints "own-name a b --rate none $TUNDISH_DIR/.tundish-policy-* $hooks$preload"
name=$(basename "$preload")
LD_LIBRARY_PATH=$(dirname "$preload")
export LD_LIBRARY_PATH
list_before="libnowhere.so:$name"
again option.conf
prints "*.tundish-policy-*[0-9a-f] libnowhere.so:$name"
if has_hooks; then # which need the library, wherever the program goes
    again hooks.conf
    exits 0
    prints "*.tundish-policy-*[0-9a-f] libnowhere.so:$hooks$preload"
    list_before="$name libnowhere.so"
    again hooks.conf
    exits 0
    prints "*.tundish-policy-*[0-9a-f] $hooks$preload libnowhere.so"
fi
unset LD_LIBRARY_PATH
unset list_before
again wrong.conf
exits 0
says 'tundish: wrong.conf:5: *
tundish: wrong.conf:6: *'
prints "own-name a b --rate none ! $preload"
again nowhere.conf
exits 0
says 'tundish: nowhere.conf: No such file or directory'
prints 'own-name a b --rate none ! *'
again missing.conf
exits 0
says 'tundish: missing: no such bucket*'
prints 'own-name a b --rate none ! *'
again bare.conf
exits 0
says ''
prints "own-name a b --rate none  $preload"
keep "$bin" run --config option.conf --relaunched "$here/nowhere" -- x
exits 127
