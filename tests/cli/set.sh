#!/bin/sh
# SPDX-License-Identifier: MIT
# set changes what it is told to and nothing else.
. "$(dirname "$0")/kit.sh"

works create api --rate 1/d --burst 10 --initial 4
works set api --rate 2/d
same "$(value rate api)" 2/d 'new rate'
same "$(value capacity api)" 10 'burst kept'
same "$(value available api)" 4 'tokens kept'
works set api --burst 20
same "$(value rate api)" 2/d 'rate kept'
same "$(value capacity api)" 20 'new burst'
works set api --rate 10/s --burst 500ms
same "$(value capacity api)" 5 'a burst as a time of the new rate'
tundish set api --burst 1s --verbose
exits 0
says 'tundish: api: 10/s, burst 10'

works create bytes --rate 1MB/s
works set bytes --rate 2MB/s
same "$(value rate bytes)" '2 MB/s' 'still bytes'
tundish set bytes --rate 10/s
exits 1
says "tundish: bytes: counts bytes, and '10/s' is a rate of calls; write it with a unit*"
tundish set api --rate 10kB/s
exits 1
says "tundish: api: counts calls, and '10kB/s' is a rate of bytes; write it without a unit*"
same "$(value rate api)" 10/s 'rate after a refused change'

works create stepped --rate 1/d --stepped --burst 5
tundish set stepped --rate 2000000000/d --burst 2000000000
exits 1
says 'tundish: stepped: * is more than a bucket can do; *'
same "$(value rate stepped)" 1/d 'rate after an impossible change'

tundish set api
exits 64
says "tundish: set: needs --rate or --burst; try 'tundish help set'"
tundish set --rate 1/s
exits 64
tundish set nowhere --rate 1/s
exits 1
says 'tundish: nowhere: no such bucket*'
tundish set api --burst 64KiB
exits 64
says "tundish: --burst '64KiB': is a size, but the rate counts calls*"
