#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The metrics of a relay that runs beside one server, as Prometheus gets them: promtool accepts them, where it
# is installed, and they say what has happened.
#
#     RELAY=... STREAM=... SOURCE=hwt/relay metrics.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server or no python3.

set -eu

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

command -v python3 >/dev/null || { echo 'skipped: there is no python3' && exit 77; }

# fetch METHOD PATH: prints the status, then what is served.
fetch()
{
    python3 - "$port" "$1" "$2" <<'END'
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request(sys.argv[2], sys.argv[3])
answer = connection.getresponse()
print(answer.status, answer.getheader("Content-Type"))
print(answer.read().decode(), end="")
END
}

# A port that nobody has now. It is below those that the system gives to whoever does not ask for one.
free_port()
{
    python3 - <<'END'
import random, socket
while True:
    port = random.randrange(10000, 30000)
    try:
        socket.create_server(("127.0.0.1", port)).close()
        print(port)
        break
    except OSError:
        pass
END
}

start_server
nats=$process
port=$(free_port)
cat >relay.conf <<END
space = shop
shards = 2
copies = 1
lease = 500ms
attempts = 1
replica = a
replicas = a
servers = $url
targets = orders.> taken
state = $folder/state
metrics = 127.0.0.1:$port
END

# Without a server it lives, and is not ready.
sed 's,^servers = .*,servers = nats://127.0.0.1:1,; s,^state = .*,&/none,' relay.conf >none.conf
mkdir state
start none.log "$RELAY" -c none.conf
eventually '503' fetch GET /readyz
eventually 'shard 1: the broker does not answer' fetch GET /readyz
eventually '200' fetch GET /healthz
eventually 'hwt_relay_ready{space="shop",shard="0"} 0' fetch GET /metrics
eventually 'hwt_relay_broker_errors_total{space="shop",shard="0",call="open"} 2' fetch GET /metrics
answers 0 '' -c none.conf drain
wait "$process" || fail "the relay that was drained exits with $?"

start relay.log "$RELAY" -c relay.conf
relay=$process
eventually 'hwt_relay_owner{space="shop",shard="0"} 1' fetch GET /metrics
eventually 'hwt_relay_owner{space="shop",shard="1"} 1' fetch GET /metrics

# The target of the first one is in a stream. Nobody takes the second one, nor that of the other shard.
"$STREAM" "$url" add TAKEN taken >said 2>&1 || fail 'no stream for the target'
answers 0 'stored as 1' -c relay.conf put --delay 0 --shard 0 taken body
answers 0 'stored as 1' -c relay.conf put --delay 0 --shard 1 orders.nobody body
answers 0 'stored as 2' -c relay.conf put --delay 0 --shard 0 orders.nobody body
answers 0 'stored as 3' -c relay.conf put --delay 3600000 --shard 0 orders.later body
eventually 'hwt_relay_forwarded_total{space="shop",shard="0"} 1' fetch GET /metrics
eventually 'hwt_relay_dead_letters_total{space="shop",shard="0"} 1' fetch GET /metrics
eventually 'hwt_relay_dead_letters_total{space="shop",shard="1"} 1' fetch GET /metrics
eventually 'hwt_relay_position{space="shop",shard="0"} 3' fetch GET /metrics
eventually 'hwt_delay_pending{store="shop.0"} 1' fetch GET /metrics
eventually 'hwt_relay_lateness_seconds_count{space="shop",shard="0"} 1' fetch GET /metrics
for text in 'hwt_relay_failures_total{space="shop",shard="0"} 1' \
    'hwt_relay_lag_messages{space="shop",shard="0"} 0' \
    'hwt_relay_repeats_refused_total{space="shop",shard="0"} 0' \
    'hwt_relay_divergences_total{space="shop",shard="0"} 0' \
    'hwt_relay_lateness_seconds_bucket{space="shop",shard="0",le="+Inf"} 1' \
    'hwt_relay_lateness_seconds_bucket{space="shop",shard="0",le="0.001"}' \
    'hwt_relay_watermark_age_seconds{space="shop",shard="0"} '; do
    eventually "$text" fetch GET /metrics
