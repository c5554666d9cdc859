#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The recipe reminders.py beside one server and one relay. The relay is killed, and so is the recipe's
# reader: each order is reminded of that was not paid, and no other.
#
#     RELAY=... RECIPE=... reminders.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server or no python3.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

command -v python3 >/dev/null || { echo 'skipped: there is no python3' && exit 77; }

shop()
{
    python3 "$RECIPE" "$url" shop "$@" 2>>shop.log || fail "reminders.py $*: $(cat shop.log)"
}

start_server
cat >relay.conf <<END
space = shop
copies = 1
lease = 500ms
replica = a
replicas = a
servers = $url
targets = reminders.>
state = $folder/state
END
start relay.log "$RELAY" -c relay.conf
relay=$process
eventually 'shard 0: owned by a' "$RELAY" -c relay.conf status
: >reminded
start reminded python3 "$RECIPE" "$url" shop remind
reader=$process

for i in 1 2 3 4 5 6 7 8; do
    due=$(shop order "early-$i" 1)
    due=$(shop order "late-$i" 60000)
    shop paid "late-$i" "$due"
    case $i in
    3)
        kill -9 "$relay"
        wait "$relay" || true
        start relay.log "$RELAY" -c relay.conf
        relay=$process
        ;;
    6)
        kill -9 "$reader"
        start reminded python3 "$RECIPE" "$url" shop remind
        ;;
    esac
done
for i in 1 2 3 4 5 6 7 8; do
    eventually "remind early-$i" cat reminded
done
! grep late reminded || fail 'a reminder was cancelled, and comes'
"$RELAY" -c relay.conf dump >said
! grep late said || fail 'a reminder was cancelled, and waits'
status=0
python3 "$RECIPE" "$url" shop sing >said 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "misuse of reminders.py: exit status $status"
answers 0 '' -c relay.conf drain
cd ..
rm -rf "$folder"
