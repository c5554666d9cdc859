#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The files that are installed for operators: the example of a configuration is accepted, and a mistake in each of its
# lines is named; with the example of a server's configuration a message goes its way, and nobody but
# the relay gets at what is the relay's; systemd accepts the unit.
#
#     RELAY=... RECIPE=... SOURCE=hwt/relay UNIT=... examples.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server or no python3.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

command -v python3 >/dev/null || { echo 'skipped: there is no python3' && exit 77; }

# ---- hwt-relay.conf ----

# A state that is not there is missed only after the whole file was read.
sed "s,^state = .*,state = $folder/nowhere," "$SOURCE/hwt-relay.conf" >relay.conf
answers 1 "$folder/nowhere/0: no store is there" -c relay.conf dump
lines=0
awk '/^[a-z_]* = / { print NR }' relay.conf >numbers
while read -r line; do
    lines=$((lines + 1))
    sed "${line}s/^/x/" relay.conf >wrong.conf
    answers 2 "wrong.conf:$line: there is no setting x" -c wrong.conf dump
    sed "${line}s/=.*/=/" relay.conf >wrong.conf
    answers 2 "wrong.conf:$line: " -c wrong.conf dump
    sed "${line}s/=/ /" relay.conf >wrong.conf
    answers 2 "wrong.conf:$line: a line is: name = value" -c wrong.conf dump
    { cat relay.conf && sed -n "${line}p" relay.conf; } >wrong.conf
    answers 2 "is set in line $line already" -c wrong.conf dump
done <numbers
[ "$lines" -eq 15 ] || fail "the example has $lines settings, and not all 15"
# shellcheck disable=SC2016 # a subject begins with it
for mistake in 'space = a.b' 'replica = a b' 'replicas = a a' 'targets = $JS.>' 'shards = 17' 'copies = six' \
    'lease = 2' 'clock_bound = 1' 'attempts = 0' 'message_max = 9M' 'metrics = here:1'; do
    line=$(grep -n "^${mistake%% *} = " relay.conf | cut -d : -f 1)
    sed "${line}s/.*/$mistake/" relay.conf >wrong.conf
    answers 2 "wrong.conf:$line: ${mistake%% *}" -c wrong.conf dump
done

# ---- nats-server.conf ----

# Another address and directory, and the server writes down what it gets; all else is the example.
sed -e 's/^listen: .*/listen: "127.0.0.1:-1"/' -e "s,store_dir: .*,store_dir: \"$folder/js\"," \
    "$SOURCE/nats-server.conf" >nats.conf
echo 'trace: true' >>nats.conf
start_server
host=${url#nats://}
sed -i -e "s,^servers = .*,servers = nats://relay:change-me@$host," -e 's/^copies = .*/copies = 1/' \
    -e "s,^state = .*,state = $folder/state," -e 's/^replicas = .*/replicas = a/' \
    -e 's/^lease = .*/lease = 500ms/' -e 's/^attempts = .*/attempts = 2/' -e '/^metrics/d' relay.conf
start relay.log "$RELAY" -c relay.conf
eventually 'shard 0: owned by a' "$RELAY" -c relay.conf status
answers 0 'stored as 1' -c relay.conf put --delay 3600000 orders.later body

# As a producer: it may put. It may not forward by itself, read the stream, or pretend to be a relay.
python3 - "$RECIPE" "$host" >said 2>&1 <<'END' || fail 'the permissions are not as they should be'
import os, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import reminders
nats = reminders.Nats([f"nats://shop:change-me-too@{sys.argv[2]}"])
due = int(time.time() * 1000) + 1
position = nats.publish("hwt.shop.in.order-1", b"pay",
                        [("Hwt-Due", due), ("Hwt-Key", "order-1"), ("Hwt-Target", "orders.nobody")])
assert position == 2, position
for subject in ("orders.x", "reminders.order", "hwt.shop.1", "hwt.shop.dead", "$KV.hwt-shop.shard.0",
                "$JS.API.STREAM.MSG.GET.HWT-shop-0", "$JS.API.STREAM.DELETE.HWT-shop-0",
                "$JS.API.STREAM.DELETE.REMINDERS"):
    try:
        nats.request(subject, b"", seconds=60)
        raise AssertionError(f"the shop may publish to {subject}")
    except ConnectionError as error:
        assert "Permissions Violation" in str(error), error
try:
    nats.subscribe("_INBOX.>")
    nats.receive(60)
    raise AssertionError("the shop may read the relay's answers")
except ConnectionError as error:
    assert "Permissions Violation" in str(error), error
try:
    reminders.Nats([f"nats://shop:wrong@{sys.argv[2]}"], patience=0)
    raise AssertionError("any password will do")
except ConnectionError as error:
    assert "Authorization" in str(error), error
END

# Nobody has its target, so it is sent again once, and is a dead letter then. The stream is emptied.
eventually 'the stream has nothing left, and had up to 3' "$RELAY" -c relay.conf check
eventually 'state: 1 pending, read up to 3' "$RELAY" -c relay.conf check

# ---- reminders.py, as it stands ----

shop()
{
    python3 "$RECIPE" "nats://shop:change-me-too@$host" shop "$@" 2>>shop.log || fail "reminders.py $*: $(cat shop.log)"
}
: >reminded
start reminded python3 "$RECIPE" "nats://shop:change-me-too@$host" shop remind
due=$(shop order paid 60000)
shop paid paid "$due"
shop order unpaid 1 >said
eventually 'remind unpaid' cat reminded
[ "$(cat reminded)" = 'remind unpaid' ] || fail 'another reminder comes'

# ---- each permission of the relay ----

# There is a subject that the relay has published to, and that no other permission has: without this one, it could
# not have. What a target has not taken, is put again and is a dead letter; all of it is in the trace by now.
answers 0 'stored as' -c relay.conf put --delay 1 mails.a.send body
eventually 'the stream has nothing left, and had up to 8' "$RELAY" -c relay.conf check
answers 0 '' -c relay.conf drain
python3 - nats.conf nats.log >said 2>&1 <<'END' || fail 'a permission of the relay is not needed'
import re, sys
block = re.search(r"user: relay,.*?publish: \[(.*?)\]\s*subscribe", open(sys.argv[1]).read(), re.S)[1]
permissions = re.findall(r'"([^"]+)"', block)
subjects = set(re.findall(r"<<- \[H?PUB ([^ \]]+)", open(sys.argv[2]).read()))


def has(pattern, subject):
    form = re.escape(pattern).replace(r"\*", "[^.]+").replace(">", ".+")
    return re.fullmatch(form, subject) is not None


only = {p: [s for s in subjects if has(p, s) and not any(has(o, s) for o in permissions if o != p)] for p in permissions}
needless = [p for p in permissions if not only[p]]
assert len(permissions) > 15, permissions
assert needless == ["$JS.API.CONSUMER.DELETE.HWT-shop-0.>"], (needless, sorted(subjects))
END
! grep -i 'permission' relay.log nats.log | grep -v 'shop\|TRC' >said || fail 'the relay may not do what it must'

# ---- hwt-relay@.service ----

if command -v systemd-analyze >/dev/null; then
    cp "$UNIT" 'hwt-relay@.service'
    sed -i "s,=\(+*\)[^ ]*/hwt-relay ,=\1$RELAY ," 'hwt-relay@.service'
    systemd-analyze verify --man=no "$folder/hwt-relay@.service" >said 2>&1 || fail 'systemd does not accept the unit'
    [ ! -s said ] || fail 'systemd has something to say of the unit'
fi
cd ..
rm -rf "$folder"