done
head -n 1 said | grep -q '^200 text/plain; version=0\.0\.4' || fail 'another status or type'
sed 1d said >page
if command -v promtool >/dev/null; then
    promtool check metrics <page >said 2>&1 || fail 'promtool does not accept the page'
fi
for text in 'hwt_relay_ready{space="shop",shard="1"} 1' \
    "hwt_relay_build_info{version=\"$("$RELAY" --version | cut -d ' ' -f 2)\",engine=\"nats\",space=\"shop\",replica=\"a\"} 1" \
    'hwt_relay_catching_up{space="shop",shard="0"} 0' \
    'hwt_relay_lease_age_seconds{space="shop",shard="0"} 0.' \
    'hwt_relay_clock_offset_seconds{space="shop",shard="0"} ' \
    'hwt_relay_target_failures_total{space="shop",shard="0",pattern="orders.>"} 1' \
    'hwt_relay_target_failures_total{space="shop",shard="0",pattern="taken"} 0' \
    'hwt_relay_dead_letters_by_reason_total{space="shop",shard="0",reason="attempts"} 1' \
    'hwt_relay_broker_errors_total{space="shop",shard="0",call="open"} 0'; do
    eventually "$text" fetch GET /metrics
done
# What is served is in the manual, and what the alerts ask for is served.
sed -n 's/^# TYPE \(hwt_relay_[a-z_]*\) .*/\1/p' page | sort >served
for manual in hwt-relay.1 hwt-relay-operations.8; do
    grep -oE 'hwt_relay_[a-z_]+' "$SOURCE/../man/$manual.scd" | sed 's/_bucket$//; s/_$//' | sort -u >"$manual"
done
diff served hwt-relay.1 >said || fail 'the manual has other metrics'
comm -13 served hwt-relay-operations.8 >said
[ ! -s said ] || fail 'an alert asks for what is not served'
eventually '404' fetch GET /
eventually '200' fetch GET /healthz
eventually 'ready' fetch GET /readyz
eventually '405' fetch POST /metrics

# Who connects and says nothing keeps others waiting for a second only.
python3 - "$port" >said 2>&1 <<'END' || fail 'a silent client holds up the others'
import http.client, socket, sys
port = int(sys.argv[1])
silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
connection.request("GET", "/metrics")
assert connection.getresponse().status == 200
nonsense = socket.create_connection(("127.0.0.1", port))
nonsense.sendall(b"x" * 5000 + b"\r\n\r\n")
nonsense.settimeout(60)
try:
    assert b"200" not in nonsense.recv(100)
except ConnectionResetError:
    pass
END

sed "s,^state = .*,state = $folder/other," relay.conf >other.conf
answers 1 "metrics: cannot listen at 127.0.0.1:$port" -c other.conf run

# The server stands still: who is asked says so, and goes on when it does.
answers 0 "a has read up to 3 of 3; ready, at 127.0.0.1:" -c relay.conf status
kill -STOP "$nats"
eventually 'shard 0: the broker does not answer' fetch GET /readyz
eventually '200' fetch GET /healthz
kill -CONT "$nats"
eventually 'ready' fetch GET /readyz
grep -q 'level=warning shard=0 msg="the broker fails: [a-z]*: .*, at 127.0.0.1' relay.log || fail 'the log does not say it'
grep -q 'level=info shard=0 msg="the broker goes on: ' relay.log || fail 'the log does not say that it is over'
[ "$(grep -c 'becomes a dead letter: not sent' relay.log)" -eq 2 ] || fail 'not one line for the dead letters of each shard'
answers 0 '' -c relay.conf drain
wait "$relay" || fail "the relay that was drained exits with $?"
cd ..
rm -rf "$folder"
