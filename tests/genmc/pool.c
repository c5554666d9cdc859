/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Batches that come back, on hwt/pool/stacks.c and hwt/base/stack.c as they are, with hwt/base/word.c
 * in the variant with locks, for GenMC has no 16-byte exchange: two threads pop and push, one of them
 * in such an order that the first one lies on the stack again though the second one does not; or,
 * with -DALL, lies deeper, and the stack has as much as before.
 *
 * Verified: no batch is had by two, who has one sees what the last one wrote, and its length is its
 * own; in the end the stack knows how much it has. GenMC itself finds the races on `written`.
 */

#include <assert.h>
#include <pthread.h>
#include <sched.h>

#include "hwt/base/word.c"
#include "hwt/base/stack.c"
#include "hwt/pool/stacks.c"

#define BATCHES 3

static struct hwt_pool pool;
static struct hwt_entry entries[BATCHES];
static uint32_t written[BATCHES];

/* Each is said to have another length. */
static uint32_t length_of(const struct hwt_entry *entry)
{
    return (uint32_t)(entry - entries) + 1;
}

static struct hwt_entry *take_one(void)
{
    uint32_t length = 0;
    struct hwt_entry *entry = hwt_batch_pop_old(&pool, &length);
    assert(!entry || length == length_of(entry));
    return entry;
}

static void use(struct hwt_entry *entry)
{
    if (entry)
        written[entry - entries]++;
}

static void *there_and_back(void *arg)
{
    (void)arg;
    struct hwt_entry *one = take_one();
    struct hwt_entry *other = take_one();
    use(one);
#ifdef ALL
    struct hwt_entry *third = take_one();
    if (!third)
        return NULL; /* the other has one */
    hwt_batch_push_last(&pool, other, length_of(other));
    hwt_batch_push_last(&pool, third, length_of(third));
#endif
    if (one)
        hwt_batch_push_last(&pool, one, length_of(one));
#ifndef ALL
    use(other);
#endif
    return NULL;
}

int main(void)
{
    pthread_t thread;
    uint32_t left = 0;
    for (uint32_t i = BATCHES; i-- > 0;)
        hwt_batch_push_last(&pool, &entries[i], length_of(&entries[i]));
    assert(hwt_pool_free(&pool) == 1 + 2 + 3);
    pthread_create(&thread, NULL, there_and_back, NULL);
    use(take_one());
#ifndef ALL
    use(take_one());
#endif
    pthread_join(thread, NULL);
    for (hwt_link *link = (hwt_link *)(uintptr_t)pool.batches[1].first; link;
         link = hwt_link_next(link))
        left += count_of(link);
    assert(hwt_pool_free(&pool) == left);
    return 0;
}
