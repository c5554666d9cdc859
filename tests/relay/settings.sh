#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Settings of a server and of streams that withhold messages or lose them: what can be gone by is, and the rest is said by its
# name. A full stream is read by one consumer.
#
#     RELAY=... STREAM=... settings.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server, or no Python.

set -eu

command -v python3 >/dev/null || {
    echo 'skipped: there is no python3'
    exit 77
}
api=$(cd "$(dirname "$0")" && pwd)/api.py

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# write_config SPACE
write_config()
{
    cat >"$1.conf" <<END
space = $1
copies = 1
lease = 500ms
replica = a
replicas = a
servers = $url
targets = orders.>
state = $folder/$1
END
}

# api ARGUMENT...: its answer is in the file said
api()
{
    python3 "$api" "$url" "$@" >said 2>&1
}

cat >nats.conf <<END
listen: "127.0.0.1:-1"
jetstream { store_dir: "$folder/js", limits { max_request_batch: 100 } }
END
start_server
"$STREAM" "$url" add ORDERS 'orders.>' >said 2>&1 || fail 'no stream for the targets'

# A stream that was made by hand, of each space.
n=0
while read -r setting words; do
    n=$((n + 1))
    write_config "s$n"
    api "STREAM.CREATE.HWT-s$n-0" "{\"name\":\"HWT-s$n-0\",\"subjects\":[\"hwt.s$n.0\"],$setting}" || continue
    grep -q "${setting%%:*}" said || continue # an older server knows no such setting
    answers 0 "messages may be lost: the stream HWT-s$n-0 has $words" -c "s$n.conf" status
    answers 1 "HWT-s$n-0 has $words" -c "s$n.conf" check
    answers 1 "it is not put: the stream HWT-s$n-0 has $words" -c "s$n.conf" put --delay 0 orders.x one
    echo "$words" >>seen
done <<'END'
"max_age":3600000000000 max_age 3600000000000, which
"retention":"interest" retention interest, which
"retention":"workqueue" retention workqueue, which
"max_msgs":1000 max_msgs 1000, which
"max_bytes":100000 max_bytes 100000, which
"max_msgs_per_subject":1000 max_msgs_per_subject 1000, which
"allow_rollup_hdrs":true allow_rollup_hdrs true, which
"deny_purge":true deny_purge true, which
"no_ack":true no_ack true, which
"allow_msg_ttl":true allow_msg_ttl true, which
"allow_msg_schedules":true allow_msg_schedules true, which
END
[ "$(wc -l <seen)" -ge 9 ] || fail 'too few settings were seen'

# Nobody can make the consumer.
write_config few
api STREAM.CREATE.HWT-few-0 '{"name":"HWT-few-0","subjects":["hwt.few.0"],"max_consumers":1}' || fail 'no stream'
api CONSUMER.DURABLE.CREATE.HWT-few-0.x \
    '{"stream_name":"HWT-few-0","config":{"durable_name":"x","ack_policy":"none"}}' || fail 'no consumer'
start few.log "$RELAY" -c few.conf
eventually 'no consumer is made: ' cat few.log
eventually 'maximum consumers limit reached' cat few.log

# Limits that can be gone by. By many consumers it would take a minute.
write_config shop
api STREAM.CREATE.HWT-shop-0 \
    '{"name":"HWT-shop-0","subjects":["hwt.shop.0"],"consumer_limits":{"inactive_threshold":10000000000}}' || fail 'no stream'
start shop.log "$RELAY" -c shop.conf
eventually 'shard 0: owned by a' "$RELAY" -c shop.conf status
api fill hwt.shop.0 30000 || fail 'the stream is not filled'
eventually 'a has read up to 30000 of 30000' "$RELAY" -c shop.conf status
api CONSUMER.LIST.HWT-shop-0 '{}' || fail 'no list'
[ "$(grep -o '"stream_name": "HWT-shop-0", "name"' said | wc -l)" -eq 1 ] || fail 'it was read by several consumers'

# Somebody edits the description: all goes on, also in a relay that begins then.
write_config edit
start edit.log "$RELAY" -c edit.conf
relay=$process
eventually 'shard 0: owned by a' "$RELAY" -c edit.conf status
answers 0 'stored as 1 of' -c edit.conf put --delay 3600000 orders.x later
eventually 'a has read up to 1 of 1' "$RELAY" -c edit.conf status
api change HWT-edit-0 '{"description":"orders of the shop"}' || fail 'no description'
answers 0 'stored as 2 of' -c edit.conf put --delay 0 orders.x one
eventually one "$STREAM" "$url" read ORDERS
kill -9 "$relay"
wait "$relay" || true
start edit.log "$RELAY" -c edit.conf
answers 0 'stored as 3 of' -c edit.conf put --delay 0 orders.x two
eventually two "$STREAM" "$url" read ORDERS
cd ..
rm -rf "$folder"
