/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counters, and a text of what the store consists of. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "hwt/delay/store.h"
#include "hwt/delay/base/text.h"

static uint64_t bytes_of(const hwt_delay *store)
{
    uint64_t bytes = 0;
    for (int i = 0; i < HWT_DELAY_STATES; i++)
        bytes += store->bytes[i];
    return bytes;
}

static uint64_t disk_of(const hwt_delay *store)
{
    uint64_t bytes = (store->full ? 2 : 3) * hwt_delay_log_extent(store) + HWT_DELAY_STORE_SIZE;
    return bytes + store->wheel.bytes + store->finished_bytes;
}

static void fill(hwt_delay *store, hwt_delay_stats *stats)
{
    /* Relaxed: counts for humans, which order nothing. */
    *stats = store->stats;
    stats->syncs = atomic_load_explicit(&store->syncs, memory_order_relaxed);
    stats->slot_bytes = atomic_load_explicit(&store->slot_bytes, memory_order_relaxed);
    stats->salvaged = atomic_load_explicit(&store->salvaged, memory_order_relaxed);
    stats->salvaged_bytes = atomic_load_explicit(&store->salvaged_bytes, memory_order_relaxed);
    stats->pending = store->messages[HWT_DELAY_FRESH] + store->messages[HWT_DELAY_FLUSHING] +
                     store->messages[HWT_DELAY_LEASED] - store->superseded + store->filed.total;
    stats->leased = store->leased_count;
    stats->memory = bytes_of(store);
    stats->disk = disk_of(store);
    stats->files = store->wheel.count;
    stats->hand = store->hand;
    stats->next = hwt_delay_next_locked(store);
    stats->held = store->held;
    stats->full = store->full;
    stats->poisoned = store->poisoned;
    stats->not_durable = store->not_durable;
    stats->gaps = store->gaps.count;
}

int hwt_delay_get_stats(hwt_delay *store, hwt_delay_stats *ret_stats)
{
    if (!store || !ret_stats)
        return -EINVAL;
    hwt_delay_stats stats;
    int shield = hwt_delay_enter(store);
    if (!store->read_only)
        hwt_delay_clock(store);
    fill(store, &stats);
    hwt_delay_leave(store, shield);
    return hwt_delay_stats_copy(&stats, ret_stats);
}

static void add_slot(struct hwt_delay_text *text, const hwt_delay *store,
                     const struct hwt_delay_slot *slot)
{
    const struct hwt_delay_key position = hwt_delay_position(store, slot);
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    hwt_delay_text_add(
        text,
        "%s: due from %" PRIu64 ".%09" PRIu64 " for %" PRIu64 " s, %" PRIu64 " bytes, %" PRIu64
        " records, dealt with before %" PRIu64 ".%09" PRIu64 " #%" PRIu64 "%s%s\n",
        name, hwt_delay_slot_start(slot) / HWT_SEC(1), hwt_delay_slot_start(slot) % HWT_SEC(1),
        (UINT64_C(1) << slot->shift) / HWT_SEC(1), slot->length, slot->count,
        position.due / HWT_SEC(1), position.due % HWT_SEC(1), position.sequence,
        slot->sealed ? ", sealed" : "",
        slot->origins.from <= slot->origins.to ? ", with some that were first due at another time"
                                               : "");
}

/* Bytes as they are, but for those that do not fit into a line of ASCII. */
static void add_note(struct hwt_delay_text *text, const struct hwt_delay_record *note)
{
    hwt_delay_text_add(text, "note: %" PRIu32 " bytes, mark %" PRIu64 ": ", note->payload_size,
                       note->key.sequence);
    for (uint32_t i = 0; i < note->payload_size; i++) {
        bool plain = note->bytes[i] >= ' ' && note->bytes[i] <= '~' && note->bytes[i] != '\\';
        hwt_delay_text_add(text, plain ? "%c" : "\\x%02x", note->bytes[i]);
    }
    hwt_delay_text_add(text, "\n");
}

static void add_drops(struct hwt_delay_text *text, const hwt_delay *store)
{
    for (size_t i = 0; i < store->drops.count; i++) {
        struct hwt_delay_key key = store->drops.all[i]->key;
        hwt_delay_text_add(
            text, "drop: due up to %" PRIu64 ".%09" PRIu64 ", put up to mark %" PRIu64 "\n",
            key.due / HWT_SEC(1), key.due % HWT_SEC(1), key.sequence);
    }
}

static void add_handed(struct hwt_delay_text *text, const struct hwt_delay_handed *handed)
{
    hwt_delay_text_add(text,
                       "handed: next block %" PRIu64 " in half %u at %" PRIu64
                       ", %zu counts of what is to be loaded\n",
                       handed->next_number, handed->half, handed->length,
                       handed->count - handed->next);
}

int64_t hwt_delay_dump(hwt_delay *store, char *buffer, size_t size)
{
    struct hwt_delay_text text;
    if (!store || hwt_delay_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    int shield = hwt_delay_enter(store);
    const struct hwt_delay_log_point kept = hwt_delay_log_kept(store);
    const struct hwt_delay_log_point end = hwt_delay_log_end(store);
    hwt_delay_text_add(&text, "store: version %d\n", HWT_DELAY_VERSION);
    hwt_delay_text_add(&text,
                       "checkpoint: log counts from record %" PRIu64 " in log.%u at %" PRIu64 "\n",
                       kept.sequence, kept.segment, kept.offset);
    hwt_delay_text_add(&text,
                       "log: next record %" PRIu64 " in log.%u at %" PRIu64 " of %" PRIu64 "\n",
                       end.sequence, end.segment, end.offset, hwt_delay_log_extent(store));
    hwt_delay_text_add(&text,
                       "memory: %zu records in the log alone, loaded up to %" PRIu64 ".%09" PRIu64
                       ", %" PRIu64 " leased\n",
                       store->fresh_count, store->loaded.due / HWT_SEC(1),
                       store->loaded.due % HWT_SEC(1), store->leased_count);
    if (store->note)
        add_note(&text, store->note);
    add_drops(&text, store);
    add_handed(&text, &store->handed);
    hwt_delay_text_add(&text, "slots: %zu\n", store->wheel.count);
    struct hwt_delay_slot *slot;
    RB_FOREACH(slot, hwt_delay_places, &store->wheel.places)
    {
        add_slot(&text, store, slot);
    }
    hwt_delay_leave(store, shield);
    return (int64_t)text.length;
}
