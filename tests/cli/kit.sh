# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What the script tests share; sourced. `tundish ARGS` runs the program and keeps what came of it, then
# `exits`, `prints` and `says` compare. A script fails at the first difference.
set -u
bin=${KIT_BIN:?the program to test}
shim=${KIT_PRELOAD_LIB:-}
# shellcheck disable=SC2034 # for the scripts
source_tree=${KIT_SOURCE:?the source tree}
# They would be settings of the program and the preload library.
unset KIT_BIN KIT_PRELOAD_LIB KIT_SOURCE KIT_BUILD
# A sanitized preload library comes late into programs that are not sanitized.
export ASAN_OPTIONS=verify_asan_link_order=0:"detect_leaks=0:${ASAN_OPTIONS:-}"
export LC_ALL=C

work=$TUNDISH_DIR/.work
mkdir -p "$work"
command_line=
status=0

# keep COMMAND...: leaves its status in $status and what it wrote in $work/out and $work/err.
keep() {
    command_line=$*
    status=0
    "$@" > "$work/out" 2> "$work/err" < /dev/null || status=$?
}

tundish() {
    keep "$bin" "$@"
}

# tundish_with NAME=VALUE ARGS...: with one more variable.
tundish_with() {
    setting=$1
    shift
    keep env "$setting" "$bin" "$@"
}

fail() {
    {
        printf '%s: %s\n' "$command_line" "$1"
        printf 'status %s, stdout:\n' "$status"
        cat "$work/out"
        printf 'stderr:\n'
        cat "$work/err"
    } >&2
    exit 1
}

exits() {
    [ "$status" -eq "$1" ] || fail "exits with $status, not $1"
}

# prints PATTERN: stdout is that, a pattern of the shell; says PATTERN: stderr is. Empty: nothing at all.
prints() {
    matches "$(cat "$work/out")" "$1" || fail "does not print: $1"
}

says() {
    matches "$(cat "$work/err")" "$1" || fail "does not say: $1"
}

matches() {
    # shellcheck disable=SC2254 # a pattern
    case $1 in
    $2) return 0 ;;
    *) return 1 ;;
    esac
}

# works ARGS...: exits with 0 and says nothing.
works() {
    tundish "$@"
    exits 0
    says ''
}

# value KEY of a bucket, from peek.
value() {
    "$bin" peek "$2" | sed -n "s/^$1 //p"
}

# same TEXT TEXT WHAT
same() {
    [ "$1" = "$2" ] || {
        printf '%s: %s, not %s\n' "$3" "$1" "$2" >&2
        exit 1
    }
}

need_shim() {
    if [ ! -e "$shim" ]; then
        echo 'no preload library was built' >&2
        exit 77
    fi
}

# Whether hooks work: a sanitizer's runtime needs functions before the preload library, which it is in, is ready.
has_hooks() {
    ! grep -q '__[a-z]*san_init' "$shim"
}

need() {
    command -v "$1" > /dev/null || {
        echo "this machine has no $1" >&2
        exit 77
    }
}
