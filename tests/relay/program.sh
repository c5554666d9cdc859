#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# hwt-relay as one calls it: misuse, a server that is not there, and every command beside one server and
# one relay, whose target nobody takes.
#
#     RELAY=... DELAY=... program.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# How many messages wait in shard 0: one line of `hwt-delay stat`, however it is set.
waiting()
{
    "$DELAY" stat state/0 | sed -n 's/^pending[: ]*/pending: /p'
}

# write_config SERVER
write_config()
{
    cat >relay.conf <<END
space = shop
shards = 2
copies = 1
lease = 10s
attempts = 2
replica = a
replicas = a b
servers = $1
targets = orders.>
state = $folder/state
END
}

# ---- without a server ----

answers 0 'Usage: hwt-relay' --help
answers 0 'hwt-relay 0.' --version
answers 2 'no configuration file' status
answers 2 'no such command' -c relay.conf sing
answers 2 'a bad option' --loud
answers 2 'too few operands' -c relay.conf put --delay 1 orders.x
answers 2 'too many operands' -c relay.conf status now
answers 2 'status has no option -d' -c relay.conf --due 1 status
answers 2 'too few operands' -c relay.conf forget
answers 2 'check has no option -s' -c relay.conf check --shard 0
answers 2 'too many operands' -c relay.conf dump state
answers 1 'relay.conf' -c relay.conf status
write_config nats://127.0.0.1:1
echo 'lease = soon' >>relay.conf
answers 2 'relay.conf:11' -c relay.conf status
printf 'lease = soon\nspace = a.b\nservers = nats://u:hush@a nats://u:hush@a\n' >bad.conf
for text in 'bad.conf:1: lease: soon' 'bad.conf:2: space: a.b' 'bad.conf:3: servers: word 1' \
    'bad.conf:3: replica is not set' 'bad.conf:3: state is not set'; do
    answers 2 "$text" --check-config bad.conf
done
! grep hush said || fail 'a password is said'
answers 1 'No such file' --check-config none.conf
answers 2 'too many operands' --check-config relay.conf status
write_config nats://127.0.0.1:1
answers 0 'there is no mistake in it' --check-config relay.conf
[ ! -e state ] || fail 'who checks a configuration makes a state'
answers 1 'no relay runs' -c relay.conf drain
answers 1 'the broker does not answer' -c relay.conf status
answers 1 'the broker does not answer' -c relay.conf put --delay 1 orders.x body
answers 1 'the broker does not answer' -c relay.conf forget b
answers 1 'the broker does not answer' -c relay.conf check
answers 2 'c is none of the replicas' -c relay.conf forget c
answers 1 'no store is there' -c relay.conf dump
answers 2 'there is no shard 2' -c relay.conf dump --shard 2
answers 2 'there is no shard 2' -c relay.conf put --delay 1 --shard 2 orders.x body
answers 2 'there is no shard x' -c relay.conf put --delay 1 --shard x orders.x body
answers 2 "a header is 'NAME: VALUE'" -c relay.conf put --delay 1 --header colour orders.x body
answers 2 "a header is 'NAME: VALUE'" -c relay.conf put --delay 1 --header ': red' orders.x body
answers 2 'has a line' -c relay.conf put --delay 1 --key "$(printf 'a\nb')" orders.x body
answers 2 'dead letter' -c relay.conf put --delay soon orders.x body
answers 2 'dead letter' -c relay.conf put --delay 1 'orders.*' body
answers 2 'dead letter' -c relay.conf cancel --due 2030-01-01T00:00:00Z
set --
for i in $(seq 65); do
    set -- "$@" --header "Colour: $i"
done
answers 2 'more than 64 headers' -c relay.conf put --delay 1 "$@" orders.x body

sed -i "s,^state = .*,state = $folder/none/state," relay.conf
answers 1 "$folder/none/state" -c relay.conf run
sed -i "s,^state = .*,state = $folder/relay.conf," relay.conf
answers 1 "$folder/relay.conf" -c relay.conf run
sed -i "s,^state = .*,state = $folder/odd," relay.conf
mkdir odd
echo odd >odd/0
answers 1 "$folder/odd/0" -c relay.conf run
rm odd/0
mkdir odd/0
echo odd >odd/0/odd
answers 1 "$folder/odd/0" -c relay.conf run

# ---- with one ----

start_server
write_config "$url"

start relay.log "$RELAY" -c relay.conf
eventually 'shard 1: owned by a' "$RELAY" -c relay.conf status
answers 1 '' -c relay.conf run # its state is in use
answers 0 'of shard 0' -c relay.conf put --delay 3600000 --shard 0 orders.later body
answers 0 'stored as 2 of shard 0' -c relay.conf put --due 2030-01-01T00:00:00Z --key order-17 \
    --shard 0 --header 'Colour: red' orders.later body
answers 0 'stored as 3 of shard 0' -c relay.conf replace --due-old 2030-01-01T00:00:00Z \
    --due 2031-01-01T00:00:00Z --key order-17 --shard 0 orders.later 'another body'
answers 0 'stored as 4 of shard 0' -c relay.conf cancel --due 2031-01-01T00:00:00Z --key order-17 \
    --shard 0
answers 0 'stored as' -c relay.conf put --delay 3600000 --key order-18 orders.later body

# Nobody takes this one. It comes back once, and is then a dead letter, so only the first one waits.
answers 0 'stored as 5 of shard 0' -c relay.conf put --delay 0 --shard 0 orders.nobody body
eventually 'a has read up to 6 of 6' "$RELAY" -c relay.conf status
answers 0 'b has read up to 0 of 6' -c relay.conf status
eventually 'pending: 1 ' waiting
answers 0 '' -c relay.conf drain
wait "$process" || fail "the relay that was drained exits with $?"
answers 0 'shard 0: free' -c relay.conf status
for n in 0 1; do
    "$DELAY" check "state/$n" >said 2>&1 || fail "the store of shard $n is damaged"
done
cd ..
rm -rf "$folder"
