#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Messages of 8 MiB and bad ones wait in the stream before a relay reads it. Each that can be forwarded comes once and as it
# was put; of each other one there is a dead letter that says why.
#
#     RELAY=... STREAM=... RECIPE=... large.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server, or no Python.

set -eu

command -v python3 >/dev/null || {
    echo 'skipped: there is no python3'
    exit 77
}

# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

cat >nats.conf <<END
listen: "127.0.0.1:-1"
max_payload: 16MB
jetstream { store_dir: "$folder/js" }
END
start_server
cat >a.conf <<END
space = shop
copies = 1
lease = 1s
attempts = 2
message_max = 8M
replica = a
replicas = a
servers = $url
targets = orders.>
state = $folder/a
END
start a.log "$RELAY" -c a.conf
eventually 'shard 0: owned by a' "$RELAY" -c a.conf status
answers 0 '' -c a.conf drain
wait "$process" || fail "the relay that was drained exits with $?"
"$STREAM" "$url" add ORDERS 'orders.>' >said 2>&1 || fail 'no stream for the targets'

# python STEP
python()
{
    python3 - "$RECIPE" "$url" "$1" >said 2>&1 <<'END' || fail "the step $1"
import base64, os, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import reminders
nats = reminders.Nats([sys.argv[2]], 60)

LARGE = 12
MAX = 8 << 20
GOOD = "Hwt-Target: orders.good\r\n"
BAD = {
    "no order": "",
    "no target": "Hwt-Due: 1000000000000\r\n",
    "wildcard": "Hwt-Due: 1000000000000\r\nHwt-Target: orders.*\r\n",
    "api": "Hwt-Due: 1000000000000\r\nHwt-Target: $JS.API.STREAM.DELETE.ORDERS\r\n",
    "not allowed": "Hwt-Due: 1000000000000\r\nHwt-Target: other.x\r\n",
    "no time": "Hwt-Due: soon\r\n" + GOOD,
    "seconds": "Hwt-Due: 1795849735\r\n" + GOOD,
    "no name": "Hwt-Due: 1000000000000\r\n" + GOOD + ": x\r\n",
    "byte 0": "Hwt-Due: 1000000000000\r\nHwt-Key: a\0b\r\n" + GOOD,
    "own": "Hwt-Due: 1000000000000\r\nHwt-Target: hwt.shop.dead\r\n",
    "answers": "Hwt-Due: 1000000000000\r\nHwt-Target: _INBOX.x\r\n",
    "after all": "Hwt-Due: 9999-12-31T23:59:59Z\r\n" + GOOD,
    "no number": "Hwt-Delay: -1\r\n" + GOOD,
    "no such order": "Hwt-Op: undo\r\nHwt-Due: 1000000000000\r\n" + GOOD,
    "cancel without key": "Hwt-Op: cancel\r\nHwt-Due: 1000000000000\r\n",
}
BYTES = "".join(chr(c) for c in range(1, 256) if c not in (10, 13)).strip()


def large(i):
    return bytes([65 + i]) * (MAX - 4096 - i)


def put(head, payload):
    """Returns the answer. The headers are any bytes."""
    head = b"NATS/1.0\r\n" + head.encode("latin-1") + b"\r\n"
    reply = nats.inbox + ".put"
    nats.write(b"HPUB hwt.shop.0 %s %d %d\r\n" % (reply.encode(), len(head), len(head) + len(payload)) +
               head + payload + b"\r\n")
    return nats.wait(reply, 60, ()).payload


def read(stream):
    state = nats.ask("STREAM.INFO." + stream)["state"]
    return [nats.ask(f"STREAM.MSG.GET.{stream}", {"seq": n})["message"]
            for n in range(1, state["last_seq"] + 1)]


def texts(messages):
    return {base64.b64decode(m["data"]): base64.b64decode(m.get("hdrs", "")).decode("latin-1") for m in messages}


if sys.argv[3] == "put":
    for i in range(LARGE):
        assert b'"seq"' in put("Hwt-Due: 1000000000000\r\n" + GOOD, large(i))
    assert b"exceeds maximum" in put("Hwt-Due: 1000000000000\r\n" + GOOD, b"x" * (MAX + 2048))  # with its headers it is longer
    for name, head in BAD.items():
        assert b'"seq"' in put(head, name.encode())
    for due in "1970-01-01T00:00:00Z", "2554-07-20T00:00:00Z":
        assert b'"seq"' in put(f"Hwt-Due: {due}\r\nHwt-Key: {due}\r\n" + GOOD, due.encode())
    assert b'"seq"' in put(f"Hwt-Due: 1000000000000\r\nHwt-Key: {BYTES}\r\nOwn: {BYTES}\r\n" + GOOD, b"any bytes")
    assert b'"seq"' in put(f"Hwt-Due: 9000000000000\r\nHwt-Key: {BYTES}\r\n" + GOOD, b"cancelled")
    assert b'"seq"' in put(f"Hwt-Op: cancel\r\nHwt-Due: 9000000000000\r\nHwt-Key: {BYTES}\r\n", b"")
    empty = "Hwt-Due: 9000000000000\r\ntracestate: \r\nHwt-Key: t\r\ntracestate:\r\n"
    assert b'"seq"' in put(empty + GOOD, b"cancelled, too")
    assert b'"seq"' in put(empty + "Hwt-Op: cancel\r\n", b"")
elif sys.argv[3] == "wait":
    until = time.time() + 300
    while nats.ask("STREAM.INFO.ORDERS")["state"]["last_seq"] < LARGE + 2 or \
            nats.ask("STREAM.INFO.HWT-shop-dead")["state"]["last_seq"] < len(BAD):
        assert time.time() < until, "they do not come"
        time.sleep(0.2)
else:
    come, dead = read("ORDERS"), texts(read("HWT-shop-dead"))
    assert len(come) == LARGE + 2, [m["seq"] for m in come]
    found = texts(come)
    assert set(found) == {large(i) for i in range(LARGE)} | {b"1970-01-01T00:00:00Z", b"any bytes"}
    assert f"Own: {BYTES}\r\n" in found[b"any bytes"], found[b"any bytes"]
    assert set(dead) == {name.encode() for name in BAD}
    for name, head in dead.items():
        assert "Hwt-Reason: " in head, name
END
}

python put
start a.log "$RELAY" -c a.conf
python wait
answers 0 '' -c a.conf drain
wait "$process" || fail "the relay that was drained exits with $?"
answers 0 "2554-07-20T00:00:00.000000000Z	0:" -c a.conf dump
[ "$(wc -l <said)" -eq 1 ] || fail 'more than one message waits'
python check
cd ..
rm -rf "$folder"
