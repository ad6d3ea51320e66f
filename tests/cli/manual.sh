#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual page, the help and the completions know the same options and commands.
. "$(dirname "$0")/kit.sh"
page=$source_tree/src/cli/tundish.1

for command in run create set reset rm take wait peek status doctor; do
    grep -q "^\.It Cm $command" "$page" || {
        echo "$command is not in the manual page" >&2
        exit 1
    }
    options=$("$bin" help $command | grep -o -e '--[a-z][a-z-]*' | sort -u)
    for option in $options; do
        grep -q -e "Fl -${option#--}" "$page" || {
            echo "$option of $command is not in the manual page" >&2
            exit 1
        }
        for file in tundish.bash _tundish; do
            grep -q -e "$option" "$source_tree/src/cli/completions/$file" || {
                echo "$option of $command is not in $file" >&2
                exit 1
            }
        done
    done
done

need mandoc
mandoc -T lint -W warning "$page"
