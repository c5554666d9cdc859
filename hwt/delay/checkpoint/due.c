/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When a checkpoint is worth its cost, or a longer or a shorter log. */

#include "hwt/delay/store.h"

/* All slots are passed, and nothing is pending besides. */
bool hwt_delay_nothing_is_left(const hwt_delay *store)
{
    return store->wheel.passed_count == store->wheel.count && RB_EMPTY(&store->keys) &&
           store->leased_count == 0;
}

/* The log is empty, or would be after a checkpoint, and longer than that of a new store. */
bool hwt_delay_log_may_shrink(const hwt_delay *store)
{
    return hwt_delay_extent_is_long(store) && hwt_delay_nothing_is_left(store);
}

/* For the memory, the log, or to delete slots: those of a whole segment's length, or the last ones. */
static bool is_due(const hwt_delay *store)
{
    uint64_t segment = store->options.segment_size;
    return store->bytes[HWT_DELAY_FRESH] + hwt_delay_log_erased_bytes(store) >=
               store->options.memory / 4 ||
           hwt_delay_log_kept_bytes(store) >= segment / 2 ||
           store->wheel.passed_bytes + store->drops.bytes >= segment ||
           (hwt_delay_nothing_is_left(store) &&
            (store->wheel.passed_count > 0 ||
             hwt_delay_log_kept_bytes(store) >= hwt_delay_log_extent(store) / 4)) ||
           store->rewriting || hwt_delay_handed_is_long(store);
}

void hwt_delay_checkpoint_look(hwt_delay *store)
{
    if (store->checkpointing || store->wanted || store->stuck != 0)
        return;
    if (is_due(store)) {
        if (store->alone)
            hwt_delay_checkpoint_make(store);
        else
            hwt_delay_checkpoint_want(store);
    } else if (hwt_delay_log_kept_bytes(store) >= hwt_delay_log_extent(store) / 2 &&
               hwt_delay_extent_may_grow(store)) {
        hwt_delay_growth_want(store, 0);
        if (store->alone)
            hwt_delay_extent_grow(store);
    } else if (!store->watched && hwt_delay_log_may_shrink(store) && !store->full) {
        store->watched = true;
        store->quiet_since = hwt_delay_log_next(store);
        hwt_delay_job_at(&store->jobs[HWT_DELAY_CHECKPOINT], HWT_DELAY_QUIET);
    }
}
