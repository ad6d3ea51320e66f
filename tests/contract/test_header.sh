#!/bin/bash
# SPDX-License-Identifier: MIT
# test_header.sh CC: the public header stands alone in strict C and in C++, without a word from any compiler.
set -u
cc=${1:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
left_out=

cat >"$work/use.c" <<'END'
#include <tundish/tundish.h>
#include <tundish/tundish.h>

unsigned use(void);
unsigned use(void)
{
    struct tundish_options options = TUNDISH_OPTIONS_INIT(10, 5);
    static const struct tundish_options fixed = TUNDISH_OPTIONS_INIT(1 + 1, 5);
    struct tundish_info info = TUNDISH_INFO_INIT;
    options.flags = TUNDISH_UNFAIR | TUNDISH_STRICT;
    return options.capacity + fixed.refill + info.capacity + (TUNDISH_NO_DEADLINE == 0);
}
END
cp "$work/use.c" "$work/use.cc"

common=(-Werror -Wall -Wextra -pedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual
        -Wcast-align -Wwrite-strings -Wredundant-decls -Wformat=2 -Wvla -Wmissing-declarations
        -Wdouble-promotion -Wswitch-enum -Wold-style-definition)

# attempt COMPILER FLAG...
attempt() {
    if ! "$@" -I "$KIT_SOURCE/include" -c -o "$work/use.o"; then
        printf 'failed: %s\n' "$*"
        failed=1
    fi
}

for standard in c11 c17 gnu11; do
    attempt "$cc" -std=$standard "${common[@]}" -Wstrict-prototypes -Wmissing-prototypes -x c "$work/use.c"
done
attempt "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L "${common[@]}" -x c "$work/use.c"

# In C++ a function may not be called like its struct without a -Wshadow; C has done so since stat().
cxx_flags=(-Wold-style-cast -Wzero-as-null-pointer-constant)
for flag in "${common[@]}"; do
    case $flag in -Wshadow | -Wold-style-definition) ;; *) cxx_flags+=("$flag") ;; esac
done
if command -v g++ >/dev/null; then
    for standard in c++11 c++17 c++20; do
        attempt g++ -std=$standard "${cxx_flags[@]}" "$work/use.cc"
    done
else
    left_out="$left_out g++"
fi

if command -v clang >/dev/null; then
    # Everything but layout remarks and "this is not C89".
    attempt clang -std=c11 -Weverything -Werror -Wno-padded -Wno-declaration-after-statement \
        -Wno-unknown-warning-option -Wno-pre-c11-compat -Wno-unsafe-buffer-usage "$work/use.c"
fi

[ "$failed" = 0 ] || exit 1
if [ -n "$left_out" ]; then
    printf 'missing here:%s\n' "$left_out"
    exit 77
fi
