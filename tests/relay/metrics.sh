#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The metrics of a relay that runs beside one server, as Prometheus gets them: promtool accepts them, where it
# is installed, and they say what has happened.
#
#     RELAY=... STREAM=... metrics.sh
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
eventually '404' fetch GET /
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
answers 0 '' -c relay.conf drain
wait "$relay" || fail "the relay that was drained exits with $?"
cd ..
rm -rf "$folder"
