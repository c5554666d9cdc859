#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What a service manager hears of a relay: service.py listens at $NOTIFY_SOCKET in its place.
#
#     RELAY=... service.sh
#
# Exit status: 0; 1: something is wrong, and is said; 77 where there is no nats-server or no python3.

set -eu

script=$(dirname "$0")/service.py
# shellcheck source-path=SCRIPTDIR source=kit.sh
. "$(dirname "$0")/kit.sh"

command -v python3 >/dev/null || { echo 'skipped: there is no python3' && exit 77; }
start_server
python3 "$script" "$RELAY" "$url" "$folder" >said 2>&1 || { status=$?; cat relay.log; [ $status -eq 77 ] && cat said && exit 77; fail 'the service manager hears something else'; }
cd ..
rm -rf "$folder"
