#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# A server and a leaf node, each with a JetStream of a domain of its own. The relay and the producer are at the leaf node,
# and the streams at the other server.
#
#     RELAY=... STREAM=... domain.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

cat >nats.conf <<END
listen: "127.0.0.1:-1"
server_name: hub
jetstream { store_dir: "$folder/hub", domain: hub }
leafnodes { listen: "127.0.0.1:-1" }
END
start_server
hub=$url
leafs=$(echo "$ports" | sed -n 's/.*"leafnodes":\["nats:\/\/\(127.0.0.1:[0-9]*\)".*/\1/p')
[ -n "$leafs" ] || leafs=$(sed -n 's/.*leafnode connections on \([0-9.:]*\).*/\1/p' nats.log | head -n 1)
rm -f ./*.ports
cat >nats.conf <<END
listen: "127.0.0.1:-1"
server_name: leaf
jetstream { store_dir: "$folder/leaf", domain: leaf }
leafnodes { remotes: [ { url: "nats://$leafs" } ] }
END
start_server
"$STREAM" "$hub" add ORDERS 'orders.>' >said 2>&1 || fail 'no stream for the targets'
cat >a.conf <<END
space = shop
copies = 1
lease = 500ms
replica = a
replicas = a
servers = $url
api_prefix = \$JS.hub.API
targets = orders.>
state = $folder/a
END
start a.log "$RELAY" -c a.conf
eventually 'shard 0: owned by a' "$RELAY" -c a.conf status
answers 0 'stored as 1 of' -c a.conf put --delay 100 orders.x one
answers 0 'stored as 2 of' -c a.conf put --delay 100 orders.x two
eventually two "$STREAM" "$hub" read ORDERS
eventually two "$STREAM" "$hub" read HWT-shop-0
if "$STREAM" "$url" read HWT-shop-0 >said 2>&1; then
    fail 'the stream is at the leaf node'
fi
cd ..
rm -rf "$folder"
