#!/bin/sh
# SPDX-License-Identifier: MIT
# bash completes commands, options, buckets and the command to run; zsh can at least read its file.
. "$(dirname "$0")/kit.sh"
need bash

works create api --rate 1/s
works create 'two words' --rate 1/s

# completes WORDS... : the last word is completed; prints the answers in order, one a line.
completes() {
    bash -c '
        . "$0/src/cli/completions/tundish.bash"
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _tundish
        printf "%s\n" "${COMPREPLY[@]}" | sort | tr "\n" " "
    ' "$source_tree" "$@"
}

same "$(completes tundish cr)" 'create ' 'a command'
same "$(completes tundish r)" 'reset rm run ' 'commands'
same "$(completes tundish st)" 'stat status ' 'commands that show'
same "$(completes tundish status --)" '--help --json --prom --raw ' 'options of status'
same "$(completes tundish top --)" '--count --delay --help --plain ' 'options of top'
same "$(completes tundish top --count '')" ' ' 'a number'
same "$(completes tundish top -d 1 a)" 'api ' 'a bucket of top'
same "$(completes tundish sidecar --)" '--help --interval --json --records --textfile ' 'options of sidecar'
same "$(completes tundish stat a)" 'api ' 'a bucket of stat'
same "$(completes tundish help pe)" 'peek ' 'help'
same "$(completes tundish take '')" 'api two\ words ' 'buckets'
same "$(completes tundish take tw)" 'two\ words ' 'a bucket to be quoted'
same "$(completes tundish create '')" ' ' 'a new name'
same "$(completes tundish create x --st)" '--stepped --strict ' 'options'
same "$(completes tundish run -b a)" 'api ' 'a bucket of run'
same "$(completes tundish run --count '')" 'bytes calls ' 'a value'
same "$(completes tundish run --count = c)" 'calls ' 'a value after ='
same "$(completes tundish run --inherit '')" 'always env never ' 'what is inherited'
same "$(completes tundish run --config /et)" '/etc ' 'a file'
same "$(completes tundish run --config x ls -)" ' ' 'options of the command after a file'
same "$(completes tundish run --no)" '--no-config ' 'a flag of run'
same "$(completes tundish check /et)" '/etc ' 'a file to check'
same "$(completes tundish check --)" '--help ' 'options of check'
same "$(completes tundish run --calls send)" 'send sendfile sendmmsg sendmsg sendto ' 'calls'
same "$(completes tundish run --dest :443 --d)" '--dest --down --dry-run ' 'options after a value'
same "$(completes tundish run --ra)" '--rate ' 'an option of run'
same "$(completes tundish run --rate 1/s ls -)" ' ' 'options of the command are not ours'
same "$(completes tundish run --up 1MB/s --dry-run ls -)" ' ' 'options of the command after a flag'
case $(completes tundish run --rate 1/s -- ba) in
*bash*) ;;
*)
    echo 'run does not complete a command' >&2
    exit 1
    ;;
esac

case $(completes tundish doctor ba) in
*bash*) ;;
*)
    echo 'doctor does not complete a command' >&2
    exit 1
    ;;
esac

if command -v zsh > /dev/null; then
    zsh -n "$source_tree/src/cli/completions/_tundish" || exit 1
fi
