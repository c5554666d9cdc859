#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# `meson dist` calls this before it packs $MESON_DIST_ROOT: all files get the time of the last commit, so
# that the same commit always gives the same bytes.

set -eu

time=$(git -C "$MESON_SOURCE_ROOT" log -1 --format=%ct)
find "$MESON_DIST_ROOT" -exec touch -h -d "@$time" {} +
