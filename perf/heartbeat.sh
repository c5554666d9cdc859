#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Keeps many TCP connections over loopback alive with one timer, makes some of them fail, and tells how
# well that was found out. Builds hwt in release mode for that, and installs what is missing. Works from
# any folder, and leaves nothing in the checkout but build/.
#
#     sh perf/heartbeat.sh [--option N]... [--loop] [--picture FILE]
#
# The exit status is 0; 1 if a silent peer was missed, a live one closed, a time-out or a reconnect lost,
# or anything fired early, or if it could not run; 2 for a bad option, or if something has to be
# installed by hand; 3 if nothing of that was seen, but it got too little of a processor to tell.
# Options and their defaults:

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"

case " $* " in
*' --help '*)
    sed -n '4,14s/^# \{0,1\}//p' "$0"
    awk -f "$root/perf/options.awk" "$root/perf/heartbeat/options.c"
    exit 0
    ;;
esac

# shellcheck disable=SC2119 # nothing beside what a build always needs
ensure_packages
case " $* " in
*' --picture'*) wish_for_packages gnuplot ;;
esac
build_release perf/heartbeat.sh "$root/build/release" '' perf/heartbeat/heartbeat
exec "$root/build/release/perf/heartbeat/heartbeat" "$@"
