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

static int end_compare(const struct hwt_delay_lease *a, const struct hwt_delay_lease *b)
{
    int order = (a->end > b->end) - (a->end < b->end);
    return order != 0 ? order : (a->token > b->token) - (a->token < b->token);
}

RB_GENERATE(hwt_delay_ends, hwt_delay_lease, by_end, end_compare)

/* Tokens are given in turn, and leases that last may have every thousandth one: the lowest bits of
 * these would be a few buckets. Messages that are taken together mostly end together, so eight tokens
 * in turn have eight buckets in one line of the cache. Tokens far from each other may share a hash. */
static uint64_t hash_of(uint64_t token)
{
    return __builtin_bswap64(token / 8 * UINT64_C(0x9e3779b97f4a7c15)) ^ token % 8;
}

static struct hwt_delay_lease *lease_at(struct hwt_delay_node *node)
{
    void *lease = (char *)node - offsetof(struct hwt_delay_lease, by_token);
    return lease;
}

struct hwt_delay_lease *hwt_delay_lease_find(const hwt_delay *store, uint64_t token)
{
    const uint64_t hash = hash_of(token);
    struct hwt_delay_node *node = hwt_delay_map_bucket(&store->table.tokens, hash);
    while (node && (node->hash != hash || lease_at(node)->token != token))
        node = node->next;
    return node ? lease_at(node) : NULL;
}

/* Numbers begin anywhere, so one of an earlier opening, which a consumer may still have, is of no
 * lease. 52 random bits are enough for that, and floating-point numbers have them. If there is no
 * randomness, they begin with 1. */
void hwt_delay_leases_begin(hwt_delay *store)
{
    uint64_t random = 0;
    (void)hwt_delay_random(store, &random, sizeof(random));
    store->table.next_token += random >> 12;
}

/* The record is in the table, and goes out of it. It keeps its identity and its origin. One that is
 * FILED is not counted for its slot any more. */
void hwt_delay_lease_add(hwt_delay *store, struct hwt_delay_lease *lease,
                         struct hwt_delay_record *record, uint64_t end)
{
    *lease = (struct hwt_delay_lease){
        .token = store->table.next_token++,
        .end = end,
        .record = record,
    };
    lease->by_token.hash = hash_of(lease->token);
    bool filed = record->state == HWT_DELAY_FILED;
    RB_REMOVE(hwt_delay_keys, &store->table.keys, record);
    hwt_delay_set_state(store, record, HWT_DELAY_LEASED);
    if (filed)
        hwt_delay_filed_end(&store->table.filed, record->key.due);
    record->lease = lease;
    RB_INSERT(hwt_delay_keys, &store->table.leased, record);
    hwt_delay_map_insert(&store->table.tokens, &lease->by_token);
    TAILQ_INSERT_TAIL(&store->table.leases, lease, link);
    RB_INSERT(hwt_delay_ends, &store->table.ends, lease);
    store->table.leased_count++;
}

/* The record of a lease is not the one that counts any more. */
static void forget_record(hwt_delay *store, struct hwt_delay_record *record)
{
    RB_REMOVE(hwt_delay_keys, &store->table.leased, record);
    hwt_delay_origin_remove(store, record);
    hwt_delay_map_remove(&store->table.identities, &record->by_identity);
}

/* Ends a lease and frees it. The record is the caller's; NULL: it was superseded. */
struct hwt_delay_record *hwt_delay_lease_end(hwt_delay *store, struct hwt_delay_lease *lease)
{
    struct hwt_delay_record *record = lease->record;
    hwt_delay_map_remove(&store->table.tokens, &lease->by_token);
    TAILQ_REMOVE(&store->table.leases, lease, link);
    RB_REMOVE(hwt_delay_ends, &store->table.ends, lease);
    store->table.leased_count--;
    if (!lease->superseded)
        forget_record(store, record);
    hwt_delay_set_state(store, record, HWT_DELAY_NOWHERE);
    store->table.bytes[HWT_DELAY_NOWHERE] -= hwt_delay_record_bytes(record);
    if (lease->superseded) {
        store->table.superseded--;
        hwt_delay_record_unref(record);
        record = NULL;
    }
    free(lease);
    return record;
}

/* It is to be ended. */
void hwt_delay_lease_prefetch(const struct hwt_delay_lease *lease)
{
    const struct hwt_delay_record *record = lease->record;
    if (lease->superseded)
        return;
    hwt_delay_map_prefetch_around(&record->by_identity);
    if (record->origin)
        hwt_delay_map_prefetch_around(&record->origin->node);
}

/* Supersedes the lease of a record that something newer replaces, so that it does not come back. */
void hwt_delay_lease_supersede(hwt_delay *store, struct hwt_delay_record *record)
{
    forget_record(store, record);
    record->lease->superseded = true;
    store->table.superseded++;
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

/* Ends those that are over, but not more than others can wait for. False: some are left. */
bool hwt_delay_leases_expire_some(hwt_delay *store)
{
    struct hwt_delay_lease *lease;
    unsigned count = 0;
    uint64_t now = RB_EMPTY(&store->table.ends) ? 0 : hwt_delay_boottime(store);
    while ((lease = RB_MIN(hwt_delay_ends, &store->table.ends)) && lease->end <= now) {
        if (count++ == HWT_DELAY_CHUNK)
            return false;
        struct hwt_delay_record *record = hwt_delay_lease_end(store, lease);
        store->stats.expired++;
        if (!record)
            continue;
        record->expired++;
        record->shadows = false;
        hwt_delay_insert(store, record, HWT_DELAY_FRESH);
    }
    return true;
}

/* Ends all that are over. Lets others have the lock now and then. */
void hwt_delay_leases_expire(hwt_delay *store)
{
    while (!hwt_delay_leases_expire_some(store))
        hwt_delay_yield(store);
}

uint64_t hwt_delay_leased_count(const hwt_delay *store)
{
    return store->table.leased_count;
}

struct hwt_delay_lease *hwt_delay_lease_first(const hwt_delay *store)
{
    return TAILQ_FIRST(&store->table.leases);
}

struct hwt_delay_lease *hwt_delay_lease_next(struct hwt_delay_lease *lease)
{
    return TAILQ_NEXT(lease, link);
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
