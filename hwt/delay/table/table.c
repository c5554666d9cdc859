/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The table has the records in memory, by key and by identity. See table.h; how they are counted:
 * filed.c. */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

int hwt_delay_identity_compare(const struct hwt_delay_record *a, const struct hwt_delay_record *b)
{
    if (a->key.due != b->key.due)
        return a->key.due < b->key.due ? -1 : 1;
    if (a->id_size != b->id_size)
        return a->id_size < b->id_size ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->id_size);
}

/* A message that is done has a tombstone of the same key, which comes behind it. Two identities
 * with one key are only in files that somebody else has made, or where numbers were lost; both are
 * kept. */
static int key_compare(const struct hwt_delay_record *a, const struct hwt_delay_record *b)
{
    int order = hwt_delay_compare(a->key, b->key);
    if (order == 0)
        order = (a->kind > b->kind) - (a->kind < b->kind);
    return order != 0 ? order : hwt_delay_identity_compare(a, b);
}

RB_GENERATE(hwt_delay_keys, hwt_delay_record, by_key, key_compare)

/* An origin behind so many bytes of a record. */
static size_t origin_at(size_t size)
{
    const size_t align = _Alignof(struct hwt_delay_origin);
    return (offsetof(struct hwt_delay_record, bytes) + size + align - 1) / align * align;
}

struct hwt_delay_record *hwt_delay_record_new(uint8_t kind, const hwt_delay_message *message)
{
    size_t size = message->id_size + message->payload_size;
    bool moved =
        kind == HWT_DELAY_PUT && message->first_due != 0 && message->first_due != message->due;
    struct hwt_delay_record *record =
        malloc(moved ? origin_at(size) + sizeof(*record->origin) : sizeof(*record) + size);
    if (!record)
        return NULL;
    *record = (struct hwt_delay_record){
        .by_identity.hash = hwt_delay_hash(message->due, message->id, message->id_size),
        .key.due = message->due,
        .refs = 1,
        .payload_size = (uint32_t)message->payload_size,
        .retries = (uint16_t)message->retries,
        .kind = kind,
        .id_size = (uint8_t)message->id_size,
        .state = HWT_DELAY_NOWHERE,
    };
    if (moved) {
        record->origin = (struct hwt_delay_origin *)(void *)((char *)record + origin_at(size));
        *record->origin = (struct hwt_delay_origin){
            .node.hash = hwt_delay_hash(message->first_due, message->id, message->id_size),
            .record = record,
            .due = message->first_due,
        };
    }
    if (message->id_size > 0)
        memcpy(record->bytes, message->id, message->id_size);
    if (message->payload_size > 0)
        memcpy(record->bytes + message->id_size, message->payload, message->payload_size);
    return record;
}

hwt_delay_message hwt_delay_message_of(const struct hwt_delay_record *record)
{
    return (hwt_delay_message){
        .due = record->key.due,
        .id = record->bytes,
        .id_size = record->id_size,
        .payload = record->bytes + record->id_size,
        .payload_size = record->payload_size,
        .retries = record->retries,
        .deliveries = record->handed,
        .first_due = record->origin ? record->origin->due : record->key.due,
    };
}

/* With what malloc() adds, and a bucket. */
size_t hwt_delay_tombstone_bytes(const struct hwt_delay_record *record)
{
    return sizeof(*record) + record->id_size + 16 + sizeof(struct hwt_delay_node *);
}

size_t hwt_delay_record_bytes(const struct hwt_delay_record *record)
{
    const size_t origin =
        record->origin ? sizeof(*record->origin) + sizeof(struct hwt_delay_node *) : 0;
    return hwt_delay_tombstone_bytes(record) + record->payload_size + origin;
}

void hwt_delay_record_unref(struct hwt_delay_record *record)
{
    if (--record->refs == 0)
        free(record);
}

static struct hwt_delay_record *record_at(struct hwt_delay_node *node)
{
    void *record = (char *)node - offsetof(struct hwt_delay_record, by_identity);
    return record;
}

struct hwt_delay_record *hwt_delay_find(const struct hwt_delay_map *map,
                                        const struct hwt_delay_record *like)
{
    const uint64_t hash = like->by_identity.hash;
    struct hwt_delay_node *node = hwt_delay_map_bucket(map, hash);
    while (node && (node->hash != hash || hwt_delay_identity_compare(record_at(node), like) != 0))
        node = node->next;
    return node ? record_at(node) : NULL;
}

struct hwt_delay_record *hwt_delay_supplant(struct hwt_delay_map *map,
                                            struct hwt_delay_record *record)
{
    struct hwt_delay_record *old = hwt_delay_find(map, record);
    if (old)
        hwt_delay_map_remove(map, &old->by_identity);
    hwt_delay_map_insert(map, &record->by_identity);
    return old;
}

void hwt_delay_prefetch_buckets(const hwt_delay *store, const struct hwt_delay_record *record)
{
    hwt_delay_map_prefetch_bucket(&store->table.identities, record->by_identity.hash);
    if (record->origin)
        hwt_delay_map_prefetch_bucket(&store->table.origins, record->origin->node.hash);
}

void hwt_delay_prefetch_nodes(const hwt_delay *store, const struct hwt_delay_record *record)
{
    hwt_delay_map_prefetch_node(&store->table.identities, record->by_identity.hash);
    if (record->origin)
        hwt_delay_map_prefetch_node(&store->table.origins, record->origin->node.hash);
}

static struct hwt_delay_record *find_from(const struct hwt_delay_keys *keys,
                                          struct hwt_delay_key key)
{
    struct hwt_delay_record *record = RB_ROOT(keys), *found = NULL;
    while (record) {
        if (hwt_delay_compare(record->key, key) >= 0) {
            found = record;
            record = RB_LEFT(record, by_key);
        } else {
            record = RB_RIGHT(record, by_key);
        }
    }
    return found;
}

