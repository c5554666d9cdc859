#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Metrics for Prometheus, as others read them; meson's tests call this.
#
#     metrics.sh page PROGRAM    promtool accepts what tests/consumer/metrics_page.c prints
#     metrics.sh http HEARTBEAT  perf/heartbeat serves them; by curl or python3, and promtool if
#                                it is installed
#
# Exits with 77 where there is nothing to read them with.

set -eu

work=$(mktemp -d)
pid='' idler=''
# shellcheck disable=SC2086 # numbers, or nothing
trap 'kill $pid $idler 2>/dev/null || true; rm -rf "$work"' EXIT

fail()
{
    echo "$*" >&2
    exit 1
}

skip()
{
    echo "$*"
    exit 77
}

test_page()
{
    command -v promtool >/dev/null || skip 'promtool is not installed'
    "$1" >"$work/page"
    promtool check metrics <"$work/page"
}

# fetch METHOD PATH: the answer, head and all, to $work/answer.
if command -v curl >/dev/null; then
    fetch()
    {
        curl -sS -i -m 60 -X "$1" "http://127.0.0.1:$port$2" -o "$work/raw" 2>"$work/errors" &&
            tr -d '\r' <"$work/raw" >"$work/answer"
    }
elif command -v python3 >/dev/null; then
    fetch()
    {
        python3 - "$port" "$1" "$2" >"$work/answer" 2>"$work/errors" <<'END'
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request(sys.argv[2], sys.argv[3])
answer = connection.getresponse()
print("HTTP/1.1", answer.status, answer.reason)
for name, value in answer.getheaders():
    print(name + ": " + value)
print("\n" + answer.read().decode(), end="")
END
    }
else
    fetch()
    {
        skip 'neither curl nor python3 is installed'
    }
fi

# Starts the program for an hour on a port that is free, and waits until it answers.
start_heartbeat()
{
    for try in 1 2 3 4 5 6 7 8 9; do
        port=$((20000 + ($$ * 7 + try * 997) % 12000))
        "$heartbeat" --seconds 3600 --connections 20 --metrics "$port" >"$work/log" 2>&1 &
        pid=$!
        for wait in 1 2 3 4 5 6 7 8 9; do
            ! fetch GET /metrics || return 0
            kill -0 "$pid" 2>/dev/null || break
            sleep "$wait"
        done
        grep -q 'in use' "$work/log" || break
    done
    cat "$work/log" "$work/errors" >&2
    fail 'it does not run'
}

# The value of a metric in the last answer.
value()
{
    sed -n "s/^$1{timer=\"heartbeat\"} //p" "$work/answer"
}

expect_status()
{
    fetch "$1" "$2" || fail "no answer to $1 $2: $(cat "$work/errors")"
    head -n 1 "$work/answer" | grep -q "^HTTP/1\.[01] $3 " ||
        fail "$1 $2: $(head -n 1 "$work/answer"), not $3"
}

# As the kernel's table of addresses says, where it can be read.
loopback_is_down()
{
    [ -r /proc/net/fib_trie ] && ! grep -q '127\.0\.0\.1$' /proc/net/fib_trie
}

# Whole, with six lines: each of both colours has one in a panel, and its name.
check_picture()
{
    command -v gnuplot >/dev/null || return 0
    [ "$(grep -c '^<svg \|^</svg>$' "$1")" -eq 2 ] || fail 'no picture'
    [ "$(grep -c "<path stroke='rgb(  0, 114, 178)'\|<path stroke='rgb(213,  94,   0)'" "$1")" -ge 6 ] ||
        fail 'a line is missing in the picture'
}

test_http()
{
    heartbeat=$1
    ! loopback_is_down || skip 'the loopback interface is down'
    start_heartbeat
    expect_status GET /metrics 200
    grep -qi '^content-type: text/plain; version=0\.0\.4' "$work/answer" || fail 'wrong type'
    until [ "$(value hwt_timeouts_expired_total)" -gt 0 ]; do
        sleep 0.1
        expect_status GET /metrics 200
    done
    [ "$(value hwt_timeouts_added_total)" -ge 20 ] || fail 'fewer timeouts than connections'
    [ "$(value hwt_lateness_seconds_count)" = "$(value hwt_timeouts_expired_total)" ] ||
        fail 'the histogram and the counter differ'
    if command -v promtool >/dev/null; then
        sed '1,/^$/d' "$work/answer" | promtool check metrics
    fi
    expect_status GET / 404
    expect_status GET /metricsandmore 404
    expect_status POST /metrics 405

    # Who connects and says nothing does not keep others waiting for ever.
    if command -v curl >/dev/null; then
        mkfifo "$work/silence"
        curl -s "telnet://127.0.0.1:$port" <>"$work/silence" &
        idler=$!
        expect_status GET /metrics 200
    fi

    status=0
    "$heartbeat" --metrics "$port" >"$work/second" 2>&1 || status=$?
    [ "$status" -eq 1 ] || fail "a port in use: exit status $status"
    grep -q "cannot listen on 127.0.0.1:$port: " "$work/second" || fail 'it does not say so'
    status=0
    "$heartbeat" --metrics 65536 >"$work/second" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "no such port: exit status $status"

    # It ends by itself, all the same how it went.
    kill "$pid"
    wait "$pid" || true
    pid=
    status=0
    "$heartbeat" --seconds 1 --connections 5 --metrics "$port" --picture "$work/picture" \
        >"$work/log" 2>&1 || status=$?
    [ "$status" -le 1 ] || { cat "$work/log" && fail "exit status $status"; }
    check_picture "$work/picture"
    status=0
    "$heartbeat" --seconds 1 --connections 5 --picture "$work/nowhere/picture" \
        >"$work/log" 2>&1 || status=$?
    [ "$status" -eq 1 ] || fail "a picture that cannot be written: exit status $status"
    grep -q 'cannot write' "$work/log" || fail 'it does not say so'
}

test=$1
shift
"test_$test" "$@"
