#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual page, the help and the completions know the same options and commands, and that of the configuration
# file has every word and every function that its reader knows.
. "$(dirname "$0")/kit.sh"
page=$source_tree/src/cli/tundish.1
conf=$source_tree/src/policy/tundish.conf.5
policy=$source_tree/src/policy

for command in run create set reset rm take wait peek status stat top sidecar check doctor; do
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

# all_in_conf WHAT PATTERN: that page has each word of $work/words, in a line that matches; @ is the word.
all_in_conf() {
    [ -s "$work/words" ] || {
        echo "no $1 was found" >&2
        exit 1
    }
    while read -r word; do
        pattern=$(printf '%s\n' "$2" | sed "s/@/$(printf '%s\n' "$word" | sed 's/[*]/\\\\*/')/")
        grep -q -e "$pattern" "$conf" || {
            echo "$1 $word is not in tundish.conf(5)" >&2
            exit 1
        }
    done < "$work/words"
}

# table NAME FILE: what stands in quotes first in each entry of a table.
table() {
    sed -n "/$1\[\]/,/^};/p" "$policy/$2" | grep -o '{"[^"]*"' | tr -d '{"' > "$work/words"
}

grep -o '\[TDI_KEY_[A-Z_]*\] = "[^"]*"' "$policy/conf.c" | cut -d '"' -f 2 > "$work/words"
all_in_conf key '^\.It .*Cm @ No ='
table '^} errno_names' names.c
all_in_conf error '^\.Er.* @\( \|$\)'
table '^} names' signature_read.c
all_in_conf type 'Cm.* @\( \|$\)'
table '^} obstacles' hooks.c
all_in_conf function ' @\( \|$\)'

# known: the functions that are known, each in one line.
known() {
    tr '\n' ' ' < "$policy/hooks.c" | grep -o '{"[A-Za-z0-9_]*", *"[^"]*", *"[^"]*", *[^}]*}'
}

known | sed 's/{"\([^"]*\)", *"\([^(]*\) (\([^"]*\)", *"\([^"]*\)".*/\4 \2 \1(\3/' > "$work/known"
sed -n '/^\.Sh KNOWN/,/^\.Sh LIMITS/p' "$conf" | sed -n '/^\.Bd/,/^\.Ed/p' | sed '1d;$d' |
    awk '/^ / { line = line $0; next } NR > 1 { print line } { line = $0 } END { print line }' |
    tr -s ' ' > "$work/told"
diff -u "$work/known" "$work/told" || exit 1

known | sed -n 's/{"\([^"]*\)".*, *"\([a-z_]*\)"}/\2 \1/p' | awk '$1 != $2' | sort > "$work/known"
awk '/^\.Ss/ { here = $2 == "Families" } here && /^\.It/ { first = $3 }
    here && first && /^\.Cm/ { for (i = 2; i <= NF; i++) if ($i != ",") print first, $i } /^\.El/ { first = "" }' \
    "$conf" | sort > "$work/told"
[ -s "$work/told" ] || {
    echo 'no family was found' >&2
    exit 1
}
diff -u "$work/known" "$work/told" || exit 1

# Its examples are in order.
awk -v "name=$work/example" '/^\.Ed/ { file = "" } file && !/^\.Ed/ { print > file }
    /^\.Bd -literal/ { file = name "-" ++n ".conf" }' "$conf"
for file in "$work"/example-*.conf; do
    case $(head -n 1 "$file") in
    '['*) works check "$file" ;;
    esac
done

need mandoc
for file in "$page" "$conf" "$source_tree/preload/libtundish-preload.7" "$source_tree/include/tundish/tundish.3"; do
    mandoc -T lint -W warning "$file" || exit 1
done
