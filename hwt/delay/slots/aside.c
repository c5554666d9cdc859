/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Damage in slots is put aside once, however often it is read. */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

static bool is_before(const struct hwt_delay_aside *aside, uint64_t number, uint64_t offset)
{
    return aside->number != number ? aside->number < number : aside->offset < offset;
}

/* The place in `aside`, which is sorted, at which damage is, or would be. */
static size_t find_aside(const hwt_delay *store, uint64_t number, uint64_t offset)
{
    size_t low = 0, high = store->slots.aside_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&store->slots.aside[middle], number, offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add_aside(hwt_delay *store, size_t at, uint64_t number, uint64_t offset)
{
    struct hwt_delay_aside *aside = hwt_delay_grown(store->slots.aside, store->slots.aside_count,
                                                    &store->slots.aside_room, sizeof(*aside), 16);
    if (!aside)
        return -ENOMEM;
    store->slots.aside = aside;
    memmove(store->slots.aside + at + 1, store->slots.aside + at,
            (store->slots.aside_count - at) * sizeof(*store->slots.aside));
    store->slots.aside[at] = (struct hwt_delay_aside){ number, offset };
    store->slots.aside_count++;
    return 0;
}

/* The same for bytes of a slot, but each only once. The slots are locked. */
int hwt_delay_put_slot_aside(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                             uint64_t offset, uint64_t length)
{
    size_t at = find_aside(store, slot->number, offset);
    if (at < store->slots.aside_count && store->slots.aside[at].number == slot->number &&
        store->slots.aside[at].offset == offset)
        return 0;
    int r = hwt_delay_put_aside(store, file, offset, length);
    return r < 0 ? r : add_aside(store, at, slot->number, offset);
}
