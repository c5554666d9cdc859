/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The clock, and its leaps.
 *
 * A message is due by CLOCK_REALTIME as it reads at that moment. A message that was handed over is
 * past, whatever the clock says afterwards. The hand is the latest instant that was ever seen; each
 * frame of the log brings it to the disk.
 *
 * A leap forward shows in the distance between CLOCK_REALTIME and CLOCK_BOOTTIME, which counts
 * suspended time too. The largest distance so far is what is compared with, so that setting the
 * clock back and right again is no leap.
 *
 * When a store is opened no distance is known. A clock that is behind the hand then is wrong, as on
 * a machine without a battery that begins at 1970; so the first leap that ends at the hand or later
 * is its correction. A clock that is ahead when the store is opened cannot be told from a machine
 * that was off for so long.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

uint64_t hwt_delay_realtime(const hwt_delay *store)
{
    return store->disk.system.realtime(store->disk.system.data);
}

uint64_t hwt_delay_boottime(const hwt_delay *store)
{
    return store->disk.system.boottime(store->disk.system.data);
}

uint64_t hwt_delay_hand(const hwt_delay *store)
{
    return store->clock.hand;
}

/* The clock has leapt, so nothing is handed over until somebody accepts it. */
bool hwt_delay_is_held(const hwt_delay *store)
{
    return store->clock.held;
}

/* Opening has read that a process has seen this instant. */
void hwt_delay_hand_raise(hwt_delay *store, uint64_t hand)
{
    if (hand > store->clock.hand)
        store->clock.hand = hand;
}

void hwt_delay_clock_begin(hwt_delay *store)
{
    store->clock.behind = hwt_delay_realtime(store) < store->clock.hand;
    hwt_delay_clock(store);
}

void hwt_delay_clock_forget(hwt_delay *store)
{
    store->clock.hand = 0;
}

static bool has_leapt(const hwt_delay *store, uint64_t now, int64_t offset)
{
    int64_t largest = (int64_t)store->clock.offset_max;
    if (!store->clock.offset_known || offset <= largest ||
        (uint64_t)offset - (uint64_t)largest <= store->options.clock_leap)
        return false;
    return !store->clock.behind || now < store->clock.hand;
}

uint64_t hwt_delay_clock(hwt_delay *store)
{
    uint64_t now = hwt_delay_realtime(store);
    int64_t offset = (int64_t)(now - hwt_delay_boottime(store));
    if (!has_leapt(store, now, offset)) {
        if (!store->clock.offset_known || offset > (int64_t)store->clock.offset_max)
            store->clock.offset_max = (uint64_t)offset;
        store->clock.offset_known = true;
        store->clock.behind = store->clock.behind && now < store->clock.hand;
        if (store->clock.held) {
            store->clock.held = false;
            hwt_delay_changed(store, 0);
        }
        if (now > store->clock.hand)
            store->clock.hand = now;
    } else if (!store->clock.held) {
        store->clock.held = true;
        store->stats.clock_leaps++;
        hwt_delay_changed(store, -ETIME);
    }
    return now;
}

uint64_t hwt_delay_now(const hwt_delay *store)
{
    return store ? hwt_delay_realtime(store) : 0;
}

int hwt_delay_accept_clock(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int shield = hwt_delay_enter(store);
    store->clock.offset_known = store->clock.behind = false;
    hwt_delay_clock(store);
    hwt_delay_leave(store, shield);
    return 0;
}
