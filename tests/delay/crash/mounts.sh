#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The durable store on file systems of its own, which need root and loop mounts; skipped (status
# 77) where they are not to be had.
#
#     crash       copies the image of an ext4 file system while a stopped writer has unsynced
#                 data, mounts the copy, as after a power failure, and compares
#     full        a full ext4 file system
#     copies      a full btrfs file system, which writes nothing in place
#     read-only   a read-only one
#
#     $DELAY_MOUNTS is the program of mounts.c.

set -eu

# In memory where that can be had: there a flush of the disk below costs nothing, and what is asked
# of the file system is the same.
memory=/dev/shm
[ -d "$memory" ] && [ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d "$memory/delay-mounts-XXXXXX")
writer=

cleanup()
{
    [ -z "$writer" ] || kill -KILL "$writer" 2>/dev/null || true
    for mount in "$dir/copy" "$dir/disk"; do
        ! mountpoint -q "$mount" || umount "$mount" || umount -l "$mount"
    done
    rm -rf "$dir"
}
trap cleanup EXIT

fail()
{
    echo "mounts.sh: $1" >&2
    exit 1
}

skip()
{
    echo "mounts.sh: skipped: $1" >&2
    exit 77
}

# make_disk MEGABYTES
make_disk()
{
    [ "$(id -u)" -eq 0 ] || skip 'it needs root'
    command -v mkfs.ext4 >/dev/null || skip 'it needs mkfs.ext4'
    mkdir "$dir/disk" "$dir/copy"
    truncate -s "$1M" "$dir/image"
    mkfs.ext4 -q -F "$dir/image"
    mount -o loop "$dir/image" "$dir/disk" 2>"$dir/said" || skip "no loop mounts: $(cat "$dir/said")"
}

crash()
{
    make_disk 64
    "$DELAY_MOUNTS" write "$dir/disk/store" "$dir/notes" &
    writer=$!
    for round in 1 2 3 4; do
        sleep "0.$((round * 3))"
        kill -STOP "$writer"
        # It has stopped when its state says so.
        until grep -q '^State:.[Tt]' "/proc/$writer/status"; do
            sleep 0.01
        done
        # First the notes: what is in them is in the image.
        cp "$dir/notes" "$dir/notes-$round"
        cp "$dir/image" "$dir/image-$round"
        kill -CONT "$writer"
        mount -o loop "$dir/image-$round" "$dir/copy"
        "$DELAY_MOUNTS" verify "$dir/copy/store" "$dir/notes-$round" || fail "wrong in round $round"
        umount "$dir/copy"
        rm "$dir/image-$round"
    done
}

full()
{
    make_disk 12
    "$DELAY_MOUNTS" fill "$dir/disk/store"
}

copies()
{
    [ "$(id -u)" -eq 0 ] || skip 'it needs root'
    command -v mkfs.btrfs >/dev/null || skip 'it needs mkfs.btrfs'
    mkdir "$dir/disk" "$dir/copy"
    truncate -s 24M "$dir/image"
    mkfs.btrfs -q -M "$dir/image" >/dev/null
    mount -o loop "$dir/image" "$dir/disk" 2>"$dir/said" || skip "no btrfs: $(cat "$dir/said")"
    # Each sync takes long there, so little is left to be filled.
    fallocate -l 11M "$dir/disk/other"
    "$DELAY_MOUNTS" fill-copies "$dir/disk/store"
}

read_only()
{
    make_disk 12
    "$DELAY_MOUNTS" make "$dir/disk/store" 100
    mount -o remount,ro "$dir/disk"
    "$DELAY_MOUNTS" look "$dir/disk/store" 100
}

case ${1-} in
crash) crash ;;
full) full ;;
copies) copies ;;
read-only) read_only ;;
*)
    echo 'mounts.sh: crash, full, copies or read-only' >&2
    exit 2
    ;;
esac
