/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a wheel is in order. See wheel_check.h. */

#include "wheel_check.h"

#include "hwt/wheel/wheel_inside.h"

bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    uint64_t hints = 0;
    for (uint32_t index = 0; index <= wheel_far_index(inside); index++) {
        const struct hwt_bucket *bucket = &inside->buckets[index];
        hints += hwt_bucket_count(bucket);
        if (!hwt_bucket_check(bucket, hwt_wheel_round_now(wheel, index)))
            return false;
        if (index == wheel_never_index(inside))
            continue;
        uint64_t due = index < wheel_length(inside)
                           ? ~inside->due[(size_t)wheel_length(inside) + index]
                           : inside->far_due;
        if (hwt_bucket_count(bucket) == 0 ? due != UINT64_MAX
                                          : due != hwt_wheel_tick(wheel, index, bucket->least))
            return false;
    }
    for (size_t node = 1; node < wheel_length(inside); node++) {
        uint64_t left = inside->due[2 * node], right = inside->due[2 * node + 1];
        if (inside->due[node] != (left < right ? right : left))
            return false;
    }
    return hints == wheel->hints;
}
