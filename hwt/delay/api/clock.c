/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The clock, and its leaps.
 *
 * A message is due by CLOCK_REALTIME as it reads at that moment. What was handed over is past,
 * whatever the clock says afterwards. The hand is the latest instant that was ever seen; each
 * frame of the log brings it to the disk.
 *
 * A leap forward shows in the distance between CLOCK_REALTIME and CLOCK_BOOTTIME, which counts
 * suspended time too. The largest distance so far is what is compared with, so that setting the
 * clock back and right again is no leap.
 *
 * When a store is opened no distance is known. A clock that is behind the hand then is wrong, as on a
 * machine without a battery that begins at 1970; so the first leap that ends at the hand or
 * later is its correction. A clock that is ahead when the store is opened cannot be told from a machine that
 * was off for so long.
 */

#include <errno.h>

#include "hwt/delay/store.h"

uint64_t hwt_delay_boottime(const hwt_delay *store)
{
    return store->system.boottime(store->system.data);
}

static bool has_leapt(const hwt_delay *store, uint64_t now, int64_t offset)
{
    int64_t largest = (int64_t)store->offset_max;
    if (!store->offset_known || offset <= largest ||
        (uint64_t)offset - (uint64_t)largest <= store->options.clock_leap)
        return false;
    return !store->behind || now < store->hand;
}

uint64_t hwt_delay_clock(hwt_delay *store)
{
    uint64_t now = store->system.realtime(store->system.data);
    int64_t offset = (int64_t)(now - hwt_delay_boottime(store));
    if (!has_leapt(store, now, offset)) {
        if (!store->offset_known || offset > (int64_t)store->offset_max)
            store->offset_max = (uint64_t)offset;
        store->offset_known = true;
        store->behind = store->behind && now < store->hand;
        if (store->held) {
            store->held = false;
            hwt_delay_trouble(store, 0);
        }
        if (now > store->hand)
            store->hand = now;
    } else if (!store->held) {
        store->held = true;
        store->stats.clock_leaps++;
        hwt_delay_trouble(store, -ETIME);
    }
    return now;
}

uint64_t hwt_delay_now(const hwt_delay *store)
{
    return store ? store->system.realtime(store->system.data) : 0;
}

int hwt_delay_accept_clock(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int shield = hwt_delay_enter(store);
    store->offset_known = store->behind = false;
    hwt_delay_clock(store);
    hwt_delay_leave(store, shield);
    return 0;
}
