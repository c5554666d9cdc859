/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A gap is a stretch of time of which a part of a slot cannot be read.
 *
 * What cannot be read may have been messages, and cancels of messages in any slot. So nothing that
 * is due in a gap is handed over, whatever slot it is in; and nothing else is affected, because
 * only records of one due time change what becomes of each other. `loaded` and the positions go on
 * past a gap. A message in it stays pending in the slots, which are not deleted, and in the log.
 * Each checkpoint says where the gaps are. Salvage ends them (salvage.c).
 *
 * A gap begins with the due time of the last record that was read before the damage, or with the
 * slot's position, if that is later, and ends behind the due time of the next record which can be
 * read. There are a few at most. If there are more, the ones that are next to each other become
 * one.
 *
 * A slot may have been dealt with up to an instant in the gap of another one, since messages can be
 * put late. So each slot keeps the position that it had before the first gap in it (`before`). All
 * that is lower is not pending.
 */

#include "hwt/delay/whole.h"

const struct hwt_delay_gap *hwt_delay_gap_at(const hwt_delay *store, struct hwt_delay_key key)
{
    size_t low = 0, high = store->table.gaps.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hwt_delay_compare(store->table.gaps.all[middle].to, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct hwt_delay_gap *gap = &store->table.gaps.all[low];
    return low < store->table.gaps.count && hwt_delay_compare(gap->from, key) <= 0 ? gap : NULL;
}

static void join(struct hwt_delay_gaps *gaps, size_t first, size_t last)
{
    for (size_t i = first + 1; i <= last; i++) {
        if (hwt_delay_compare(gaps->all[first].to, gaps->all[i].to) < 0)
            gaps->all[first].to = gaps->all[i].to;
    }
    memmove(&gaps->all[first + 1], &gaps->all[last + 1],
            (gaps->count - last - 1) * sizeof(gaps->all[0]));
    gaps->count -= last - first;
}

/* True: something is in a gap that was in none before. */
bool hwt_delay_gap_add(struct hwt_delay_gaps *gaps, struct hwt_delay_gap gap)
{
    size_t at = 0, last;
    if (hwt_delay_compare(gap.from, gap.to) >= 0)
        return false;
    while (at < gaps->count && hwt_delay_compare(gaps->all[at].from, gap.from) <= 0)
        at++;
    if (at > 0 && hwt_delay_compare(gaps->all[at - 1].to, gap.to) >= 0)
        return false;
    memmove(&gaps->all[at + 1], &gaps->all[at], (gaps->count - at) * sizeof(gap));
    gaps->all[at] = gap;
    gaps->count++;
    if (at > 0 && hwt_delay_compare(gaps->all[at - 1].to, gap.from) >= 0)
        at--;
    last = at;
    while (last + 1 < gaps->count && hwt_delay_compare(gaps->all[last + 1].from, gap.to) <= 0)
        last++;
    join(gaps, at, last);
    if (gaps->count > HWT_DELAY_GAPS_MAX) /* with the one beside it */
        join(gaps, at > 0 ? at - 1 : 0, at > 0 ? at : 1);
    return true;
}

/* The lowest record in the table that is in no gap. */
struct hwt_delay_record *hwt_delay_first(hwt_delay *store)
{
    struct hwt_delay_record *first = RB_MIN(hwt_delay_keys, &store->table.keys);
    const struct hwt_delay_gap *gap;
    while (first && (gap = hwt_delay_gap_at(store, first->key)))
        first = hwt_delay_from(store, gap->to);
    return first;
}

/* A message in it is not handed over from now on. True: no take has told of it. */
bool hwt_delay_gap_found(hwt_delay *store, struct hwt_delay_gap gap)
{
    bool is_new = hwt_delay_gap_add(&store->table.gaps, gap);
    store->table.gap_is_new = store->table.gap_is_new || is_new;
    return is_new;
}

bool hwt_delay_gap_is_new(const hwt_delay *store)
{
    return store->table.gap_is_new;
}

void hwt_delay_gap_told(hwt_delay *store)
{
    store->table.gap_is_new = false;
}

/* The first one begins there, because all before it was released. */
void hwt_delay_gap_release(hwt_delay *store, struct hwt_delay_key to)
{
    struct hwt_delay_gaps *gaps = &store->table.gaps;
    gaps->all[0].from = to;
    if (hwt_delay_compare(to, gaps->all[0].to) < 0)
        return;
    gaps->count--;
    memmove(&gaps->all[0], &gaps->all[1], gaps->count * sizeof(gaps->all[0]));
}

const struct hwt_delay_gaps *hwt_delay_gaps_of(const hwt_delay *store)
{
    return &store->table.gaps;
}
