#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Tests of hwt-relay on a newer nats-server than the distribution's. Go installs it below build/nats, where it stays.
#
#     sh tests/relay/newest.sh [TEST]...       by default a short selection, two minutes of waiting
#     sh tests/relay/newest.sh --install       prints where the program is, to be NATS_SERVER of scripts of tests/relay and perf
#
# The tests are those that tests/run.sh has built, as relay_cluster_3. With NATS_VERSION=VERSION it is that one.
#
# Exit status: 0; 1: a test fails; 77: the server cannot be had here, and why is said.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
version=${NATS_VERSION:-2.15.2}
server=$root/build/nats/$version/nats-server

skip()
{
    echo "skipped: $1"
    exit 77
}

install_server()
{
    command -v go >/dev/null || skip "there is no Go, which builds nats-server $version"
    mkdir -p "$root/build/nats/$version"
    # Neither another toolchain nor another program is fetched than this one.
    if ! GOTOOLCHAIN=local GOBIN=$root/build/nats/$version nice go install -p 2 \
        "github.com/nats-io/nats-server/v2@v$version" >"$root/build/nats/$version.log" 2>&1; then
        skip "nats-server $version cannot be had: $(tail -n 1 "$root/build/nats/$version.log")"
    fi
}

[ -x "$server" ] || install_server
if [ "${1-}" = --install ]; then
    echo "$server"
    exit
fi
[ $# -gt 0 ] || set -- relay_cluster_3 relay_settings relay_domain relay_identity relay_anew relay_program
build=$root/build/tests-gcc # of tests/run.sh --all
[ -d "$build" ] || build=$root/build/tests
NATS_SERVER=$server meson test -C "$build" --no-rebuild --num-processes 4 --timeout-multiplier 2 \
    --print-errorlogs --logbase newest "$@"
