#!/bin/sh
# SPDX-License-Identifier: MIT
# What cannot be written does not count as said.
. "$(dirname "$0")/kit.sh"

works create api --rate 1/s
for arguments in 'status' 'status --json' 'status --prom' 'status --raw' 'stat api 0.01 1' 'sidecar --json' 'top -pn1 -d0.1' 'peek api' help --version 'help run' 'run --help'; do
    # shellcheck disable=SC2086 # words
    if [ -w /dev/full ]; then
        "$bin" $arguments > /dev/full 2> "$work/err"
        same $? 1 "$arguments: status on a full disk"
        same "$(cat "$work/err")" 'tundish: standard output: No space left on device' "$arguments"
    fi
    # shellcheck disable=SC2086
    "$bin" $arguments >&- 2> "$work/err"
    same $? 1 "$arguments: status with stdout closed"
    same "$(cat "$work/err")" 'tundish: standard output: Bad file descriptor' "$arguments"
done

# Nothing else gets the numbers of those that are closed, and what is executed finds them closed too.
if [ -e "$shim" ]; then
    # shellcheck disable=SC2016 # for the inner shell
    "$bin" run --rate 1/s -- sh -c '[ ! -e /proc/$$/fd/0 ] && [ ! -e /proc/$$/fd/1 ]' <&- >&-
    same $? 0 'run with stdin and stdout closed'
fi

# Who has nothing to say does not mind.
"$bin" take api >&-
same $? 0 'take with stdout closed'
"$bin" reset api > /dev/full
same $? 0 'reset on a full disk'
same "$(value capacity api)" 1 'the bucket, after all that'
