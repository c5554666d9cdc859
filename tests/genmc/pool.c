/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Batches that come back, on hwt/pool/stacks.c as it is: two threads pop and push, one of them in
 * such an order that the first one lies on the stack again though the second one does not.
 *
 * Verified: no batch is had by two, who has one sees what the last one wrote, and its length is its
 * own. With COUNTS the worker asks meanwhile how many there are: never more than that.
 * GenMC itself finds the races on `written`.
 */

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "hwt/pool/stacks.c"

#define BATCHES 3
#define FIRST 300 /* seat, behind all heads */

static struct hwt_pool pool;
static struct hwt_site site;
static _Alignas(65536) char slab[65536];
static uint32_t written[BATCHES];

/* Each is said to have another length. */
static uint32_t length_of(const struct hwt_entry *entry)
{
    return hwt_entry_id(entry) - FIRST + 1;
}

static struct hwt_entry *take_one(void)
{
    uint32_t length = 0;
    struct hwt_entry *entry = hwt_batch_pop(&pool, &length);
    assert(!entry || length == length_of(entry));
    return entry;
}

static void use(struct hwt_entry *entry)
{
    if (!entry)
        return;
    written[hwt_entry_id(entry) - FIRST]++;
#ifdef COUNTS
    atomic_store_explicit(&entry->word.second, UINT64_MAX, memory_order_release);
#endif
}

static void *there_and_back(void *arg)
{
    (void)arg;
    struct hwt_entry *one = take_one();
    struct hwt_entry *other = take_one();
    use(one);
    if (one)
        hwt_batch_push(&pool, one, length_of(one));
    use(other);
    return NULL;
}

#ifdef COUNTS
static void *worker(void *arg)
{
    (void)arg;
    assert(hwt_pool_free(&pool) <= 1 + 2 + 3);
    return NULL;
}
#endif

int main(void)
{
    pthread_t thread;
    site.base = slab;
    struct hwt_sites *sites = malloc(sizeof(*sites) + sizeof(sites->at[0]));
    atomic_init(&sites->at[0], &site);
    atomic_init(&hwt_slab_of((struct hwt_entry *)(void *)slab)->to_id,
                -(uint32_t)((uintptr_t)slab / sizeof(struct hwt_entry)));
    atomic_init(&pool.directory.sites, sites);
    atomic_init(&pool.batches[0], HWT_ID_NONE);
    atomic_init(&pool.batches[1], HWT_ID_NONE);
    for (uint32_t i = BATCHES; i-- > 0;) {
        struct hwt_entry *entry = hwt_pool_entry(&pool, FIRST + i);
        hwt_entry_link(entry, NULL);
        hwt_batch_push(&pool, entry, length_of(entry));
    }
    assert(hwt_pool_free(&pool) == 1 + 2 + 3);
    pthread_create(&thread, NULL, there_and_back, NULL);
#ifdef COUNTS
    pthread_t other;
    pthread_create(&other, NULL, worker, NULL);
    use(take_one());
    pthread_join(other, NULL);
#else
    use(take_one());
    use(take_one());
#endif
    pthread_join(thread, NULL);
    return 0;
}
