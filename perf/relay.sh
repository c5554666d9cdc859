#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Starts three NATS servers and three replicas of hwt-relay, publishes delayed messages from Python, makes
# faults on the way, and looks whether every message has come once and in its time. Builds hwt in release mode for
# that, and installs what is missing. With --kafka the servers are brokers of Kafka.
#
#     sh perf/relay.sh [--seconds N] [--rate N] [--faults N] [--night] [--cancels] [--seed N] [--out DIR]
#     sh perf/relay.sh --bars [--pending N] [--seed N] [--out DIR]
#     sh perf/relay.sh --kafka BROKERS [--property NAME=VALUE]... [--seconds N] [--rate N] [--faults N] [--night]
#                      [--seed N] [--out DIR]
#     sh perf/relay.sh --kafka BROKERS [--property NAME=VALUE]... --bars [--out DIR]
#
#     --seconds N    for so long messages are published (120), and until there were as many
#     --rate N       messages a second (500)
#     --faults N     so many, spread over that time, one after the other (10)
#     --night        200 faults in 40 minutes or more, with 200 messages a second
#     --cancels      nearly all messages are cancelled, each by a cancel that is sent up to three seconds before it has to be
#                    acknowledged, which is two leases and clock_bound before the due time
#     --seed N       chooses delays, faults and victims (drawn, and printed)
#     --out DIR      ledger.md, lateness.svg and the logs go there (build/relay)
#     --bars         measures instead: lateness, forwarding, ingest, outages, memory and restart, each beside its
#                    bar; four minutes. With --kafka: forwarding, one minute
#     --pending N    messages for memory and restart (1000000; 10000000 takes ten minutes more)
#     --kafka BROKERS    on these, as HOST:PORT with commas between. Topics of a name of their own are made there, and
#                    deleted if all is well. `start` are three brokers that it starts itself: Maven brings them into
#                    build/kafka; the exit status is 77 where it cannot. `mock` are three of librdkafka's mock
#                    cluster, which fence nobody and hide nothing that was taken back, so messages may be there twice
#     --property NAME=VALUE    of librdkafka, for the relays and for who puts and reads, as security.protocol=SSL
#
# Relays and servers are killed, stopped and drained, also all at once; the target is gone, full or slow. As root, each
# of them is a machine in a network namespace of its own: then they are also cut off, both ways and one way, a
# relay's clock is stepped, and its disk is full. On Kafka relays are killed, stopped and drained, and of brokers only those
# that it has started; others are their keeper's to kill meanwhile.
#
# The servers are the program NATS_SERVER of the environment, or nats-server; tests/relay/newest.sh --install prints a newer one.
#
# Works from any folder. Prints the ledger in the end: what is missing, early, double, late, in all and
# after each kind of fault. lateness.svg shows lateness over time with the faults, if gnuplot is there.
# The exit status is 0; 1 if a message was missing, early, double, or came although it was cancelled, if a bar was not
# reached, or if it could not run; 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

case " $* " in
*' --help '*)
    sed -n '4,42s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

misuse()
{
    echo "perf/relay.sh: $1; see --help" >&2
    exit 2
}

seconds=120 rate=500 faults=10 cancels=no seed='' out=$root/build/relay bars=no pending=1000000 brokers='' properties='' nats=''
while [ $# -gt 0 ]; do
    case $1 in
    --night)
        seconds=2400 rate=200 faults=200
        shift
        continue
        ;;
    --cancels)
        cancels=yes nats=$1
        shift
        continue
        ;;
    --bars)
        bars=yes
        shift
        continue
        ;;
    --seconds | --rate | --faults | --seed | --pending | --out | --kafka | --property)
        [ $# -gt 1 ] || misuse "$1 needs a value"
        ;;
    *) misuse "unknown option $1" ;;
    esac
    case $1,$2 in
    --out,*) ;;
    --kafka, | --kafka,*[!A-Za-z0-9.:,_-]*) misuse "$1 $2: not brokers, as HOST:PORT,HOST:PORT" ;;
    --kafka,*) ;;
    --property,*[!\ -~]* | --property,*\ * | --property,=*) misuse "$1 $2: not NAME=VALUE" ;;
    --property,*=*) ;;
    --property,*) misuse "$1 $2: not NAME=VALUE" ;;
    *,*[!0-9]* | *, | *,??????????*) misuse "$1 $2: not a number" ;;
    esac
    case $1 in
    --seconds) seconds=$2 ;;
    --rate) rate=$2 ;;
    --faults) faults=$2 ;;
    --seed) seed=$2 ;;
    --pending) pending=$2 nats=$1 ;;
    --out) out=$2 ;;
    --kafka) brokers=$2 ;;
    --property) properties="$properties $2" ;;
    esac
    shift 2
done
[ "$seconds" -ge 5 ] || misuse "--seconds $seconds: at least 5"
[ "$rate" -ge 1 ] || misuse "--rate $rate: at least 1"
[ -z "$brokers" ] || [ -z "$nats" ] || misuse "$nats is nothing for --kafka"
[ -n "$brokers" ] || [ -z "$properties" ] || misuse '--property is for --kafka'
[ -n "$seed" ] || seed=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')

dir=$root/build/release
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"
if [ -n "$brokers" ]; then
    ensure_packages isal libbsd kafka kafka-client
    wish_for_packages gnuplot
    build_relay perf/relay.sh perf/relay/relay_kafka_mock
    set -- ledger "$dir/hwt/relay/hwt-relay" "$dir/perf/relay/relay_kafka_mock" "$seconds" "$rate" "$faults" "$seed"
    [ $bars = no ] || set -- bars "$2" "$3"
    # shellcheck disable=SC2086 # a word each
    exec /usr/bin/python3 "$root/perf/relay/kafka_run.py" "$@" "$out" "$brokers" $properties
fi
ensure_packages isal libbsd nats python3
wish_for_packages gnuplot machines
build_relay perf/relay.sh

[ $bars = no ] || exec python3 "$root/perf/relay/bars.py" "$dir/hwt/relay/hwt-relay" "$pending" "$seed" "$out"

# Namespaces of its own, so that nothing is left of them; the program that ends takes all others with it.
enter='unshare --net --mount --pid --fork --kill-child' clock=''
if has machines && $enter ip link add bridge type bridge 2>/dev/null; then
    clock=$dir/perf/relay/relay_clock.so
else
    enter=''
fi
# shellcheck disable=SC2086 # words
exec $enter python3 "$root/perf/relay/run.py" "$dir/hwt/relay/hwt-relay" "$clock" "$seconds" "$rate" \
    "$faults" "$seed" "$cancels" "$out"
