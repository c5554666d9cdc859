#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Two relays and one server whose delay stream is purged, is made anew, and loses its end: each message that a
# relay has read, or that is there afterwards, reaches its target once.
#
#     RELAY=... STREAM=... anew.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# write_config REPLICA
write_config()
{
    cat >"$1.conf" <<END
space = shop
copies = 1
lease = 500ms
replica = $1
replicas = a b
servers = $url
targets = orders.>
state = $folder/$1
END
}

# put DELAY PAYLOAD POSITION, which both relays have read then
put()
{
    answers 0 "stored as $3 of" -c a.conf put --delay "$1" orders.x "$2"
    eventually "a has read up to $3 of $3" "$RELAY" -c a.conf status
    eventually "b has read up to $3 of $3" "$RELAY" -c a.conf status
}

# all_have_come PAYLOAD...: each once, in whatever order
all_have_come()
{
    for payload in "$@"; do
        eventually "$payload" "$STREAM" "$url" read ORDERS
    done
    "$STREAM" "$url" read ORDERS | sort >said
    printf '%s\n' "$@" | cmp -s - said || fail "others have come than $*"
}

# It is for the server that begins again, too. It is below those that the system gives to whoever does not ask for
# one, so that nobody gets it meanwhile.
port=$((10000 + $$ % 20000))
start_server
server_process=$process
"$STREAM" "$url" add ORDERS 'orders.>'
for replica in a b; do
    write_config $replica
    start $replica.log "$RELAY" -c $replica.conf
done
eventually 'shard 0: owned by' "$RELAY" -c a.conf status

put 6000 one 1
"$STREAM" "$url" purge HWT-shop-0
put 6000 two 2
"$STREAM" "$url" anew HWT-shop-0 "hwt-relay incarnation=7"
put 6000 three 1
put 0 four 2
all_have_come four one three two
grep -q 'the stream was made anew' a.log || fail 'it is not said'

# The server dies, and comes back with what its files had some time before.
"$STREAM" "$url" anew HWT-shop-0 "made by hand"
began=$(date +%s)
put 3600000 five 1
took=$(($(date +%s) - began))
kill "$server_process"
wait "$server_process" || true
cp -r js js-before
rm -f ./*.ports
start_server
server_process=$process
# They are due after the server has died: by a delay that goes by how long it took to put one.
put $((20000 + 10000 * took)) six 2
put $((20000 + 10000 * took)) seven 3
kill -9 "$server_process"
wait "$server_process" || true
rm -r js
mv js-before js
rm -f ./*.ports
start_server
eventually 'shard 0' "$RELAY" -c a.conf status
answers 0 'stored as 2 of' -c a.conf put --delay 1000 orders.x eight
answers 0 'stored as 3 of' -c a.conf put --delay 1000 orders.x nine
answers 0 'stored as 4 of' -c a.conf put --delay 0 orders.x ten
eventually "the stream's leader does not have what was read" cat a.log
eventually "the stream's leader does not have what was read" cat b.log
# The target's stream was set back, too, but to a time when it had the first four.
all_have_come eight four nine one seven six ten three two
cd ..
rm -rf "$folder"
