#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# A shard and a target are added while two relays run; a configuration that is wrong changes nothing, and what else is
# changed is said and not taken.
#
#     RELAY=... STREAM=... shards.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

start_server
"$STREAM" "$url" add ORDERS 'orders.>'
for replica in a b; do
    cat >$replica.conf <<END
space = shop
shards = 1
copies = 1
lease = 500ms
replica = $replica
replicas = a b
servers = $url
targets = orders.>
state = $folder/$replica
END
    start $replica.log "$RELAY" -c $replica.conf
    [ "$replica" = b ] || a=$process
    b=$process
done
# Both have begun, so that SIGHUP does not end them.
answers 0 'of shard 0' -c a.conf put --delay 3600000 --shard 0 orders.x later
answers 0 'of shard 0' -c a.conf put --delay 3600000 --shard 0 orders.x later
for replica in a b; do
    eventually "$replica has read up to 2 of 2" "$RELAY" -c a.conf status
done

sed -i 's/^shards = .*/shards = many/' a.conf
kill -HUP "$a"
eventually 'many is not a number' cat a.log
eventually 'a.conf cannot be read, so nothing of it is taken' cat a.log
sed -i 's/^shards = .*/shards = 3/' a.conf
kill -HUP "$a"
eventually 'shard 2: owned by a' "$RELAY" -c a.conf status
answers 0 'of shard 2' -c a.conf put --delay 1000 --shard 2 orders.x one
kill -HUP "$b" # its file is as it was
sed -i 's/^shards = .*/shards = 3/' b.conf
kill -HUP "$b"
eventually 'b has read up to 1 of 1' "$RELAY" -c b.conf status
answers 0 'of shard 1' -c a.conf put --delay 1000 --shard 1 orders.x two
eventually one "$STREAM" "$url" read ORDERS
eventually two "$STREAM" "$url" read ORDERS
[ "$("$STREAM" "$url" read ORDERS | wc -l)" -eq 2 ] || fail 'one was sent twice'

# Targets are taken, too, by the owner.
"$STREAM" "$url" add MAILS 'mails.>'
eventually 'a.conf was read again: its targets and shards are taken' cat a.log
answers 2 'dead letter' -c a.conf put --delay 1000 --shard 0 mails.x three
sed -i 's/^targets = .*/targets = mails.>/; s/^lease = .*/lease = 400ms/; s/^copies = 1/user = u\npassword = hush/' a.conf b.conf
sed -i 's/^shards = .*/shards = 2/' b.conf
kill -HUP "$a" "$b"
for setting in user password lease copies; do
    eventually "$setting has changed, which is not taken before a new start" cat a.log
done
eventually 'shards is lowered, which is not taken before a new start' cat b.log
! grep hush a.log b.log >said || fail 'a password is said'
sed -i '/^user/d; /^password/d; s/^lease.*/lease = 500ms\ncopies = 1/' a.conf b.conf
sed -i 's/^shards = .*/shards = 3/' b.conf
eventually 'shard=0 msg="the targets are now mails.>"' cat a.log
eventually 'shard=0 msg="the targets are now mails.>"' cat b.log
answers 0 'of shard 0' -c a.conf put --delay 0 --shard 0 mails.x three
answers 0 'of shard 0' -c a.conf put --delay 0 --shard 0 mails.x four
eventually four "$STREAM" "$url" read MAILS
grep three said || fail 'a message is missing'

# Two shards of three: what is in the last one would never come.
sed 's/^shards = .*/shards = 2/' a.conf >few.conf
answers 0 'has 3 shards, and nothing is forwarded of those from 2 on' -c few.conf status
answers 1 'has 3 shards, and nothing is forwarded of those from 2 on' -c few.conf check
"$RELAY" -c a.conf status >said || fail 'the status of three shards'
! grep 'nothing is forwarded' said || fail 'three shards are too few'
for replica in a b; do
    answers 0 '' -c $replica.conf drain
done
start few.log "$RELAY" -c few.conf
eventually 'has 3 shards, and nothing is forwarded of those from 2 on' cat few.log
answers 0 '' -c few.conf drain
wait "$a" || fail "the relay that was drained exits with $?"
cd ..
rm -rf "$folder"
