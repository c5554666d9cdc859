#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# hwt-relay on Kafka as one calls it, beside the mock cluster: every command, a replica that dies, one that is drained,
# dead letters, and a restart. That cluster fences nobody, so two replicas are never left to own one shard here.
#
#     RELAY=... DELAY=... MOCK=... kafka.sh
#
# Exit status: 0; 1: something is wrong, and is said.

set -eu

server=$MOCK
# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# write_config REPLICA
write_config()
{
    cat >"$1.conf" <<END
engine = kafka
space = shop
lease = 10s
attempts = 2
replica = $1
replicas = a b
servers = $brokers
targets = orders.>
state = $folder/$1
END
}

# How many messages wait in a store: one line of `hwt-delay stat`, however it is set.
waiting()
{
    "$DELAY" stat "$1/0" | sed -n 's/^pending[: ]*/pending: /p'
}

brokers=127.0.0.1:1
write_config a
answers 1 'the broker does not answer' -c a.conf status
answers 1 'the broker does not answer' -c a.conf put --delay 1 orders.x body
echo 'kafka = no.such.property=1' >>a.conf
answers 1 'is no property of librdkafka' -c a.conf status

# It ends with its standard input, which is held open here.
mkfifo hold
"$MOCK" 1 hwt-many:3 hwt-many-entries:3 hwt-many-places:3 hwt-many-dead:1 hwt-shop:1 hwt-shop-entries:1 hwt-shop-places:1 hwt-shop-dead:1 orders.now:1 <hold >brokers 2>mock.log &
started="$started $!"
exec 9>hold
for _ in $(seq 600); do
    [ -s brokers ] && break
    sleep 0.1
done
brokers=$(cat brokers)
[ -n "$brokers" ] || fail 'the mock cluster does not start'
write_config a
write_config b

# ---- orders by hand ----

start a.log "$RELAY" -c a.conf
a=$process
eventually 'shard 0: owned by a' "$RELAY" -c a.conf status
answers 2 'dead letter' -c a.conf put --delay 1 'orders.*' body
answers 0 'of shard 0' -c a.conf put --due 2090-01-01T00:00:00Z --key order-17 --header 'Colour: red' orders.now 'pay 17'
answers 0 'of shard 0' -c a.conf replace --due-old 2090-01-01T00:00:00Z --due 2091-01-01T00:00:00Z --key order-17 \
    orders.now 'pay 18'
answers 0 'of shard 0' -c a.conf put --due 2090-01-01T00:00:00Z --key order-18 orders.now body
answers 0 'of shard 0' -c a.conf cancel --due 2090-01-01T00:00:00Z --key order-18
answers 0 'of shard 0' -c a.conf put --delay 0 orders.now first
eventually 'a has read up to 5 of 5' "$RELAY" -c a.conf status
eventually 'pending: 1' waiting a
"$RELAY" -c a.conf dump >said
grep -q '^2091.*orders.now	order-17	pay 18$' said || fail 'the dump is another one'
answers 0 'a has read up to' -c a.conf status
answers 1 'b: has read nothing yet' -c a.conf check
answers 1 'a owns a shard: drain it' -c a.conf forget a
answers 1 'on Kafka the dead letters are a topic, hwt-shop-dead' -c a.conf dead list

# ---- a cancel reaches the message whatever partition its producer has chosen ----

sed 's/^space.*/space = many\nshards = 3/' a.conf >many.conf
answers 0 'of shard' -c many.conf put --due 2090-01-01T00:00:00Z --key order-17 orders.now body
[ "$(grep -c 'stored as' said)" -eq 1 ] || fail 'a put goes to more than one shard'
for op in 'cancel' 'replace --due-old 2090-01-01T00:00:00Z'; do
    # shellcheck disable=SC2086 # words
    set -- $op --due 2090-01-01T00:00:00Z --key order-17
    [ "$op" = cancel ] || set -- "$@" orders.now other
    answers 0 'of shard' -c many.conf "$@"
    [ "$(sed -n 's/^stored as .* of shard //p' said | sort | tr '\n' ' ')" = '0 1 2 ' ] || fail "$op does not go to each shard"
done
answers 0 'of shard 1' -c many.conf cancel --due 2090-01-01T00:00:00Z --key order-17 --shard 1
[ "$(grep -c 'stored as' said)" -eq 1 ] || fail 'a cancel in one shard goes to others'

# ---- a second replica; the first one is drained, then killed ----

start b.log "$RELAY" -c b.conf
b=$process
eventually 'b: has read up to' "$RELAY" -c a.conf check "$folder/b"
answers 0 '' -c a.conf drain
wait "$a" || fail "the relay that was drained exits with $?"
eventually 'shard 0: owned by b' "$RELAY" -c b.conf status
answers 0 'of shard 0' -c b.conf put --delay 0 orders.now second
eventually 'b has read up to 6 of 6' "$RELAY" -c b.conf status
eventually 'pending: 1' waiting b
answers 0 '' -c b.conf forget a
answers 0 'a is forgotten' -c b.conf status
kill -9 "$b"
start a.log "$RELAY" -c a.conf
a=$process
eventually 'shard 0: owned by a' "$RELAY" -c a.conf status
answers 0 'of shard 0' -c a.conf put --delay 0 orders.now third

# No topic can have so long a name, so it is a dead letter at once.
answers 0 'of shard 0' -c a.conf put --delay 0 "orders.$(printf '%0243d' 1)" nobody
eventually 'a has read up to 8 of 8' "$RELAY" -c a.conf status
eventually 'pending: 1' waiting a
answers 0 '' -c a.conf drain
wait "$a" || fail "the relay that was drained exits with $?"
answers 0 'shard 0: free' -c a.conf status
for replica in a b; do
    "$DELAY" check "$replica/0" >said 2>&1 || fail "the store of $replica is damaged"
done

# ---- what has arrived ----

if /usr/bin/python3 -c 'import confluent_kafka' 2>/dev/null; then
    /usr/bin/python3 - "$brokers" >arrived 2>said <<'END' || fail 'the topics cannot be read'
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "none", "enable.partition.eof": True})
for topic in "orders.now", "hwt-shop-dead":
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (message := consumer.poll(60)) is not None and not message.error():
        print(topic, message.value().decode())
    if message is None:
        sys.exit(1)
consumer.close()
END
    sort arrived >said
    printf '%s\n' 'hwt-shop-dead nobody' 'orders.now first' 'orders.now second' 'orders.now third' |
        diff - said || fail 'other messages have arrived'
fi
exec 9>&-
cd ..
rm -rf "$folder"
