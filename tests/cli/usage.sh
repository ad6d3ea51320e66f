#!/bin/sh
# SPDX-License-Identifier: MIT
# Wrong usage is status 64 and one line that says what would be right.
. "$(dirname "$0")/kit.sh"

# wrong PATTERN ARGS...
wrong() {
    pattern=$1
    shift
    tundish "$@"
    exits 64
    prints ''
    says "$pattern"
    same "$(wc -l < "$work/err")" 1 'lines said'
}

wrong "tundish: no command; try 'tundish help'"
wrong "tundish: fly: no such command; try 'tundish help'" fly
wrong "tundish: --fly: unknown option; try 'tundish help'" --fly
wrong "tundish: fly: no such command; *" help fly
wrong "tundish: create: needs one NAME; try 'tundish help create'" create --rate 1/s
wrong "tundish: create: needs one NAME; *" create a b --rate 1/s
wrong "tundish: create: needs --rate; *" create a
wrong "tundish: create: --rate needs a value; *" create a --rate
wrong "tundish: create: unknown option --fly; *" create a --rate 1/s --fly
wrong "tundish: create: unknown option -x; *" create a --rate 1/s -x
wrong "tundish: create: --stepped takes no value; *" create a --rate 1/s --stepped=1
wrong "tundish: --rate '10': does not say per what time: *" create a --rate 10
wrong "tundish: --rate '10K/s': 'K' is ambiguous: write kB * or KiB *" create a --rate 10K/s
wrong "tundish: --burst '0': is zero: *" create a --rate 1/s --burst 0
wrong "tundish: run: needs a command; *" run --rate 1/s
wrong "tundish: run: needs a command; *" run --rate 1/s --
wrong "tundish: run: needs -b NAME, --rate, --up, --down or --connect, *" run true
wrong "tundish: run: --burst goes with --rate, --up, --down or --connect; *" run -b a --burst 3 true
wrong "tundish: run: --per-process and -b exclude each other: *" run -b a --rate 1/s --per-process true
wrong "tundish: run: -b goes with --rate only: *" run -b a --up 1MB/s true
wrong "tundish: run: -b goes with --rate only: *" run -b a --rate 1/s --connect 1/s true
wrong "tundish: run: --calls goes with -b or --rate: *" run --down 1MB/s --calls read true
wrong "tundish: run: --count tokens is neither bytes nor calls; *" run --rate 1/s --count tokens true
wrong "tundish: run: --rate 1MB/s is in bytes, but --count says calls; *" run --rate 1MB/s --count calls true
wrong "tundish: run: --up 1MB/s is in bytes, but --count says calls; *" run --up 1MB/s --count calls true
wrong "tundish: run: --connect 1MB/s is in bytes, but a connection is a call: 10/s; *" run --connect 1MB/s true
wrong "tundish: --down '1': does not say per what time: *" run --up 1MB/s --down 1 true
wrong "tundish: --burst '64KiB': is a size, but the rate counts calls: *" \
    run --up 1MB/s --connect 1/s --burst 64KiB true
wrong "tundish: run: --calls fly: is a list of *" run --rate 1/s --calls fly true
wrong "tundish: run: --dest example.com: 'example.com' is a name: a destination is an address *" \
    run --rate 1/s --dest example.com true
wrong "tundish: run: --when-empty fly: is wait, refuse, *" run --rate 1/s --when-empty fly true
wrong "tundish: run: --max-wait 5: is no time: *" run --rate 1/s --max-wait 5 true
wrong "tundish: run: --inherit fly: is env, always or never; *" run --rate 1/s --inherit fly true
wrong "tundish: run: --dry-run holds nothing, so --when-empty drop has no meaning; *" \
    run --rate 1/s --dry-run --when-empty drop true
wrong "tundish: run: --config and --no-config exclude each other; *" run --config x --no-config -- true
wrong "tundish: run: needs -b NAME, *" run --no-config true
wrong "tundish: x: No such file or directory" run --config x -- true
wrong "tundish: check: takes one FILE; *" check a b
wrong "tundish: run: no more than 8 buckets at once; *" \
    run -b 1 -b 2 -b 3 -b 4 -b 5 -b 6 -b 7 -b 8 -b 9 true
wrong "tundish: status: unknown option --fly; *" status --fly
wrong "tundish: status: --json takes no value; *" status --json=x
wrong "tundish: status: --json, --prom and --raw exclude each other; *" status --raw a --json
wrong "tundish: stat: needs NAME and perhaps an interval and a count; *" stat
wrong "tundish: stat: needs NAME *" stat a 1 2 3
wrong "tundish: stat: interval '0.001': is less than 10 ms; *" stat a 0.001
wrong "tundish: stat: interval '1fly': *; *" stat a 1fly
wrong "tundish: stat: count '0': is zero; *" stat a 1 0
wrong "tundish: stat: count 'fly': is no whole number, such as 20; try 'tundish help stat'" stat a 1 fly
wrong "tundish: top: count '1.5': is no whole number, such as 20; *" top -n 1.5
wrong "tundish: top: delay '2h': is more than 60 min; *" top -d 2h
wrong "tundish: sidecar: interval '0.05': is less than 100 ms; *" sidecar --interval 0.05
wrong "tundish: sidecar: interval '400d': is more than 366 d; *" sidecar --interval 400d
wrong "tundish: sidecar: records 'x': is no whole number, such as 20; *" sidecar --records=x
wrong "tundish: sidecar: records '0': is zero; *" sidecar --records=0
wrong "tundish: sidecar: records '99999999999': is more than 4294967295; *" sidecar --records=99999999999
wrong "tundish: sidecar: directory '': is empty; *" sidecar ''
wrong "tundish: sidecar: takes one directory; *" sidecar a b
wrong "tundish: a?b?c: no such command; *" "$(printf 'a\nb\033c')"
same "$(ls "$TUNDISH_DIR")" '' 'nothing was made'

works help
prints 'usage: tundish COMMAND*'
works --help
works -h
for command in run create set reset rm take peek status stat check doctor; do
    works help $command
    prints "usage: tundish $command *"
    works $command --help
    prints "usage: tundish $command *"
    works $command -h
done
works --version
prints 'tundish [0-9]*.[0-9]*.[0-9]*'
