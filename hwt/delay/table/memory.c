/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counts what memory has, which is all of the table, and how much of it is in which state. */

#include <stdlib.h>

#include "hwt/delay/whole.h"

void hwt_delay_table_init(hwt_delay *store)
{
    struct hwt_delay_table *table = &store->table;
    RB_INIT(&table->keys);
    RB_INIT(&table->leased);
    hwt_delay_map_init(&table->identities);
    hwt_delay_map_init(&table->origins);
    hwt_delay_map_init(&table->tokens);
    TAILQ_INIT(&table->leases);
    RB_INIT(&table->ends);
    TAILQ_INIT(&table->fresh);
    LIST_INIT(&table->sought);
    hwt_delay_filed_init(&table->filed);
    table->next_token = 1;
}

/* All that a checkpoint and the log say. */
void hwt_delay_table_forget(hwt_delay *store)
{
    struct hwt_delay_table *table = &store->table;
    struct hwt_delay_lease *lease;
    struct hwt_delay_record *record;
    while ((lease = hwt_delay_lease_first(store))) {
        record = hwt_delay_lease_end(store, lease);
        if (record)
            hwt_delay_record_unref(record);
    }
    while ((record = hwt_delay_lowest(store)))
        hwt_delay_remove(store, record);
    hwt_delay_set_note(store, NULL);
    hwt_delay_drops_free(store);
    hwt_delay_filed_init(&table->filed);
    table->gaps.count = 0;
    table->gap_is_new = false;
}

/* ---- one of them ---- */

struct hwt_delay_record *hwt_delay_lookup(const hwt_delay *store,
                                          const struct hwt_delay_record *like)
{
    return hwt_delay_find(&store->table.identities, like);
}

/* ---- in order ---- */

struct hwt_delay_record *hwt_delay_lowest(const hwt_delay *store)
{
    return RB_MIN(hwt_delay_keys, &((hwt_delay *)(uintptr_t)store)->table.keys);
}

struct hwt_delay_record *hwt_delay_highest(const hwt_delay *store)
{
    return RB_MAX(hwt_delay_keys, &((hwt_delay *)(uintptr_t)store)->table.keys);
}

struct hwt_delay_record *hwt_delay_lower(struct hwt_delay_record *record)
{
    return RB_PREV(hwt_delay_keys, NULL, record);
}

struct hwt_delay_record *hwt_delay_fresh_first(const hwt_delay *store)
{
    return TAILQ_FIRST(&store->table.fresh);
}

void hwt_delay_set_collected(hwt_delay *store, struct hwt_delay_record **records)
{
    store->table.collected = records;
}

struct hwt_delay_key hwt_delay_loaded(const hwt_delay *store)
{
    return store->table.loaded;
}

void hwt_delay_set_loaded(hwt_delay *store, struct hwt_delay_key loaded)
{
    store->table.loaded = loaded;
}

/* ---- how much ---- */

size_t hwt_delay_fresh_count(const hwt_delay *store)
{
    return store->table.fresh_count;
}

uint64_t hwt_delay_bytes_in(const hwt_delay *store, enum hwt_delay_state state)
{
    return store->table.bytes[state];
}

uint64_t hwt_delay_new_bytes(const hwt_delay *store)
{
    const struct hwt_delay_table *table = &store->table;
    const uint64_t collected = table->collected ? table->bytes[HWT_DELAY_FLUSHING] : 0;
    return table->bytes[HWT_DELAY_FRESH] + collected;
}

uint64_t hwt_delay_memory(const hwt_delay *store)
{
    uint64_t bytes = 0;
    for (int i = 0; i < HWT_DELAY_STATES; i++)
        bytes += store->table.bytes[i];
    return bytes;
}

/* See filed.c. */
uint64_t hwt_delay_pending(const hwt_delay *store)
{
    const struct hwt_delay_table *table = &store->table;
    return table->messages[HWT_DELAY_FRESH] + table->messages[HWT_DELAY_FLUSHING] +
           table->messages[HWT_DELAY_LEASED] - table->superseded + table->filed.total;
}
