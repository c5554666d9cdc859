/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Batches that come back, on hwt/core/pool.c as it is: two threads pop and push, one of them in
 * such an order that the first one lies on the stack again though the second one does not.
 *
 * Verified: no batch is had by two, who has one sees what the last one wrote, and its length is its
 * own. GenMC itself finds the races on `written`.
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

/* Each is said to have another length. */
static uint32_t length_of(const struct hwt_entry *entry)
{
    return hwt_entry_id(entry) - FIRST + 1;
}

static struct hwt_entry *pop(void)
{
    uint32_t length = 0;
    struct hwt_entry *entry = pop_batch(&pool, &length);
    assert(!entry || length == length_of(entry));
    return entry;
}

static void use(struct hwt_entry *entry)
{
    if (entry)
        written[hwt_entry_id(entry) - FIRST]++;
}

static void *there_and_back(void *arg)
{
    (void)arg;
    struct hwt_entry *one = pop();
    struct hwt_entry *other = pop();
    use(one);
    if (one)
        push_batch(&pool, one, length_of(one));
    use(other);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    atomic_init(&slots[0].base, slab);
    atomic_init(&hwt_slab_of((struct hwt_entry *)(void *)slab)->to_id,
                -(uint32_t)((uintptr_t)slab / sizeof(struct hwt_entry)));
    pool.directory.slots = slots;
    atomic_init(&pool.batches, HWT_ID_NONE);
    for (uint32_t i = BATCHES; i-- > 0;) {
        struct hwt_entry *entry = hwt_pool_entry(&pool, FIRST + i);
        hwt_entry_link(entry, NULL);
        push_batch(&pool, entry, length_of(entry));
    }
    pthread_create(&thread, NULL, there_and_back, NULL);
    use(pop());
    use(pop());
    pthread_join(thread, NULL);
    return 0;
}
