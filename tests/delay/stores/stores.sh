#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Reads each store here, which releases have left, and one that is made now; but not those
# in format-1/ and format-2/, which are refused and stay as they are.
# $DELAY_STORES is the program of stores.c.

set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$DELAY_STORES" make "$dir/new"
"$DELAY_STORES" read "$dir/new"
for store in "$here"/*.tar.gz; do
    tar -xzf "$store" -C "$dir"
    name=$(basename "$store" .tar.gz)
    echo "$name"
    "$DELAY_STORES" read "$dir/$name"
done
for store in "$here"/format-?/*.tar.gz; do
    mkdir "$dir/before" "$dir/after"
    tar -xzf "$store" -C "$dir/before"
    tar -xzf "$store" -C "$dir/after"
    name=$(basename "$store" .tar.gz)
    echo "$name, of $(basename "$(dirname "$store")")"
    "$DELAY_STORES" refuse "$dir/after/$name"
    diff -r "$dir/before" "$dir/after"
    rm -r "$dir/before" "$dir/after"
done
