/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records by the due time of their first put, and what is looked for by its ticket meanwhile. See
 * api/tickets.c.
 *
 * Any number of records may have one ticket. The newest of them is in the map. It has the others in
 * a tree, by their sequences, so that no call goes through all of them.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

static int compare_ids(const struct hwt_delay_record *a, const struct hwt_delay_record *b)
{
    if (a->id_size != b->id_size)
        return a->id_size < b->id_size ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->id_size);
}

static int sequence_compare(const struct hwt_delay_origin *a, const struct hwt_delay_origin *b)
{
    const struct hwt_delay_key x = a->record->key, y = b->record->key;
    return x.sequence != y.sequence ? (x.sequence > y.sequence) - (x.sequence < y.sequence)
                                    : (x.due > y.due) - (x.due < y.due);
}

RB_GENERATE(hwt_delay_older, hwt_delay_origin, by_sequence, sequence_compare)

static struct hwt_delay_origin *origin_at(struct hwt_delay_node *node)
{
    void *origin = (char *)node - offsetof(struct hwt_delay_origin, node);
    return origin;
}

/* The newest with this first due time and an id, which has that hash; NULL: there is none. */
static struct hwt_delay_origin *find_newest(const hwt_delay *store, uint64_t hash, uint64_t due,
                                            const struct hwt_delay_record *like)
{
    struct hwt_delay_node *node = hwt_delay_map_bucket(&store->table.origins, hash);
    while (node && (node->hash != hash || origin_at(node)->due != due ||
                    compare_ids(origin_at(node)->record, like) != 0))
        node = node->next;
    return node ? origin_at(node) : NULL;
}

void hwt_delay_origin_add(hwt_delay *store, struct hwt_delay_record *record)
{
    struct hwt_delay_origin *origin = record->origin;
    if (!origin)
        return;
    struct hwt_delay_origin *newest = find_newest(store, origin->node.hash, origin->due, record);
    if (newest && sequence_compare(newest, origin) > 0) {
        RB_INSERT(hwt_delay_older, &newest->older, origin);
        return;
    }
    RB_INIT(&origin->older);
    if (newest) {
        hwt_delay_map_remove(&store->table.origins, &newest->node);
        origin->older = newest->older;
        RB_INSERT(hwt_delay_older, &origin->older, newest);
    }
    hwt_delay_map_insert(&store->table.origins, &origin->node);
}

void hwt_delay_origin_remove(hwt_delay *store, struct hwt_delay_record *record)
{
    struct hwt_delay_origin *origin = record->origin, *next;
    if (!origin)
        return;
    struct hwt_delay_origin *newest = find_newest(store, origin->node.hash, origin->due, record);
    if (newest != origin) {
        RB_REMOVE(hwt_delay_older, &newest->older, origin);
        return;
    }
    hwt_delay_map_remove(&store->table.origins, &origin->node);
    next = RB_MAX(hwt_delay_older, &origin->older);
    if (!next)
        return;
    RB_REMOVE(hwt_delay_older, &origin->older, next);
    next->older = origin->older;
    hwt_delay_map_insert(&store->table.origins, &next->node);
}

void hwt_delay_found_watch(hwt_delay *store, struct hwt_delay_found *found)
{
    if (!found->watched)
        LIST_INSERT_HEAD(&store->table.sought, found, link);
    found->watched = true;
    found->touched = false;
}

void hwt_delay_found_unwatch(struct hwt_delay_found *found)
{
    if (found->watched)
        LIST_REMOVE(found, link);
    found->watched = false;
}

void hwt_delay_sought_touch(hwt_delay *store, const struct hwt_delay_record *record)
{
    struct hwt_delay_found *found;
    LIST_FOREACH(found, &store->table.sought, link)
    {
        const struct hwt_delay_record *its = found->record;
        if (record->kind == HWT_DELAY_DROP)
            found->touched |= its && hwt_delay_is_dropped(store, its->key);
        else
            found->touched |= hwt_delay_ticket_is_of(found->ticket, record) ||
                              (its && hwt_delay_identity_compare(its, record) == 0);
    }
}

bool hwt_delay_ticket_is_of(const struct hwt_delay_record *ticket,
                            const struct hwt_delay_record *record)
{
    uint64_t due = record->origin ? record->origin->due : record->key.due;
    return record->kind == HWT_DELAY_PUT && due == ticket->key.due &&
           compare_ids(ticket, record) == 0;
}

/* The newest message with a ticket, in the table or leased; or NULL. */
struct hwt_delay_record *hwt_delay_find_ticket(const hwt_delay *store,
                                               const struct hwt_delay_record *ticket)
{
    struct hwt_delay_record *found = hwt_delay_lookup(store, ticket);
    if (found && !hwt_delay_ticket_is_of(ticket, found))
        found = NULL;
    const struct hwt_delay_origin *newest =
        find_newest(store, ticket->by_identity.hash, ticket->key.due, ticket);
    bool is_newer = newest && (!found || newest->record->key.sequence > found->key.sequence);
    return is_newer ? newest->record : found;
}

/* A tombstone that opening read from the log may be of an older message with this identity. */
bool hwt_delay_has_newer(const hwt_delay *store, const struct hwt_delay_record *record)
{
    const struct hwt_delay_record *there = hwt_delay_lookup(store, record);
    return there && there->key.sequence >= record->key.sequence;
}