struct hwt_delay_record *hwt_delay_from(hwt_delay *store, struct hwt_delay_key key)
{
    return find_from(&store->table.keys, key);
}

struct hwt_delay_record *hwt_delay_leased_from(hwt_delay *store, struct hwt_delay_key key)
{
    return find_from(&store->table.leased, key);
}

void hwt_delay_set_state(hwt_delay *store, struct hwt_delay_record *record,
                         enum hwt_delay_state state)
{
    size_t bytes = hwt_delay_record_bytes(record);
    if (record->state == HWT_DELAY_FRESH) {
        TAILQ_REMOVE(&store->table.fresh, record, fresh_link);
        store->table.fresh_count--;
    }
    if (record->state == HWT_DELAY_FLUSHING && store->table.collected) {
        store->table.collected[record->collected] = NULL;
        record->refs--; /* the table has another one */
    }
    if (record->kind == HWT_DELAY_PUT) {
        store->table.messages[record->state]--;
        store->table.messages[state]++;
        if (record->state == HWT_DELAY_FILED)
            hwt_delay_filed_forget(&store->table.filed, record->key.due);
        if (state == HWT_DELAY_FILED)
            hwt_delay_filed_know(&store->table.filed, record->key.due);
    }
    store->table.bytes[record->state] -= bytes;
    record->state = state;
    store->table.bytes[state] += bytes;
    if (state == HWT_DELAY_FRESH) {
        TAILQ_INSERT_TAIL(&store->table.fresh, record, fresh_link);
        store->table.fresh_count++;
    }
}

/* Takes over the caller's reference. */
void hwt_delay_insert(hwt_delay *store, struct hwt_delay_record *record, enum hwt_delay_state state)
{
    store->table.bytes[HWT_DELAY_NOWHERE] += hwt_delay_record_bytes(record);
    hwt_delay_set_state(store, record, state);
    RB_INSERT(hwt_delay_keys, &store->table.keys, record);
    hwt_delay_map_insert(&store->table.identities, &record->by_identity);
    hwt_delay_origin_add(store, record);
    hwt_delay_sought_touch(store, record);
}

/* A FILED record is not counted for its slot any more. */
void hwt_delay_remove(hwt_delay *store, struct hwt_delay_record *record)
{
    bool filed = record->state == HWT_DELAY_FILED;
    RB_REMOVE(hwt_delay_keys, &store->table.keys, record);
    hwt_delay_map_remove(&store->table.identities, &record->by_identity);
    hwt_delay_origin_remove(store, record);
    hwt_delay_set_state(store, record, HWT_DELAY_NOWHERE);
    store->table.bytes[HWT_DELAY_NOWHERE] -= hwt_delay_record_bytes(record);
    if (filed)
        hwt_delay_filed_end(&store->table.filed, record->key.due);
    hwt_delay_record_unref(record);
}

/* Something with the identity may be in a slot that was not read, or is not passed yet. */
static bool leaves_something(const hwt_delay *store, const struct hwt_delay_record *old)
{
    return hwt_delay_compare(old->key, store->table.loaded) >= 0 || old->shadows ||
           old->kind == HWT_DELAY_TOMBSTONE || old->state != HWT_DELAY_FRESH ||
           hwt_delay_gap_at(store, old->key);
}

/* Does a new record end a message that is pending, as far as memory knows? */
bool hwt_delay_ends_one(hwt_delay *store, const struct hwt_delay_record *record)
{
    const struct hwt_delay_record *old = hwt_delay_lookup(store, record);
    if (old && old->kind == HWT_DELAY_PUT)
        return true;
    return record->kind == HWT_DELAY_TOMBSTONE &&
           hwt_delay_filed_may_have(&store->table.filed, record->key.due);
}

/* Takes what has an identity out of the place that a newer record gets. True: it was a message. */
static bool displace(hwt_delay *store, struct hwt_delay_record *old)
{
    bool ended = old->kind == HWT_DELAY_PUT;
    if (old->state == HWT_DELAY_LEASED)
        hwt_delay_lease_supersede(store, old);
    else
        hwt_delay_remove(store, old);
    return ended;
}

/* Puts a record, which has its sequence, in the place of what has its identity. */
void hwt_delay_apply_put(hwt_delay *store, struct hwt_delay_record *record)
{
    bool ended = false;
    struct hwt_delay_record *old = hwt_delay_lookup(store, record);
    if (old && old->key.sequence >= record->key.sequence) { /* the log is read once more */
        hwt_delay_record_unref(record);
        return;
    }
    if (old) {
        /* A slot's record of a leased message has been dealt with. */
        record->shadows = old->state != HWT_DELAY_LEASED && leaves_something(store, old);
        ended = displace(store, old);
    }
    if (record->ends && !ended)
        hwt_delay_filed_end(&store->table.filed, record->key.due);
    hwt_delay_insert(store, record, HWT_DELAY_FRESH);
}

/* Erases what has the identity, up to the tombstone's sequence; the tombstone stays where it has
 * to. */
void hwt_delay_apply_tombstone(hwt_delay *store, struct hwt_delay_record *tombstone)
{
    struct hwt_delay_record *old = hwt_delay_lookup(store, tombstone);
    bool needed = !old || leaves_something(store, old), ended = false;
    if (old && old->key.sequence > tombstone->key.sequence)
        needed = false;
    else if (old)
        ended = displace(store, old);
    if (tombstone->ends && !ended)
        hwt_delay_filed_end(&store->table.filed, tombstone->key.due);
    if (needed)
        hwt_delay_insert(store, tombstone, HWT_DELAY_FRESH);
    else
        hwt_delay_record_unref(tombstone);
}
