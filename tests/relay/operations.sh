#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# An operator's commands: dump, check and forget, beside one server and two relays that run.
#
#     RELAY=... DELAY=... STORE=... operations.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

for replica in a b; do
    cat >$replica.conf <<END
space = shop
copies = 1
lease = 1s
attempts = 2
replica = $replica
replicas = a b
servers = nats://127.0.0.1:1
targets = orders.>
state = $folder/$replica
END
done
answers 1 'no store is there' -c a.conf dump
mkdir -p a/0
answers 1 'no store is there' -c a.conf dump
rm -r a

start_server
sed -i "s,^servers = .*,servers = $url," ./*.conf
start a.log "$RELAY" -c a.conf
a=$process
eventually 'shard 0: owned by a' "$RELAY" -c a.conf status

# ---- dump ----

answers 0 'stored as 1' -c a.conf put --due 2090-01-01T00:00:00Z --key order-17 \
    --header 'Colour: red' --header 'Size: 3	m' orders.later 'pay\17'
answers 0 'stored as 2' -c a.conf put --due 2091-01-01T00:00:00Z orders.later "$(printf '\001')"
eventually 'a has read up to 2 of 2' "$RELAY" -c a.conf status
"$RELAY" -c a.conf dump >dumped
cat >expected <<'END'
2090-01-01T00:00:00.000000000Z	0:1	0	orders.later	order-17	pay\\17	Colour: red	Size: 3\x09m
2091-01-01T00:00:00.000000000Z	0:2	0	orders.later		\x01
END
diff expected dumped >said || fail 'the dump is another one'
answers 0 '' -c a.conf dump --shard 0

# ---- check, and a replica that has never run ----

answers 1 'b: has read nothing yet' -c a.conf check
answers 1 'a owns a shard: drain it' -c b.conf forget a # while no other one can have taken it
start b.log "$RELAY" -c b.conf
b=$process
eventually 'b has read up to 2 of 2' "$RELAY" -c b.conf status
answers 0 'a: 2 pending' -c a.conf check "$folder/b"
answers 0 'b: 2 pending' -c a.conf check "$folder/b"
answers 0 'each of them has what the others have' -c a.conf check "$folder/b"
answers 0 'b: has read up to 2, 0 behind' -c b.conf check "$folder/a"
answers 1 'nowhere: no store is there' -c b.conf check nowhere

# What waits is counted, whatever the store's own number is.
mkdir c
"$STORE" c/0 700 >said 2>&1 || fail 'no store can be made'
"$DELAY" stat c/0 >said 2>&1 || fail 'the store cannot be looked at'
grep -q '^pending  *1400 ' said || fail 'it does not count twice what was read twice'
answers 1 'c: 700 pending, read up to 700' -c a.conf check "$folder/c"

# ---- forget ----

answers 0 '' -c b.conf drain
wait "$b" || fail "the relay that was drained exits with $?"
answers 0 'stored as 3' -c a.conf put --due 2092-01-01T00:00:00Z --key order-18 orders.later x
eventually 'a has read up to 3 of 3' "$RELAY" -c a.conf status
answers 1 'so what is missing there cannot be told' -c a.conf check "$folder/b"
answers 0 'b has read up to 2 of 3' -c a.conf status
cp -r b copied
answers 0 '' -c a.conf forget b
answers 0 'b is forgotten' -c a.conf status
answers 0 'b: is forgotten' -c a.conf check
eventually 'the stream has nothing left, and had up to 3' "$RELAY" -c a.conf check # all is deleted

# It comes back, and cannot read on. It gets the other one's store, and is waited for again.
status=0
"$RELAY" -c b.conf run >said 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "a relay whose messages are deleted exits with $status"
grep -q 'copy the store of another replica' said || fail 'it does not say what to do'
rm -r b/0
"$DELAY" copy a/0 b/0 >said 2>&1 || fail 'the store cannot be copied'
start b.log "$RELAY" -c b.conf
b=$process
eventually 'b has read up to 3 of 3' "$RELAY" -c b.conf status
answers 0 '' -c a.conf check "$folder/b"

# ---- a store that has lost a message, and one that is behind ----

answers 0 '' -c b.conf drain
wait "$b" || fail "the relay that was drained exits with $?"
"$DELAY" cancel b/0 2090-01-01T00:00:00Z korder-17 >said 2>&1 || fail 'nothing was cancelled'
answers 1 'position 1, due 2090-01-01T00:00:00.000000000Z, and' -c a.conf check "$folder/b"
[ "$(grep -c 'lacks it' said)" -eq 1 ] || fail 'it is not said once'
rm -r b/0
mv copied/0 b/0
answers 1 'has read up to 2 only' -c a.conf check "$folder/b"

# ---- directories that have no store of a relay ----

answers 1 'not a directory' -c a.conf check "$folder/a.conf"
mkdir plain damaged
"$DELAY" put --create plain/0 2090-01-01T00:00:00Z id >said 2>&1 || fail 'no store can be made'
answers 1 'have read different streams' -c a.conf check "$folder/plain"
sed "s,^state = .*,state = $folder/plain," a.conf >plain.conf
answers 1 'none of a relay' -c plain.conf dump
mkdir damaged/0
echo damaged >damaged/0/log.0
answers 1 'damaged: ' -c a.conf check "$folder/damaged"
sed "s,^state = .*,state = /$(printf '%4095s' x | tr ' ' x)," a.conf >long.conf
answers 1 'too long' -c long.conf dump
status=0
"$RELAY" -c a.conf dump >/dev/full 2>said || status=$?
[ "$status" -eq 1 ] || fail "a dump to a full disk exits with $status"

# ---- many are missing ----

for i in $(seq 25); do
    answers 0 'stored as' -c a.conf put --due 2093-01-01T00:00:00Z --key "many-$i" orders.later x
done
eventually 'a has read up to 28 of 28' "$RELAY" -c a.conf status
rm -r b/0
"$DELAY" copy a/0 b/0 >said 2>&1 || fail 'the store cannot be copied'
for i in $(seq 25); do
    "$DELAY" cancel b/0 2093-01-01T00:00:00Z "kmany-$i" >said 2>&1 || fail 'nothing was cancelled'
done
answers 1 '25 messages in all' -c a.conf check "$folder/b"
[ "$(grep -c 'lacks it' said)" -eq 20 ] || fail 'not 20 of them are named'

# ---- entries of a replica that cannot be right ----

# b does not run, so a client of NATS writes for it: a's entry with other numbers.
if command -v python3 >/dev/null; then
    # pretend NUMBER VALUE
    pretend()
    {
        python3 - "$RECIPE" "$url" "$@" >said 2>&1 <<'END' || fail 'the entry cannot be written'
import base64, os, re, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import reminders
nats = reminders.Nats([sys.argv[2]])
last = nats.ask("STREAM.MSG.GET.KV_hwt-shop", {"last_by_subj": "$KV.hwt-shop.place.a.0"})
text = base64.b64decode(last["message"]["data"]).decode()
text, count = re.subn(sys.argv[3] + "=[0-9]+", f"{sys.argv[3]}={sys.argv[4]}", text)
assert count == 1, text
nats.publish("$KV.hwt-shop.place.b.0", text.encode())
END
    }
    pretend incarnation 1
    answers 1 'b: has read another stream' -c a.conf check
    pretend position 99
    answers 1 'b: has read up to 99: the servers have lost messages' -c a.conf check
    pretend position 1
    answers 1 'b: has read up to 1 only: give it the store of another replica' -c a.conf check
fi
answers 0 '' -c a.conf drain
wait "$a" || fail "the relay that was drained exits with $?"
cd ..
rm -rf "$folder"
