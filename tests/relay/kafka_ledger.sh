#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# perf/relay.sh --kafka: what it refuses; that brokers which cannot be had are skipped; and its ledger on the mock cluster,
# with a fault, for some seconds. kafka_real.sh has real brokers.
#
#     RELAY=... MOCK=... PERF=... kafka_ledger.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where Python has no client of Kafka.

set -eu

out=$PWD/relay-kafka-ledger

fail()
{
    echo "FAILED: $*"
    exit 1
}

# refuses TEXT ARGUMENT...: that is misuse, and said before anything is built.
refuses()
{
    text=$1 status=0
    shift
    said=$(sh "$PERF/relay.sh" "$@" 2>&1) || status=$?
    [ "$status" -eq 2 ] || fail "status $status of relay.sh $*"
    case $said in
    *"$text"*) ;;
    *) fail "relay.sh $* says: $said" ;;
    esac
}

refuses 'needs a value' --kafka
refuses 'not brokers' --kafka 'a b'
refuses 'not brokers' --kafka ''
refuses 'not NAME=VALUE' --kafka mock --property loud
refuses 'not NAME=VALUE' --kafka mock --property =loud
refuses 'not NAME=VALUE' --kafka mock --property 'a=b c'
refuses '--property is for --kafka' --property a=b
refuses '--pending is nothing for --kafka' --kafka mock --pending 5
refuses 'at least 5' --kafka mock --seconds 1

/usr/bin/python3 -c 'import confluent_kafka' 2>/dev/null || {
    echo 'skipped: Python has no client of Kafka (Debian: python3-confluent-kafka)'
    exit 77
}
rm -rf "$out"
mkdir "$out"

status=0
PATH=/nowhere /usr/bin/python3 "$PERF/relay/kafka_brokers.py" "$out/none" >"$out/said" 2>&1 </dev/null || status=$?
[ "$status" -eq 77 ] || fail "status $status of brokers without Java"
grep -q '^skipped: there is no Java 17' "$out/said" || fail 'it does not say why there are no brokers'
! /usr/bin/python3 "$PERF/relay/kafka_brokers.py" >"$out/said" 2>&1 || fail 'no folder is no mistake'

# ledger SECONDS FAULTS BROKERS [PROPERTY]...
ledger()
{
    seconds=$1 faults=$2
    shift 2
    /usr/bin/python3 "$PERF/relay/kafka_run.py" ledger "$RELAY" "$MOCK" "$seconds" 100 "$faults" 1 "$out" "$@" \
        >"$out/said" 2>&1
}

ledger 5 1 mock || { cat "$out/said"; fail 'the ledger is not clean'; }
grep -q '^| all | [1-9][0-9]* | 0 | 0 ' "$out/said" || { cat "$out/said"; fail 'the ledger counts nothing'; }
grep -q 'do not hide what was taken back' "$out/said" || fail 'it does not say what the mock cluster cannot'
! ledger 5 0 mock 'no.such.property=1' || fail 'a property that there is none of is no mistake'
rm -rf "$out"
