/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Leases are of messages that were handed over and are not done. They are in memory only; a
 * checkpoint writes their messages whole, so after a crash they are pending again.
 *
 * A lease ends by the boottime clock, so setting the time does not end it. A message whose lease
 * has ended is FRESH once more, because slots have moved their positions past it when it was taken.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

static int token_compare(const struct hwt_delay_lease *a, const struct hwt_delay_lease *b)
{
    return (a->token > b->token) - (a->token < b->token);
}

static int end_compare(const struct hwt_delay_lease *a, const struct hwt_delay_lease *b)
{
    int order = (a->end > b->end) - (a->end < b->end);
    return order != 0 ? order : token_compare(a, b);
}

RB_GENERATE(hwt_delay_tokens, hwt_delay_lease, by_token, token_compare)
RB_GENERATE(hwt_delay_ends, hwt_delay_lease, by_end, end_compare)

struct hwt_delay_lease *hwt_delay_lease_find(hwt_delay *store, uint64_t token)
{
    struct hwt_delay_lease key = { .token = token };
    return RB_FIND(hwt_delay_tokens, &store->table.tokens, &key);
}

/* The record is in the table, and goes out of it. */
void hwt_delay_lease_add(hwt_delay *store, struct hwt_delay_lease *lease,
                         struct hwt_delay_record *record, uint64_t end)
{
    *lease = (struct hwt_delay_lease){
        .token = store->table.next_token++,
        .end = end,
        .record = record,
    };
    record->refs++;
    hwt_delay_remove(store, record);
    store->table.bytes[HWT_DELAY_NOWHERE] += hwt_delay_record_bytes(record);
    hwt_delay_set_state(store, record, HWT_DELAY_LEASED);
    record->lease = lease;
    /* An older lease of the same identity has been superseded, and is not in this tree. */
    RB_INSERT(hwt_delay_identities, &store->table.leased, record);
    hwt_delay_origin_add(store, record);
    RB_INSERT(hwt_delay_tokens, &store->table.tokens, lease);
    RB_INSERT(hwt_delay_ends, &store->table.ends, lease);
    store->table.leased_count++;
}

/* Ends a lease and frees it. The record is the caller's; NULL: it was superseded. */
struct hwt_delay_record *hwt_delay_lease_end(hwt_delay *store, struct hwt_delay_lease *lease)
{
    struct hwt_delay_record *record = lease->record;
    RB_REMOVE(hwt_delay_tokens, &store->table.tokens, lease);
    RB_REMOVE(hwt_delay_ends, &store->table.ends, lease);
    store->table.leased_count--;
    hwt_delay_origin_remove(store, record);
    hwt_delay_set_state(store, record, HWT_DELAY_NOWHERE);
    store->table.bytes[HWT_DELAY_NOWHERE] -= hwt_delay_record_bytes(record);
    if (lease->superseded) {
        store->table.superseded--;
        hwt_delay_record_unref(record);
        record = NULL;
    } else {
        RB_REMOVE(hwt_delay_identities, &store->table.leased, record);
    }
    free(lease);
    return record;
}

/* Supersedes the lease of the message that a record replaces, so that it does not come back. False:
 * there is none. */
bool hwt_delay_lease_supersede(hwt_delay *store, const struct hwt_delay_record *record)
{
    struct hwt_delay_record *old =
        hwt_delay_find(&store->table.leased, record->key.due, record->bytes, record->id_size);
    if (!old)
        return false;
    RB_REMOVE(hwt_delay_identities, &store->table.leased, old);
    old->lease->superseded = true;
    store->table.superseded++;
    return true;
}

/* Room for another lease, in number and in bytes. One is always possible. */
bool hwt_delay_lease_fits(const hwt_delay *store, const struct hwt_delay_record *record)
{
    return store->table.leased_count < store->options.leased_max &&
           (store->table.leased_count == 0 ||
            store->table.bytes[HWT_DELAY_LEASED] + hwt_delay_record_bytes(record) <=
                hwt_delay_leased_bytes_max(store));
}

void hwt_delay_lease_move(hwt_delay *store, struct hwt_delay_lease *lease, uint64_t end)
{
    RB_REMOVE(hwt_delay_ends, &store->table.ends, lease);
    lease->end = end;
    RB_INSERT(hwt_delay_ends, &store->table.ends, lease);
}

void hwt_delay_leases_expire(hwt_delay *store)
{
    struct hwt_delay_lease *lease;
    uint64_t now = RB_EMPTY(&store->table.ends) ? 0 : hwt_delay_boottime(store);
    while ((lease = RB_MIN(hwt_delay_ends, &store->table.ends)) && lease->end <= now) {
        struct hwt_delay_record *record = hwt_delay_lease_end(store, lease);
        store->stats.expired++;
        if (!record)
            continue;
        record->expired++;
        record->shadows = false;
        hwt_delay_insert(store, record, HWT_DELAY_FRESH);
    }
}

uint64_t hwt_delay_leased_count(const hwt_delay *store)
{
    return store->table.leased_count;
}

struct hwt_delay_lease *hwt_delay_lease_first(const hwt_delay *store)
{
    return RB_MIN(hwt_delay_tokens, &((hwt_delay *)(uintptr_t)store)->table.tokens);
}

struct hwt_delay_lease *hwt_delay_lease_next(struct hwt_delay_lease *lease)
{
    return RB_NEXT(hwt_delay_tokens, NULL, lease);
}

/* By the boottime clock; HWT_NEVER: none ends. */
uint64_t hwt_delay_lease_first_end(const hwt_delay *store)
{
    const struct hwt_delay_lease *lease =
        RB_MIN(hwt_delay_ends, &((hwt_delay *)(uintptr_t)store)->table.ends);
    return lease ? lease->end : HWT_NEVER;
}

uint64_t hwt_delay_leased_bytes_max(const hwt_delay *store)
{
    return store->options.memory / 8;
}
