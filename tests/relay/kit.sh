# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with hwt-relay in $RELAY. Goes to an empty folder that is called after the script; what
# is started by `start` is killed at the end. The server is the program $server, or $NATS_SERVER,
# or nats-server; exits with 77 where there is none.

[ -n "${server:-}" ] || server=$(command -v "${NATS_SERVER:-nats-server}") || {
    echo 'skipped: there is no nats-server (Debian: nats-server)'
    exit 77
}
folder=$PWD/relay-$(basename "$0" .sh)
rm -rf "$folder"
mkdir "$folder"
cd "$folder" || exit
started=
# shellcheck disable=SC2086 # process ids
trap '[ -z "$started" ] || kill -9 $started 2>/dev/null || true' EXIT

fail()
{
    echo "FAILED: $*"
    cat said
    exit 1
}

is_as_expected()
{
    [ "$status" -eq "$expected" ] && { [ -z "$text" ] || grep -qF -- "$text" said; }
}

# answers STATUS TEXT ARGUMENT...: it exits so, and says that. It is asked again if the broker gave no answer within its
# two seconds, since then it has done nothing.
answers()
{
    expected=$1 text=$2
    shift 2
    for _ in $(seq 60); do
        status=0
        "$RELAY" "$@" >said 2>&1 || status=$?
        if is_as_expected || ! grep -qF 'the broker does not answer' said; then
            break
        fi
    done
    [ "$status" -eq "$expected" ] || fail "status $status, not $expected, of hwt-relay $*"
    is_as_expected || fail "hwt-relay $* does not say: $text"
}

# eventually TEXT PROGRAM ARGUMENT...: it says that within two minutes.
eventually()
{
    text=$1
    shift
    for _ in $(seq 600); do
        "$@" >said 2>&1 && grep -qF -- "$text" said && return
        sleep 0.2
    done
    fail "$* does not come to say: $text"
}

# start LOG PROGRAM ARGUMENT...: its id is in $process then.
start()
{
    log=$1
    shift
    "$@" >>"$log" 2>&1 &
    process=$!
    started="$started $process"
}

# With the configuration nats.conf, if that is here; else at $port, if that is set. Its address is in $url
# then.
start_server()
{
    set -- -a 127.0.0.1 -p "${port:--1}" -js -sd "$folder/js"
    [ ! -f nats.conf ] || set -- -c nats.conf
    start nats.log "$server" --ports_file_dir "$folder" "$@"
    ports=
    for _ in $(seq 600); do
        ports=$(cat ./*.ports 2>/dev/null || true)
        [ -n "$ports" ] && break
        sleep 0.1
    done
    url=$(echo "$ports" | grep -oE '(nats|tls)://127.0.0.1:[0-9]+' | head -n 1)
    [ -n "$url" ] || { echo 'FAILED: nats-server does not start' && cat nats.log && exit 1; }
}
