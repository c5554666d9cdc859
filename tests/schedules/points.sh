#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Prints the names of the schedule points in what threads call that are not the worker, a name a line.
# The wheel and the worker's passes are its own; the directory is not.
#
#     sh tests/schedules/points.sh

cd "$(dirname -- "$0")/../../hwt" || exit 2
find base pool inbox timer worker/task.[ch] worker/shared.h wheel/directory.[ch] -name '*.[ch]' -exec \
    sed -n 's/.*HWT_SCHED_POINT(\([A-Z0-9_]*\)).*/\1/p' {} + 2>/dev/null | sort -u
