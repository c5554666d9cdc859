#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Runs cluster.c in a folder of the build, which is removed if all is well.
#
#     RELAY=... CLUSTER=... [NATS_SERVER=...] cluster.sh NODES
#
# Exit status: that of cluster; 77 where there is no nats-server.

set -eu

server=$(command -v "${NATS_SERVER:-nats-server}") || {
    echo 'skipped: there is no nats-server (Debian: nats-server)'
    exit 77
}
folder=$PWD/relay-cluster-$1
rm -rf "$folder"
"$CLUSTER" "$RELAY" "$server" "$folder" "$1"
rm -rf "$folder"
