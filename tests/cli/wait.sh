#!/bin/sh
# SPDX-License-Identifier: MIT
# wait stands in line until its tokens are there; peek and status show the line.
. "$(dirname "$0")/kit.sh"

works create slow --rate 1/d --burst 2
works wait slow 2
tundish wait slow --timeout 50ms
exits 124
says ''
prints ''
tundish wait slow 5 --timeout=50ms
exits 124
same "$(value available slow)" 0 'tokens after two waits that timed out'
works reset slow
same "$(value available slow)" 2 'tokens after a reset'
tundish wait slow 5 --timeout 50ms
exits 124
same "$(value available slow)" 2 'what a wait for more had gathered is back'

works create fast --rate 100/s --burst 1
works wait fast 20
works wait fast 3 --timeout 10s

works wait slow 2
"$bin" wait slow --timeout 30s &
waiter=$!
tries=0
until [ "$(value waiting slow)" = 1 ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail 'nobody is seen waiting'
done
case $(value oldest_wait slow) in
0\ s | '') fail 'the oldest wait is not shown' ;;
esac
tundish status slow
prints '*WAITING*OLDEST*'
tundish take slow
exits 75
works reset slow
wait $waiter || fail 'the reset did not serve who was waiting'
same "$(value waiting slow)" 0 'in line after the reset'

tundish wait slow --timeout 5
exits 64
says "tundish: --timeout: '5': *"
tundish wait
exits 64
says "tundish: wait: needs NAME and perhaps a count; try 'tundish help wait'"
tundish wait nowhere
exits 1
says 'tundish: nowhere: no such bucket*'
