#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Dead letters are listed, put back and dropped, beside one server and one relay.
#
#     RELAY=... STREAM=... RECIPE=... dead.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# list: into the file listed, without the due times.
list()
{
    "$RELAY" -c relay.conf dead list >said 2>&1 || fail 'the dead letters cannot be listed'
    cut -f 1,3- said >listed
}

start_server
cat >relay.conf <<END
space = shop
shards = 2
copies = 1
lease = 500ms
attempts = 1
replica = a
replicas = a
servers = $url
targets = orders.> mails.>
state = $folder/state
END
for misuse in '' 'list all' 'put-back' 'drop' 'bury 1' 'drop x' 'put-back 1x'; do
    # shellcheck disable=SC2086 # words
    answers 2 '' -c relay.conf dead $misuse
done
start relay.log "$RELAY" -c relay.conf
relay=$process
eventually 'shard 1: owned by a' "$RELAY" -c relay.conf status
answers 0 '' -c relay.conf dead list
[ ! -s said ] || fail 'there is a dead letter'
answers 0 '' -c relay.conf dead drop all
answers 1 'there is no dead letter 1' -c relay.conf dead put-back 1

# Nobody takes them. Their bodies have each kind of end in base64.
answers 0 'of shard 1' -c relay.conf put --delay 0 --shard 1 --key order-17 --header 'Colour: red' orders.one "$(printf 'a\tb')"
eventually 'order-17' "$RELAY" -c relay.conf dead list
answers 0 'of shard 0' -c relay.conf put --delay 0 --shard 0 orders.two abcd
eventually 'orders.two' "$RELAY" -c relay.conf dead list
answers 0 'of shard 0' -c relay.conf put --delay 0 --shard 0 orders.three abcde
eventually 'orders.three' "$RELAY" -c relay.conf dead list
answers 0 'of shard 0' -c relay.conf put --due 2020-01-01T00:00:00Z --shard 0 mails.four ''
eventually 'mails.four' "$RELAY" -c relay.conf dead list
grep -q '^4	2020-01-01T00:00:00.000000000Z	mails.four	' said || fail 'another due time'
list
cat >expected <<'END'
1	orders.one	order-17	not sent: No route to host; attempt 1 of 1	shop.1:1
2	orders.two		not sent: No route to host; attempt 1 of 1	shop.0:1
3	orders.three		not sent: No route to host; attempt 1 of 1	shop.0:2
4	mails.four		not sent: No route to host; attempt 1 of 1	shop.0:3
END
diff expected listed >said || fail 'another list'

# Three of them have a target now. The first one is put back by its position; the others with the last one, which is
# dead again, and stays.
"$STREAM" "$url" add ORDERS 'orders.>' >said 2>&1 || fail 'no stream for the targets'
answers 1 'there is no dead letter 9' -c relay.conf dead put-back 9
answers 0 '1 is put back as 2 of shard 1' -c relay.conf dead put-back 1
eventually "$(printf 'a\tb')" "$STREAM" "$url" read ORDERS
answers 1 'there is no dead letter 1' -c relay.conf dead put-back 1
answers 0 '4 is put back as 6 of shard 0' -c relay.conf dead put-back all
grep -q '^2 is put back as 4 of shard 0' said || fail 'another order'
[ "$(wc -l <said)" -eq 3 ] || fail 'what is dead again is put back again'
eventually 'mails.four' "$RELAY" -c relay.conf dead list
list
printf '5\tmails.four\t\tnot sent: No route to host; attempt 1 of 1\tshop.0:6\n' | diff - listed >said || fail 'it is another dead letter'
eventually 'abcde' "$STREAM" "$url" read ORDERS
printf 'a\tb\nabcd\nabcde\n' | diff - said || fail 'other messages were sent'

# Its headers go on, and nothing of what became of it.
if command -v python3 >/dev/null; then
    python3 - "$RECIPE" "$url" >said 2>&1 <<'END' || fail 'the message that was put back is another one'
import base64, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import reminders
nats = reminders.Nats([sys.argv[2]])
headers = base64.b64decode(nats.ask("STREAM.MSG.GET.ORDERS", {"seq": 1})["message"]["hdrs"]).decode()
names = {line.split(":")[0] for line in headers.split("\r\n")[1:] if line}
assert "Colour: red\r\n" in headers, headers
assert names == {"Colour", "Hwt-Due", "Hwt-Source", "Nats-Msg-Id"}, names
assert "Hwt-Source: shop.1:2\r\n" in headers, headers
# What cannot be an order; what was cut; what another configuration has left.
order = [("Hwt-Due", "2020-01-01T00:00:00Z"), ("Hwt-Target", "orders.x")]
for reason, source, rest in (("it has no Hwt-Target", "shop.0:9", []), ("why; 99 bytes of it are left out", "shop.0:9", order),
                             ("why", "shop.7:9", order)):
    nats.publish("hwt.shop.dead", b"", [("Hwt-Reason", reason), ("Hwt-Source", source)] + rest)
# What was tried often begins anew, and can be cancelled by its key.
nats.publish("hwt.shop.dead", b"", [("Hwt-Reason", "why"), ("Hwt-Source", "shop.0:9"), ("Hwt-Due", "2090-01-01T00:00:00Z"),
                                    ("Hwt-Target", "orders.x"), ("Hwt-Key", "k"), ("Hwt-Id", "i"), ("Hwt-Attempt", 5)])
END
    answers 1 '6 cannot be put back: it has neither Hwt-Due nor Hwt-Delay' -c relay.conf dead put-back 6
    answers 1 '7 cannot be put back: a part of it is left out' -c relay.conf dead put-back 6 7
    answers 1 '8 cannot be put back: its Hwt-Source is no shard' -c relay.conf dead put-back 8
    answers 0 '9 is put back as 7 of shard 0' -c relay.conf dead put-back 9
    eventually '2090-01-01T00:00:00.000000000Z	0:7	0	orders.x	k' "$RELAY" -c relay.conf dump
    answers 0 '' -c relay.conf cancel --due 2090-01-01T00:00:00Z --key k --shard 0
    eventually '0 pending, read up to 8' "$RELAY" -c relay.conf check
    answers 0 '7 is dropped' -c relay.conf dead drop 7 8
    answers 1 'there is no dead letter 7' -c relay.conf dead drop 7
fi
answers 0 '5 is dropped' -c relay.conf dead drop all
list
[ ! -s listed ] || fail 'a dead letter is left'
answers 0 '' -c relay.conf drain
wait "$relay" || fail "the relay that was drained exits with $?"
cd ..
rm -rf "$folder"
