#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The same delays by hwt-relay, by NakWithDelay of JetStream, by a time to live and a dead-letter exchange in a
# quorum queue of RabbitMQ, and by a sorted set, Lua and WAIT of Redis, one after the other. Each has three nodes on
# loopback. Writes a table and a picture of how late the messages come.
#
#     sh perf/relay_compare.sh [--seconds N] [--rate N] [--only NAME] [--seed N] [--out DIR]
#
#     --seconds N    for so long messages are put (15)
#     --rate N       messages a second (2000)
#     --only NAME    nothing but this one (relay, nak, nak-wide, rabbitmq, redis)
#     --seed N       chooses the delays (1)
#     --out DIR      compare.md, lateness.svg and the logs go there (build/relay-compare)
#
# Builds hwt in release mode, and installs what it needs, with redis-server and rabbitmq-server, which Debian may
# start as services; the servers that are measured are its own. A rival that cannot be had is named and skipped.
# Works from any folder. Prints its table in the end. The producer and the consumer are a process of Python each,
# for every rival alike.
# The exit status is 0; 1 if the build or a rival failed; 2 for misuse, or if something has to be
# installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

misuse()
{
    echo "perf/relay_compare.sh: $1; see --help" >&2
    exit 2
}

seconds=15 rate=2000 seed=1 names='relay nak nak-wide rabbitmq redis' out=$root/build/relay-compare
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        sed -n '4,23s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --seconds | --rate | --seed | --only | --out) [ $# -gt 1 ] || misuse "$1 needs a value" ;;
    *) misuse "unknown option $1" ;;
    esac
    case $1,$2 in
    --only,relay | --only,nak | --only,nak-wide | --only,rabbitmq | --only,redis) names=$2 ;;
    --only,*) misuse "--only $2 is no rival" ;;
    --out,*) out=$2 ;;
    *,*[!0-9]* | *, | *,0* | *,?????????*) misuse "$1 $2 is not a number from 1" ;;
    --seconds,*) seconds=$2 ;;
    --rate,*) rate=$2 ;;
    --seed,*) seed=$2 ;;
    esac
    shift 2
done

dir=$root/build/release
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"
ensure_packages isal libbsd nats python3
wish_for_packages gnuplot rabbitmq redis
has rabbitmq || names=$(echo " $names " | sed 's/ rabbitmq / /')
has redis || names=$(echo " $names " | sed 's/ redis / /')
build_relay perf/relay_compare.sh
# The system's Python has the packages.
python=python3
! [ -x /usr/bin/python3 ] || python=/usr/bin/python3
# shellcheck disable=SC2086 # words
exec "$python" "$root/perf/relay/compare.py" "$dir/hwt/relay/hwt-relay" "$seconds" "$rate" "$seed" "$out" $names
