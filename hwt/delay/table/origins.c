/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records by the due time of their first put, and what is looked for by its ticket meanwhile. See
 * api/tickets.c.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

static int compare_ids(const struct hwt_delay_record *a, const struct hwt_delay_record *b)
{
    if (a->id_size != b->id_size)
        return a->id_size < b->id_size ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->id_size);
}

void hwt_delay_origin_add(hwt_delay *store, struct hwt_delay_record *record)
{
    if (record->origin)
        hwt_delay_map_insert(&store->table.origins, &record->origin->node);
}

void hwt_delay_origin_remove(hwt_delay *store, struct hwt_delay_record *record)
{
    if (record->origin)
        hwt_delay_map_remove(&store->table.origins, &record->origin->node);
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

static struct hwt_delay_record *newer(struct hwt_delay_record *a, struct hwt_delay_record *b)
{
    return !a || (b && b->key.sequence > a->key.sequence) ? b : a;
}

static struct hwt_delay_record *record_at(struct hwt_delay_node *node)
{
    void *origin = (char *)node - offsetof(struct hwt_delay_origin, node);
    return ((struct hwt_delay_origin *)origin)->record;
}

/* The newest message with a ticket, in the table or leased; or NULL. */
struct hwt_delay_record *hwt_delay_find_ticket(const hwt_delay *store,
                                               const struct hwt_delay_record *ticket)
{
    struct hwt_delay_record *found = hwt_delay_lookup(store, ticket);
    if (found && !hwt_delay_ticket_is_of(ticket, found))
        found = NULL;
    struct hwt_delay_node *node =
        hwt_delay_map_bucket(&store->table.origins, ticket->by_identity.hash);
    for (; node; node = node->next) {
        struct hwt_delay_record *record = record_at(node);
        bool counts = record->state != HWT_DELAY_LEASED || !record->lease->superseded;
        if (counts && hwt_delay_ticket_is_of(ticket, record))
            found = newer(found, record);
    }
    return found;
}

/* A tombstone that opening read from the log may be of an older message with this identity. */
bool hwt_delay_has_newer(const hwt_delay *store, const struct hwt_delay_record *record)
{
    const struct hwt_delay_record *there = hwt_delay_lookup(store, record);
    return there && there->key.sequence >= record->key.sequence;
}
