/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pool's batches of free entries. See stacks.h. */

#include "hwt/pool/stacks.h"

#include "hwt/base/queue.h"

/* Relaxed: either stack is right. */
static uint32_t given_to(const struct hwt_pool *pool)
{
    return atomic_load_explicit(&pool->given_to, memory_order_relaxed);
}

void hwt_batches_swap(struct hwt_pool *pool)
{
    atomic_store_explicit(&pool->given_to, 1 - given_to(pool), memory_order_relaxed);
}

static void push(struct hwt_word *stack, struct hwt_entry *first, uint32_t count)
{
    HWT_ASSERT(count > 0 && count <= HWT_CACHE_BATCH);
    HWT_SCHED_POINT(BATCH_PUSH);
    hwt_entry_set_count(first, count);
    hwt_stack_push(stack, &first->word.second, count);
}

void hwt_batch_push(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count)
{
    push(&pool->batches[given_to(pool)], first, count);
}

void hwt_batch_push_last(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count)
{
    push(&pool->batches[1 - given_to(pool)], first, count);
}

static uint32_t count_of(const hwt_link *link)
{
    return hwt_entry_count(caa_container_of(link, const struct hwt_entry, word.second));
}

static struct hwt_entry *pop(struct hwt_word *stack, uint32_t *ret_count)
{
    HWT_SCHED_POINT(BATCH_POP);
    hwt_link *link = hwt_stack_pop(stack, count_of);
    if (!link)
        return NULL;
    *ret_count = count_of(link);
    return caa_container_of(link, struct hwt_entry, word.second);
}

struct hwt_entry *hwt_batch_pop_old(struct hwt_pool *pool, uint32_t *ret_count)
{
    return pop(&pool->batches[1 - given_to(pool)], ret_count);
}

struct hwt_entry *hwt_batch_pop(struct hwt_pool *pool, uint32_t *ret_count)
{
    struct hwt_entry *first = pop(&pool->batches[given_to(pool)], ret_count);
    return first ? first : hwt_batch_pop_old(pool, ret_count);
}
