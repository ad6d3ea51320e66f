#!/bin/bash
# SPDX-License-Identifier: MIT
# test_abi.sh MAKE_HOOKS GUEST PRELOAD [EMULATOR...]: every way of passing arguments goes through a hook
# unchanged, on this machine or in an emulator of another; no memory is made executable for it.
set -eu
make_hooks=$1 guest=$2 preload=$3
emulator=("${@:4}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "$*"
    exit 1
}

functions=(
    abi_ten 'int64_t (int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, int64_t, char *)'
    abi_mixed 'double (double, int, double, float, double, int64_t, double, double, double, int, double, double)'
    abi_pair '{int, double} (int, {int, double})'
    abi_large '{long, long, long, long, long} ({long, long, long, long, long}, long double, int)'
    abi_floats '{float, float} ({float, float})'
    abi_sum 'int (int, ...int, double, pointer)'
    abi_small 'signed char (int)'
    abi_odd 'bool (int)'
    abi_long 'long double (long double)'
    abi_call 'void (pointer, pointer)'
)
arguments=()
for ((i = 0; i < ${#functions[@]}; i += 2)); do
    arguments+=("${functions[i]}" "${functions[i + 1]}" calls)
done
"${emulator[@]}" "$make_hooks" "$dir/policy" "$dir/hooks.so" "${arguments[@]}"

# hooked ARGUMENT...: the guest with hooks, and what the preloaded library says of it.
hooked() {
    local settings=("LD_PRELOAD=$dir/hooks.so:$preload" "TUNDISH_CONFIG=$dir/policy" TUNDISH_VERBOSE=1)
    if [ ${#emulator[@]} -gt 0 ]; then
        "${emulator[@]}" $(printf ' -E %s' "${settings[@]}") "$guest" "$@"
    else
        env "${settings[@]}" "$guest" "$@"
    fi
}

calls=13
if [ ${#emulator[@]} -gt 0 ]; then
    where=--anywhere
    "${emulator[@]}" "$guest" $where || fail "the guest is wrong without hooks"
    hooked $where 2>"$dir/said" || fail "through hooks"
else
    "$guest" || fail "the guest is wrong without hooks"
    hooked 2>"$dir/said" || fail "through hooks"
fi
cat "$dir/said"
grep -q " $calls calls in the rule, $calls tokens, waited 0 s, refused 0" "$dir/said" || fail "other calls than $calls"

if [ ${#emulator[@]} -eq 0 ]; then
    status=0
    hooked --denied 2>"$dir/said" || status=$?
    cat "$dir/said"
    [ $status -eq 77 ] && echo "this kernel cannot deny executable memory" && exit 0
    [ $status -eq 0 ] || fail "where memory may not become executable"
    grep -q " $calls calls in the rule" "$dir/said" || fail "not hooked where memory may not become executable"
fi
