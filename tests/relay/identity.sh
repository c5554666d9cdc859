#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# A relay is let in by user and password, token, nkey, credentials and certificate, and not by others; it insists on TLS where it
# is told so; and says no password.
#
#     RELAY=... identity.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server, Python or openssl.

set -eu

for program in python3 openssl; do
    command -v $program >/dev/null || {
        echo "skipped: there is no $program"
        exit 77
    }
done
files=$(cd "$(dirname "$0")" && pwd)

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

# serve LINE...: a server with these lines in its configuration
serve()
{
    rm -rf ./*.ports js
    printf '%s\n' 'listen: "127.0.0.1:-1"' "jetstream { store_dir: \"$folder/js\" }" "$@" >nats.conf
    start_server
    host=${url#*://}
}

# status STATUS TEXT ADDRESS LINE...: what `status` says with these lines in its configuration
status()
{
    wanted=$1 words=$2
    printf '%s\n' 'space = shop' 'copies = 1' 'replica = a' 'replicas = a' "servers = $3" 'targets = orders.>' \
        "state = $folder/a" >a.conf
    shift 3
    printf '%s\n' "$@" >>a.conf
    answers "$wanted" "$words" -c a.conf status
    if grep -qF 'hush' said; then
        fail 'it says a secret'
    fi
}

python3 "$files/identity.py" >said 2>&1 || fail 'there are no keys'
free='shard 0: free'
no='Authorization Violation'

serve 'authorization { user: relay, password: "hush#1" }'
status 0 "$free" "nats://$host" 'user = relay' 'password = hush#1'
status 1 "$no" "nats://$host" 'user = relay' 'password = hush#2'
status 1 "$no" "nats://relay:hush2@$host"
status 1 'is none; it is nats:' "nats://relay:hush"
status 1 "$no" "nats://$host"

serve 'authorization { token: "hush" }'
status 0 "$free" "nats://$host" 'token = hush'
status 1 "$no" "nats://$host" 'token = hush2'

serve "authorization { users: [ { nkey: $(cat nkey) } ] }"
status 0 "$free" "nats://$host" "nkey = $(cat nkey)" 'nkey_seed = nkey.seed'
status 1 '' "nats://$host" "nkey = $(cat nkey)" 'nkey_seed = nkey'

serve "$(cat operator.conf)"
status 0 "$free" "nats://$host" 'credentials = relay.creds'
status 1 '' "nats://$host" 'credentials = nowhere.creds'
status 1 "$no" "nats://$host"

serve 'tls { cert_file: server.pem, key_file: server.key, ca_file: ca.pem, verify: true }'
status 0 "$free" "tls://$host" 'ca = ca.pem' 'certificate = client.pem' 'key = client.key'
status 1 '' "tls://$host" 'ca = ca.pem'
status 1 'SSL Error' "tls://$host" 'ca = other.pem' 'certificate = client.pem' 'key = client.key'
status 1 'SSL Error' "tls://$host" 'certificate = client.pem' 'key = client.key'
status 1 'SSL Error' "nats://$host"
status 0 "$free" "nats://$host" 'ca = ca.pem' 'certificate = client.pem' 'key = client.key'
status 1 '' "tls://$host" 'ca = nowhere.pem'

serve 'tls { cert_file: elsewhere.pem, key_file: elsewhere.key }'
status 1 'SSL Error' "tls://$host" 'ca = ca.pem'

serve
status 0 "$free" "nats://$host"
status 1 'a server has no TLS' "tls://$host"
status 1 'a server has no TLS' "tls://relay:hush@$host"
status 1 'a server has no TLS' "nats://$host" 'ca = ca.pem'
cd ..
rm -rf "$folder"
