#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs in tundish(3) are the examples, to the letter, so what the manual shows is compiled and run.
set -u
here=$(dirname "$0")
page=$(cat "$KIT_SOURCE/include/tundish/tundish.3") || exit 1
failed=0

for example in basic epoll; do
    program=$(sed -n '/^#include/,$p' "$here/$example.c" | sed 's/\\/\\e/g')
    case $page in
    *"$program"*) ;;
    *)
        echo "$example.c is not in tundish.3, or differs" >&2
        failed=1
        ;;
    esac
done
exit "$failed"
