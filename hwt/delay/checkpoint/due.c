/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When a checkpoint is worth its cost, or a longer or a shorter log. */

#include "hwt/delay/whole.h"

/* Slots that the next checkpoint leaves out. One may be counted twice, if it was passed since a drop. */
static size_t done_with(const hwt_delay *store)
{
    return hwt_delay_passed_count(store) + hwt_delay_dropped_count(store);
}

/* All slots are done with, and nothing is pending besides. */
bool hwt_delay_nothing_is_left(const hwt_delay *store)
{
    return done_with(store) >= hwt_delay_slots_count(store) && !hwt_delay_lowest(store) &&
           hwt_delay_leased_count(store) == 0;
}

/* The log is empty, or would be after a checkpoint, and longer than that of a new store. */
bool hwt_delay_log_may_shrink(const hwt_delay *store)
{
    return hwt_delay_extent_is_long(store) && hwt_delay_nothing_is_left(store);
}

/* Whether a checkpoint is worth while for the memory, for the log, or to delete slots, if those
 * have a whole segment's length or are the last ones. */
bool hwt_delay_checkpoint_is_due(const hwt_delay *store)
{
    uint64_t segment = store->options.segment_size;
    return hwt_delay_bytes_in(store, HWT_DELAY_FRESH) + hwt_delay_log_tombstone_bytes(store) >=
               store->options.memory / 4 ||
           hwt_delay_log_kept_bytes(store) >= segment / 2 ||
           hwt_delay_passed_bytes(store) + hwt_delay_dropped_bytes(store) >= segment ||
           (hwt_delay_nothing_is_left(store) &&
            (done_with(store) > 0 ||
             hwt_delay_log_kept_bytes(store) >= hwt_delay_log_extent(store) / 4)) ||
           store->checkpoint.rewriting || hwt_delay_handed_is_long(store);
}

void hwt_delay_checkpoint_look(hwt_delay *store)
{
    if (hwt_delay_log_is_pinned(store) || hwt_delay_checkpoint_is_wanted(store) ||
        store->stuck != 0)
        return;
    if (hwt_delay_checkpoint_is_due(store)) {
        if (store->synchronous)
            hwt_delay_checkpoint_make(store);
        else
            hwt_delay_checkpoint_want(store);
    } else if (hwt_delay_log_kept_bytes(store) >= hwt_delay_log_extent(store) / 2 &&
               hwt_delay_extent_may_grow(store)) {
        hwt_delay_growth_want(store, 0);
        if (store->synchronous)
            hwt_delay_extent_grow(store);
    } else if (!store->checkpoint.watched && hwt_delay_log_may_shrink(store) && !store->full) {
        store->checkpoint.watched = true;
        store->checkpoint.quiet_since = hwt_delay_log_next(store);
        hwt_delay_want_in(store, HWT_DELAY_CHECKPOINT, HWT_DELAY_QUIET);
    }
}
