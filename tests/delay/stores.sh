#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Reads each store in stores/, which releases have left, and one that is made now.
# $DELAY_STORES is the program of stores.c.

set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$DELAY_STORES" make "$dir/new"
"$DELAY_STORES" read "$dir/new"
for store in "$here"/stores/*.tar.gz; do
    tar -xzf "$store" -C "$dir"
    name=$(basename "$store" .tar.gz)
    echo "$name"
    "$DELAY_STORES" read "$dir/$name"
done
