/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pool's stacks: batches of free entries, and empty slabs. See stacks.h. */

#include "hwt/pool/stacks.h"

#include "hwt/base/sched_point.h"

#define COUNT_TRIES 16

static uint64_t with_top(uint64_t head, uint32_t top)
{
    return (head & ~(uint64_t)UINT32_MAX) | top;
}

static uint64_t popped(uint64_t head, uint32_t top)
{
    return with_top(head + ((uint64_t)1 << 32), top);
}

void hwt_empty_push(struct hwt_pool *pool, uint32_t number)
{
    struct hwt_site *site = hwt_pool_site(pool, number);
    uint64_t head = atomic_load_explicit(&pool->empty_slabs, memory_order_relaxed);
    do {
        HWT_SCHED_POINT(EMPTY_PUSH);
        /* Relaxed: the release of the head publishes it, and the site. */
        atomic_store_explicit(&site->next_empty, (uint32_t)head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->empty_slabs, &head,
                                                    with_top(head, number), memory_order_release,
                                                    memory_order_relaxed));
}

uint32_t hwt_empty_pop(struct hwt_pool *pool)
{
    /* Acquire, also on failure: the site of that number. */
    uint64_t head = atomic_load_explicit(&pool->empty_slabs, memory_order_acquire);
    uint32_t next;
    do {
        if ((uint32_t)head == HWT_ID_NONE)
            return HWT_ID_NONE;
        struct hwt_site *site = hwt_pool_site(pool, (uint32_t)head);
        next = atomic_load_explicit(&site->next_empty, memory_order_relaxed);
        HWT_SCHED_POINT(EMPTY_POP);
        /* Release, too: what the next user writes to `next_empty` is not what was read above. */
    } while (!atomic_compare_exchange_weak_explicit(&pool->empty_slabs, &head, popped(head, next),
                                                    memory_order_acq_rel, memory_order_acquire));
    return (uint32_t)head;
}

/* Release as in hwt_entry_link(). */
static void set_batch(struct hwt_entry *first, uint32_t total, uint32_t count, uint32_t next)
{
    uint32_t both = total << HWT_BATCH_BITS | (count - 1);
    HWT_ASSERT(count > 0 && count <= HWT_CACHE_BATCH && count <= total);
    atomic_store_explicit(&first->word.second, (uint64_t)both << 32 | next, memory_order_release);
}

/* How many entries a stack has, if `head` is still its head after this. */
static uint32_t total_at(const struct hwt_pool *pool, uint64_t head)
{
    if ((uint32_t)head == HWT_ID_NONE)
        return 0;
    return hwt_batch_total(hwt_entry_batch(hwt_pool_entry(pool, (uint32_t)head)));
}

static uint64_t count_stack(const struct hwt_pool *pool, const _Atomic uint64_t *stack)
{
    uint64_t before, head = atomic_load_explicit(stack, memory_order_acquire);
    uint32_t total;
    for (int tries = 0; tries < COUNT_TRIES; tries++) {
        before = head;
        HWT_SCHED_POINT(BATCH_COUNT);
        total = total_at(pool, head);
        head = atomic_load_explicit(stack, memory_order_acquire);
        if (head == before)
            return total;
    }
    return 0; /* producers are busy, so it is no time for a trim */
}

uint64_t hwt_pool_free(const struct hwt_pool *pool)
{
    uint64_t all = count_stack(pool, &pool->batches[0]) + count_stack(pool, &pool->batches[1]);
    return all < HWT_FREE_MAX ? all : HWT_FREE_MAX;
}

/* Relaxed: either stack is right. */
static uint32_t given_to(const struct hwt_pool *pool)
{
    return atomic_load_explicit(&pool->given_to, memory_order_relaxed);
}

void hwt_batches_swap(struct hwt_pool *pool)
{
    atomic_store_explicit(&pool->given_to, 1 - given_to(pool), memory_order_relaxed);
}

static void push(struct hwt_pool *pool, _Atomic uint64_t *stack, struct hwt_entry *first,
                 uint32_t count)
{
    /* Orders as in hwt_empty_pop(). */
    uint64_t head = atomic_load_explicit(stack, memory_order_acquire);
    uint32_t id = hwt_entry_id(first);
    do {
        uint32_t total = total_at(pool, head) + count;
        HWT_SCHED_POINT(BATCH_PUSH);
        set_batch(first, total < HWT_FREE_MAX ? total : HWT_FREE_MAX, count, (uint32_t)head);
    } while (!atomic_compare_exchange_weak_explicit(stack, &head, with_top(head, id),
                                                    memory_order_acq_rel, memory_order_acquire));
}

void hwt_batch_push(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count)
{
    push(pool, &pool->batches[given_to(pool)], first, count);
}

void hwt_batch_push_last(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count)
{
    push(pool, &pool->batches[1 - given_to(pool)], first, count);
}

static struct hwt_entry *pop(struct hwt_pool *pool, _Atomic uint64_t *stack, uint32_t *ret_count)
{
    /* Orders as in hwt_empty_pop(). */
    uint64_t head = atomic_load_explicit(stack, memory_order_acquire);
    struct hwt_entry *first;
    uint64_t second;
    do {
        if ((uint32_t)head == HWT_ID_NONE)
            return NULL;
        first = hwt_pool_entry(pool, (uint32_t)head);
        second = atomic_load_explicit(&first->word.second, memory_order_relaxed);
        HWT_SCHED_POINT(BATCH_POP);
    } while (!atomic_compare_exchange_weak_explicit(stack, &head, popped(head, (uint32_t)second),
                                                    memory_order_acq_rel, memory_order_acquire));
    *ret_count = hwt_batch_count(second);
    return first;
}

struct hwt_entry *hwt_batch_pop_old(struct hwt_pool *pool, uint32_t *ret_count)
{
    return pop(pool, &pool->batches[1 - given_to(pool)], ret_count);
}

struct hwt_entry *hwt_batch_pop(struct hwt_pool *pool, uint32_t *ret_count)
{
    struct hwt_entry *first = pop(pool, &pool->batches[given_to(pool)], ret_count);
    return first ? first : hwt_batch_pop_old(pool, ret_count);
}
