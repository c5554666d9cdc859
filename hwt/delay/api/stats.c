/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counters, and a text of what the store consists of. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "hwt/delay/whole.h"
#include "hwt/delay/base/text.h"

static uint64_t disk_of(const hwt_delay *store)
{
    uint64_t bytes = (store->full ? 2 : 3) * hwt_delay_log_extent(store) + HWT_DELAY_STORE_SIZE;
    return bytes + hwt_delay_slots_bytes(store);
}

static void fill(hwt_delay *store, hwt_delay_stats *stats)
{
    /* Relaxed: counts for humans, which order nothing. */
    *stats = store->stats;
    hwt_delay_disk_count(store, stats);
    stats->slot_bytes = atomic_load_explicit(&store->slot_bytes, memory_order_relaxed);
    stats->pending = hwt_delay_pending(store);
    stats->leased = hwt_delay_leased_count(store);
    stats->memory = hwt_delay_memory(store);
    stats->disk = disk_of(store);
    stats->files = hwt_delay_slots_count(store);
    stats->hand = hwt_delay_hand(store);
    stats->next = hwt_delay_next_locked(store);
    stats->held = hwt_delay_is_held(store);
    stats->full = store->full;
    stats->poisoned = store->poisoned;
    stats->not_durable = store->not_durable;
    stats->gaps = hwt_delay_gaps_of(store)->count;
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
    for (size_t i = 0; i < hwt_delay_drops_of(store)->count; i++) {
        struct hwt_delay_key key = hwt_delay_drops_of(store)->all[i]->key;
        hwt_delay_text_add(
            text, "drop: due up to %" PRIu64 ".%09" PRIu64 ", put up to mark %" PRIu64 "\n",
            key.due / HWT_SEC(1), key.due % HWT_SEC(1), key.sequence);
    }
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
                       hwt_delay_fresh_count(store), hwt_delay_loaded(store).due / HWT_SEC(1),
                       hwt_delay_loaded(store).due % HWT_SEC(1), hwt_delay_leased_count(store));
    if (hwt_delay_note_of(store))
        add_note(&text, hwt_delay_note_of(store));
    add_drops(&text, store);
    hwt_delay_handed_dump(store, &text);
    hwt_delay_text_add(&text, "slots: %zu\n", hwt_delay_slots_count(store));
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        add_slot(&text, store, slot);
    }
    hwt_delay_leave(store, shield);
    return (int64_t)text.length;
}
