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

static int origin_compare(const struct hwt_delay_origin *a, const struct hwt_delay_origin *b)
{
    int order = (a->due > b->due) - (a->due < b->due);
    if (order == 0)
        order = compare_ids(a->record, b->record);
    if (order == 0)
        order = (a->record->key.sequence > b->record->key.sequence) -
                (a->record->key.sequence < b->record->key.sequence);
    return order != 0 ? order : (a > b) - (a < b);
}

RB_PROTOTYPE(hwt_delay_origins, hwt_delay_origin, entry, )
RB_GENERATE(hwt_delay_origins, hwt_delay_origin, entry, origin_compare)

void hwt_delay_origin_add(hwt_delay *store, struct hwt_delay_record *record)
{
    if (record->origin)
        RB_INSERT(hwt_delay_origins, &store->table.origins, record->origin);
}

void hwt_delay_origin_remove(hwt_delay *store, struct hwt_delay_record *record)
{
    if (record->origin)
        RB_REMOVE(hwt_delay_origins, &store->table.origins, record->origin);
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

static struct hwt_delay_record *at_its_origin(struct hwt_delay_identities *identities,
                                              const struct hwt_delay_record *ticket)
{
    struct hwt_delay_record *record =
        hwt_delay_find(identities, ticket->key.due, ticket->bytes, ticket->id_size);
    return record && hwt_delay_ticket_is_of(ticket, record) ? record : NULL;
}

/* The newest message with a ticket, in the table or leased; or NULL. */
struct hwt_delay_record *hwt_delay_find_ticket(hwt_delay *store, struct hwt_delay_record *ticket)
{
    struct hwt_delay_origin from = { .due = ticket->key.due, .record = ticket }, *origin;
    struct hwt_delay_record *found = newer(at_its_origin(&store->table.identities, ticket),
                                           at_its_origin(&store->table.leased, ticket));
    for (origin = RB_NFIND(hwt_delay_origins, &store->table.origins, &from);
         origin && origin->due == ticket->key.due && compare_ids(origin->record, ticket) == 0;
         origin = RB_NEXT(hwt_delay_origins, &store->table.origins, origin)) {
        struct hwt_delay_record *record = origin->record;
        if (record->state != HWT_DELAY_LEASED || !record->lease->superseded)
            found = newer(found, record);
    }
    return found;
}

/* A tombstone that opening read from the log may be of an older message with this identity. */
static bool has_newer(struct hwt_delay_identities *identities,
                      const struct hwt_delay_record *record)
{
    const struct hwt_delay_record *there =
        hwt_delay_find(identities, record->key.due, record->bytes, record->id_size);
    return there && there->key.sequence >= record->key.sequence;
}

/* The table, or a lease, has a newer record with its identity. */
bool hwt_delay_has_newer(hwt_delay *store, const struct hwt_delay_record *record)
{
    return has_newer(&store->table.identities, record) || has_newer(&store->table.leased, record);
}
