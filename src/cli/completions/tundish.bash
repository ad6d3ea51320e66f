# SPDX-License-Identifier: MIT
# bash completion for tundish; works with and without the bash-completion package.

_tundish_buckets() {
    local dir=${TUNDISH_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/tundish}} file
    dir=${dir:-/dev/shm/tundish-$UID}
    for file in "$dir"/*; do
        [[ -f $file ]] && printf '%s\n' "${file##*/}"
    done
}

# Fills COMPREPLY with the lines of the second word that start with the first, quoted for the command line.
_tundish_reply() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n $line && $line == "$1"* ]] && COMPREPLY+=("$(printf '%q' "$line")")
    done <<< "$2"
}

_tundish_words() {
    _tundish_reply "$1" "${2// /$'\n'}"
}

# The index of run's command among the words, or nothing while its options are being written.
_tundish_run_command() {
    local i
    for ((i = 2; i <= COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) ((i < COMP_CWORD)) && echo $((i + 1)); return ;;
        -b | --bucket | --rate | --up | --down | --connect | --burst | --calls | --count | --dest | \
            --when-empty | --max-wait | --inherit | --config)
            ((i++))
            [[ ${COMP_WORDS[i]} == = ]] && ((i++))
            ;;
        -*) ;;
        *) echo "$i"; return ;;
        esac
    done
}

_tundish_command_word() {
    if ((COMP_CWORD > $1)); then
        if declare -F _command_offset > /dev/null; then
            _command_offset "$1"
        else
            compopt -o default 2> /dev/null
            COMPREPLY=()
        fi
    else
        compopt -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$2")
    fi
}

_tundish_files() {
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_tundish_option_value() {
    case $1 in
    -b | --bucket) _tundish_reply "$2" "$(_tundish_buckets)" ;;
    --calls) _tundish_words "$2" "up down connect write writev pwrite pwritev send sendto sendmsg sendmmsg \
sendfile splice copy_file_range read readv pread preadv recv recvfrom recvmsg recvmmsg" ;;
    --dest) _tundish_words "$2" 'inet unix pipe file tty' ;;
    --when-empty) _tundish_words "$2" 'wait refuse drop observe' ;;
    --config) _tundish_files "$2" ;;
    --inherit) _tundish_words "$2" 'env always never' ;;
    --count) _tundish_words "$2" 'bytes calls' ;;
    --mode) _tundish_words "$2" '0600 0660 0666' ;;
    --rate | --up | --down) _tundish_words "$2" '1/s 10/s 100/min 100kB/s 1MB/s' ;;
    --connect) _tundish_words "$2" '1/s 10/s 100/min' ;;
    --burst) _tundish_words "$2" '1 10 64KiB 200ms 1s' ;;
    --timeout | --max-wait | --interval) _tundish_words "$2" '100ms 1s 1min' ;;
    --initial) COMPREPLY=() ;;
    *) return 1 ;;
    esac
    return 0
}

_tundish() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local commands='run create set reset rm take wait peek status stat top sidecar check doctor help'
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _tundish_words "$current" "$commands --help --version"
        return
    fi
    if [[ $command == run ]]; then
        local at
        at=$(_tundish_run_command)
        if [[ -n $at ]]; then
            _tundish_command_word "$at" "$current"
            return
        fi
    fi
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    [[ $command == top && $before =~ ^(-d|--delay|-n|--count)$ ]] && return
    _tundish_option_value "$before" "$current" && return
    local options=--help
    case $command in
    run)
        options='-b --rate --up --down --connect --burst --per-process --calls --count --dest'
        options+=' --when-empty --max-wait --dry-run --inherit --config --no-config --verbose --help --'
        ;;
    create) options='--rate --burst --initial --unfair --stepped --strict --mode --verbose --help' ;;
    wait) options='--timeout --help' ;;
    set) options='--rate --burst --verbose --help' ;;
    top) options='--delay --count --plain --help' ;;
    sidecar) options='--textfile --json --records --interval --help' ;;
    status) options='--json --prom --raw --help' ;;
    esac
    case $command in
    doctor)
        if [[ $current == -* ]]; then
            _tundish_words "$current" "$options"
        else
            _tundish_command_word 2 "$current"
        fi
        ;;
    check)
        if [[ $current == -* ]]; then
            _tundish_words "$current" "$options"
        else
            _tundish_files "$current"
        fi
        ;;
    help) _tundish_words "$current" "${commands% help}" ;;
    *)
        if [[ $current == -* || $command == run ]]; then
            _tundish_words "$current" "$options"
        elif [[ $command != create ]]; then
            _tundish_reply "$current" "$(_tundish_buckets)"
        fi
        ;;
    esac
}

complete -F _tundish tundish
