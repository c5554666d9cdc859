/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Batches that come back, on hwt/core/pool.c as it is: two threads pop and push, one of them in
 * such an order that the first one lies on the stack again though the second one does not.
 *
 * Verified: no batch is had by two, and who has one sees what the last one wrote. GenMC itself
 * finds the races on `written`.
 */

#include <assert.h>
#include <pthread.h>

#include "hwt/core/pool.c"

#define BATCHES 3
#define FIRST 300 /* seat, behind all heads */

static struct hwt_pool pool;
static struct hwt_slot slots[1];
static _Alignas(65536) char slab[65536];
static uint32_t written[BATCHES];

static void use(struct hwt_entry *entry)
{
    if (entry)
        written[hwt_entry_id(entry) - FIRST]++;
}

static void *there_and_back(void *arg)
{
    (void)arg;
    struct hwt_entry *one = pop_batch(&pool);
    struct hwt_entry *other = pop_batch(&pool);
    use(one);
    if (one)
        push_batch(&pool, one, 1);
    use(other);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    atomic_init(&slots[0].base, slab);
    pool.directory.slots = slots;
    atomic_init(&pool.batches, HWT_ID_NONE);
    for (uint32_t i = BATCHES; i-- > 0;) {
        struct hwt_entry *entry = hwt_pool_entry(&pool, FIRST + i);
        link(entry, NULL);
        push_batch(&pool, entry, 1);
    }
    pthread_create(&thread, NULL, there_and_back, NULL);
    use(pop_batch(&pool));
    use(pop_batch(&pool));
    pthread_join(thread, NULL);
    return 0;
}
