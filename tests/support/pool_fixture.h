/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_POOL_FIXTURE_H
#define HWT_TESTS_POOL_FIXTURE_H

/*
 * A pool without a timer. pool.c and its neighbours are included, so that what they ask of the
 * system can be refused; the linker then leaves out the library's own.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/base/pieces.h"

static _Atomic bool refuse_memory, refuse_array, refuse_advice;

/* Of the directory. */
static inline void *may_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return refuse_memory || refuse_array ? MAP_FAILED
                                         : mmap(at, size, protection, flags, fd, offset);
}

static inline char *may_map_aligned(size_t size, size_t alignment, size_t rest)
{
    return refuse_memory ? NULL : hwt_map_aligned(size, alignment, rest);
}

static inline int may_madvise(void *at, size_t size, int advice)
{
    return refuse_advice ? -1 : madvise(at, size, advice);
}

#define mmap may_mmap
#define hwt_map_aligned may_map_aligned
#define madvise may_madvise
#include "hwt/pool/pool.c"
#include "hwt/pool/stacks.c"
#include "hwt/pool/trim.c"
#include "hwt/wheel/directory.c"
#undef mmap
#undef hwt_map_aligned
#undef madvise

#include "unit.h"

enum { SLAB = HWT_SLAB_ENTRIES, REST = 100000 };

static struct hwt_pool pool;
static struct hwt_cache cache;
static char owner; /* its address is the timer's */

static inline void open_pool(void)
{
    memset(&pool, 0, sizeof(pool));
    memset(&cache, 0, sizeof(cache));
    refuse_memory = refuse_array = refuse_advice = false;
    must(hwt_pool_init(&pool, (hwt_timer *)(void *)&owner, REST) == 0);
}

static inline void close_pool(void)
{
    hwt_pool_destroy(&pool, false);
}

static inline struct hwt_entry *take_one(void)
{
    struct hwt_entry *one = hwt_pool_take(&pool, &cache);
    must(one);
    return one;
}

static inline void take_many(struct hwt_entry **all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        all[i] = take_one();
}

static inline void give_many(struct hwt_entry *const *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        hwt_pool_give(&pool, &cache, all[i]);
}

/* A timeout's life in it. Returns its state while it was pending. */
static inline uint64_t use(struct hwt_entry *one)
{
    static const hwt_task task = { 0 };
    uint64_t state = hwt_entry_begin(one, &task, &owner, 1);
    must(hwt_word_exchange_first(&one->word, state, hwt_with_phase(state, HWT_PHASE_EXPIRED)));
    return state;
}

/* How many entries are in the pool's batches: takes them all out, and puts them back. The pool
 * knows it. */
static inline uint32_t count_batches(void)
{
    static struct hwt_cache all[2000];
    uint32_t batches = 0, count = 0;
    uint64_t said = hwt_pool_free(&pool);
    struct hwt_cache one = { 0 };
    while ((one.first = hwt_batch_pop(&pool, &one.count)) != NULL) {
        uint32_t length = 0;
        for (struct hwt_entry *entry = one.first; entry; entry = hwt_entry_linked(entry))
            length++;
        must(batches < 2000 && length == one.count);
        all[batches++] = one;
        count += length;
    }
    must(said == count);
    while (batches > 0)
        hwt_pool_flush(&pool, &all[--batches]);
    return count;
}

/* All of a trim, at this instant. */
static inline void trim_pool(uint64_t now)
{
    while (!hwt_pool_trim(&pool, now))
        ;
}

#endif
