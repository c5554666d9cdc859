/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, and batches of free entries. See pool.h. */

#include "hwt/core/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hwt/base/meet.h"

#define REGION_SLABS_MAX 32            /* 2 MiB */
#define SPREAD_MAX ((uint64_t)1 << 28) /* generations */
#define SLOTS_FIRST 64
#define SLOTS_LEAST 512 /* for 800000 timeouts */
#define CHAINS 16

_Static_assert(sizeof(struct hwt_slab) == 64, "the head is a cache line");
_Static_assert(sizeof(struct hwt_slab) % sizeof(struct hwt_entry) == 0,
               "the head takes whole seats");
_Static_assert((HWT_SLAB_COLOURS - 1) * HWT_SLAB_STEP + sizeof(struct hwt_slab) <=
                   HWT_SLAB_SEATS * sizeof(struct hwt_entry),
               "the head is before the places");
_Static_assert(HWT_SLAB_SEATS <= HWT_ID_PLACE + 1, "a seat fits the id");

/* ---- memory ---- */

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* LeakSanitizer of the program, if it has that: what only a pending timeout's arg reaches is no
 * leak. */
extern void __lsan_register_root_region(const void *begin, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *begin, size_t size) __attribute__((weak));

static void unmap_slabs(char *base, size_t size)
{
    if (__lsan_unregister_root_region)
        __lsan_unregister_root_region(base, size);
    munmap(base, size);
}

static struct hwt_slot *slot_of(const struct hwt_pool *pool, uint32_t number)
{
    return &pool->directory.slots[number];
}

/* size bytes, aligned to their size up to 2 MiB and to a slab at least. */
static char *map_aligned(size_t size)
{
    size_t alignment = size < HWT_SLAB_SIZE * REGION_SLABS_MAX ? HWT_SLAB_SIZE : size;
    char *memory = map(size + alignment);
    if (!memory)
        return NULL;
    size_t before = -(uintptr_t)memory & (alignment - 1);
    if (before > 0)
        munmap(memory, before);
    munmap(memory + before + size, alignment - before);
    return memory + before;
}

/* Addresses for slots: for all that there can be, or, where a limit of the process does not allow
 * that, for as many as it does. NULL: not even for a few. */
static struct hwt_slot *reserve_slots(uint32_t *ret_numbers)
{
    for (uint32_t n = HWT_SLABS_MAX; n >= SLOTS_LEAST; n /= 2) {
        void *slots =
            mmap(NULL, n * sizeof(struct hwt_slot), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slots != MAP_FAILED) {
            *ret_numbers = n;
            return slots;
        }
    }
    return NULL;
}

int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer)
{
    struct hwt_slot *slots = reserve_slots(&pool->numbers);
    if (!slots)
        return -ENOMEM;
    pool->timer = timer;
    pool->directory = (struct hwt_directory){ slots, HWT_SLAB_SEATS * sizeof(struct hwt_entry) };
    atomic_init(&pool->batches, HWT_ID_NONE);
    atomic_init(&pool->empty, HWT_ID_NONE);
    atomic_init(&pool->slots, 0);
    atomic_init(&pool->slabs, 0);
    atomic_init(&pool->bytes, 0);
    pool->trim_at = HWT_TRIM_MIN;
    return 0;
}

void hwt_pool_destroy(struct hwt_pool *pool)
{
    uint32_t slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    for (uint32_t number = 0; number < slabs; number++) {
        const struct hwt_slot *slot = slot_of(pool, number);
        if (slot->region > 0 && hwt_slot_base(slot)) /* in a child of fork() it may not be there */
            unmap_slabs(hwt_slot_base(slot), slot->region * HWT_SLAB_SIZE);
    }
    munmap(pool->directory.slots, pool->numbers * sizeof(struct hwt_slot));
}

/* ---- the two stacks ---- */

static uint64_t with_top(uint64_t head, uint32_t top)
{
    return (head & ~(uint64_t)UINT32_MAX) | top;
}

static uint64_t popped(uint64_t head, uint32_t top)
{
    return with_top(head + ((uint64_t)1 << 32), top);
}

static void push_empty(struct hwt_pool *pool, uint32_t number)
{
    struct hwt_slot *slot = slot_of(pool, number);
    uint64_t head = atomic_load_explicit(&pool->empty, memory_order_relaxed);
    do {
        HWT_MEET(EMPTY_PUSH);
        /* Relaxed: the release of the head publishes it, and the slot. */
        atomic_store_explicit(&slot->next, (uint32_t)head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->empty, &head, with_top(head, number),
                                                    memory_order_release, memory_order_relaxed));
}

static uint32_t pop_empty(struct hwt_pool *pool)
{
    /* Acquire, also on failure: the slot of that number. */
    uint64_t head = atomic_load_explicit(&pool->empty, memory_order_acquire);
    uint32_t next;
    do {
        if ((uint32_t)head == HWT_ID_NONE)
            return HWT_ID_NONE;
        struct hwt_slot *slot = slot_of(pool, (uint32_t)head);
        next = atomic_load_explicit(&slot->next, memory_order_relaxed);
        HWT_MEET(EMPTY_POP);
        /* Release, too: what the next user writes to `next` is not what was read above. */
    } while (!atomic_compare_exchange_weak_explicit(&pool->empty, &head, popped(head, next),
                                                    memory_order_acq_rel, memory_order_acquire));
    return (uint32_t)head;
}

/* Release as in hwt_entry_link(). */
static void set_batch(struct hwt_entry *first, uint32_t total, uint32_t count, uint32_t next)
{
    uint32_t both = total << HWT_BATCH_BITS | (count - 1);
    atomic_store_explicit(&first->word.second, (uint64_t)both << 32 | next, memory_order_release);
}

/* How many entries there are, if `head`, which is not older than the batch, is still the head after
 * this. Acquire: if the deadline is of a newer use, another head is seen then. */
static uint32_t total_at(const struct hwt_pool *pool, uint64_t head)
{
    if ((uint32_t)head == HWT_ID_NONE)
        return 0;
    return hwt_batch_total(hwt_entry_deadline(hwt_pool_entry(pool, (uint32_t)head)));
}

uint64_t hwt_pool_free(const struct hwt_pool *pool)
{
    uint64_t before, head = atomic_load_explicit(&pool->batches, memory_order_acquire);
    uint32_t total;
    do {
        before = head;
        HWT_MEET(BATCH_COUNT);
        total = total_at(pool, head);
        head = atomic_load_explicit(&pool->batches, memory_order_acquire);
    } while (head != before);
    return total;
}

/* A chain of `count`. */
static void push_batch(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count)
{
    /* Orders as in pop_empty(). */
    uint64_t head = atomic_load_explicit(&pool->batches, memory_order_acquire);
    uint32_t id = hwt_entry_id(first);
    do {
        uint32_t total = total_at(pool, head) + count;
        HWT_MEET(BATCH_PUSH);
        set_batch(first, total < HWT_FREE_MAX ? total : HWT_FREE_MAX, count, (uint32_t)head);
    } while (!atomic_compare_exchange_weak_explicit(&pool->batches, &head, with_top(head, id),
                                                    memory_order_acq_rel, memory_order_acquire));
}

/* The first of a batch of *ret_count, NULL: there is none. */
static struct hwt_entry *pop_batch(struct hwt_pool *pool, uint32_t *ret_count)
{
    /* Orders as in pop_empty(). */
    uint64_t head = atomic_load_explicit(&pool->batches, memory_order_acquire);
    struct hwt_entry *first;
    uint64_t second;
    do {
        if ((uint32_t)head == HWT_ID_NONE)
            return NULL;
        first = hwt_pool_entry(pool, (uint32_t)head);
        second = atomic_load_explicit(&first->word.second, memory_order_relaxed);
        HWT_MEET(BATCH_POP);
    } while (!atomic_compare_exchange_weak_explicit(&pool->batches, &head,
                                                    popped(head, (uint32_t)second),
                                                    memory_order_acq_rel, memory_order_acquire));
    *ret_count = hwt_batch_count(second);
    return first;
}

/* ---- new slabs ---- */

/* Makes the directory's first slots, up to `end`, memory. False: there is none. */
static bool ensure_slots(struct hwt_pool *pool, uint32_t end)
{
    uint32_t open = atomic_load_explicit(&pool->slots, memory_order_relaxed);
    while (open < end) {
        uint32_t more = open < SLOTS_FIRST ? SLOTS_FIRST : 2 * open;
        more = more < end ? end : more > pool->numbers ? pool->numbers : more;
        if (mprotect(pool->directory.slots, more * sizeof(struct hwt_slot),
                     PROT_READ | PROT_WRITE) != 0)
            return false;
        HWT_MEET(DIRECTORY);
        /* Relaxed: a number is all that is wanted. */
        if (atomic_compare_exchange_weak_explicit(&pool->slots, &open, more, memory_order_relaxed,
                                                  memory_order_relaxed))
            atomic_fetch_add_explicit(&pool->bytes, (more - open) * sizeof(struct hwt_slot),
                                      memory_order_relaxed);
    }
    return true;
}

/* Numbers for n slabs, and their slots; HWT_ID_NONE: no memory, or no more. */
static uint32_t claim_numbers(struct hwt_pool *pool, uint32_t n)
{
    uint32_t number = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    do {
        if (number > pool->numbers - n || !ensure_slots(pool, number + n))
            return HWT_ID_NONE;
        HWT_MEET(NUMBERS);
        /* Relaxed: a number is all that is wanted. */
    } while (!atomic_compare_exchange_weak_explicit(&pool->slabs, &number, number + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return number;
}

/* Maps slabs and enters them as empty. False: no memory. */
static bool map_region(struct hwt_pool *pool)
{
    uint32_t held = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    uint32_t n = held / 8 < 1 ? 1 : held / 8 > REGION_SLABS_MAX ? REGION_SLABS_MAX : held / 8;
    size_t size = n * HWT_SLAB_SIZE;
    char *memory = map_aligned(size);
    if (!memory)
        return false;
    uint32_t number = claim_numbers(pool, n);
    if (number == HWT_ID_NONE) {
        munmap(memory, size);
        return false;
    }
    if (n == REGION_SLABS_MAX)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* only ever faster */
    if (__lsan_register_root_region)
        __lsan_register_root_region(memory, size);
    slot_of(pool, number)->region = n;
    for (uint32_t i = 0; i < n; i++) {
        /* Release: for who walks all slabs. */
        atomic_store_explicit(&slot_of(pool, number + i)->base, memory + i * HWT_SLAB_SIZE,
                              memory_order_release);
        push_empty(pool, number + i);
    }
    return true;
}

/* Makes batches of an empty slab. */
static void carve(struct hwt_pool *pool, uint32_t number)
{
    struct hwt_slot *slot = slot_of(pool, number);
    uintptr_t base = (uintptr_t)atomic_load_explicit(&slot->base, memory_order_relaxed);
    struct hwt_slab *slab = (struct hwt_slab *)(base + hwt_slab_head(base));
    /* Relaxed: published with the first of its entries. */
    atomic_store_explicit(&slab->timer, pool->timer, memory_order_relaxed);
    atomic_store_explicit(&slab->to_id,
                          (number << HWT_ID_BITS) - (uint32_t)(base / sizeof(struct hwt_entry)),
                          memory_order_relaxed);
    atomic_store_explicit(&slab->floor, (uint32_t)slot->floor, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->bytes, HWT_SLAB_SIZE, memory_order_relaxed);
    struct hwt_entry *first = NULL;
    uint32_t count = 0, most = (HWT_SLAB_ENTRIES - 1) % HWT_CACHE_BATCH + 1; /* one is short */
    for (uint32_t seat = HWT_SLAB_SEATS; seat-- > 0;) {
        struct hwt_entry *entry = hwt_slab_entry(base, seat);
        if (!hwt_slab_has(base, seat))
            continue;
        if (slot->floor > 0)
            atomic_store_explicit(&entry->word.first, slot->floor << HWT_GENERATION_SHIFT,
                                  memory_order_relaxed);
        hwt_entry_link(entry, first);
        first = entry;
        if (++count < most)
            continue;
        push_batch(pool, first, count);
        first = NULL;
        count = 0;
        most = HWT_CACHE_BATCH;
    }
}

/* ---- caches ---- */

bool hwt_pool_fill(struct hwt_pool *pool, struct hwt_cache *cache)
{
    cache->first = cache->spare;
    cache->spare = NULL;
    cache->count = HWT_CACHE_BATCH;
    while (!cache->first && (cache->first = pop_batch(pool, &cache->count)) == NULL) {
        uint32_t number = pop_empty(pool);
        if (number != HWT_ID_NONE) {
            carve(pool, number);
        } else if (!map_region(pool)) {
            cache->count = 0;
            return false;
        }
    }
    return true;
}

void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache)
{
    /* The older ones, which have left the processor's own cache. */
    if (cache->spare)
        push_batch(pool, cache->spare, HWT_CACHE_BATCH);
    cache->spare = cache->first;
    cache->first = NULL;
    cache->count = 0;
}

void hwt_pool_flush(struct hwt_pool *pool, struct hwt_cache *cache)
{
    if (cache->spare)
        push_batch(pool, cache->spare, HWT_CACHE_BATCH);
    if (cache->first)
        push_batch(pool, cache->first, cache->count);
    *cache = (struct hwt_cache){ 0 };
}

/* For who walks by numbers, and may be ahead of the thread that enters the slab: 0, not yet. */
static uintptr_t base_of(const struct hwt_pool *pool, uint32_t number)
{
    /* Acquire: what was mapped before it was entered. */
    return (uintptr_t)atomic_load_explicit(&slot_of(pool, number)->base, memory_order_acquire);
}

struct hwt_entry *hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number, uint32_t *seat)
{
    uint32_t slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    for (; *number < slabs; *seat = 0, ++*number) {
        uintptr_t base = base_of(pool, *number);
        for (; base && *seat < HWT_SLAB_SEATS; ++*seat) {
            struct hwt_entry *entry = hwt_slab_entry(base, *seat);
            if (!hwt_slab_has(base, *seat) || hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_NEW)
                continue;
            ++*seat;
            return entry;
        }
    }
    return NULL;
}

/* ---- after a peak ---- */

/* Of a slab: its entries that are in the pool. */
struct hwt_census {
    struct hwt_entry *first; /* of a chain */
    uint32_t count;
    uint64_t oldest, newest; /* generations */
    bool may_go;
};

static bool is_in_use(uintptr_t base)
{
    const struct hwt_slab *slab = (const struct hwt_slab *)(base + hwt_slab_head(base));
    /* Relaxed: this one only spares work. The head of an empty slab is zero. */
    return atomic_load_explicit(&slab->timer, memory_order_relaxed) != NULL;
}

static bool all_have_ended(uintptr_t base)
{
    for (uint32_t seat = 0; seat < HWT_SLAB_SEATS; seat++) {
        if (!hwt_slab_has(base, seat))
            continue;
        unsigned phase = hwt_phase(hwt_entry_state(hwt_slab_entry(base, seat)));
        if (phase != HWT_PHASE_EXPIRED && phase != HWT_PHASE_CANCELLED && phase != HWT_PHASE_NEW)
            return false;
    }
    return true;
}

/* Which slabs may go, and how many. */
static uint32_t find_slabs(const struct hwt_pool *pool, struct hwt_trim *trim)
{
    uint32_t n = 0;
    for (uint32_t number = 0; number < trim->slabs; number++) {
        uintptr_t base = base_of(pool, number);
        bool in_use = base && is_in_use(base);
        trim->census[number].may_go = in_use && all_have_ended(base);
        trim->held += in_use ? (uint32_t)HWT_SLAB_ENTRIES : 0;
        n += trim->census[number].may_go;
    }
    return n;
}

/* With so many free ones left, of so many: the next trim is for twice as many, or when half of the
 * others are free, too, if that is sooner. */
static void wait_for_more(struct hwt_pool *pool, uint64_t left, uint64_t held)
{
    uint64_t twice = 2 * left + HWT_TRIM_MIN;
    uint64_t middle = left + (held > left ? (held - left + 1) / 2 : 1);
    uint64_t sooner = twice < middle ? twice : middle;
    pool->trim_at = sooner > HWT_TRIM_MIN ? sooner : HWT_TRIM_MIN;
}

static void give_chain(struct hwt_pool *pool, struct hwt_trim *trim, struct hwt_cache *kept,
                       struct hwt_entry *entry)
{
    for (struct hwt_entry *next; entry; entry = next) {
        next = hwt_entry_linked(entry);
        hwt_pool_give(pool, kept, entry);
        trim->kept++;
    }
}

/* An entry that was taken out of the pool: to the chain of its slab, if that may go, or to the
 * others. */
static void sort_out(struct hwt_trim *trim, struct hwt_entry *entry, struct hwt_entry **others)
{
    uint32_t number = hwt_entry_id(entry) >> HWT_ID_BITS;
    struct hwt_census *its = number < trim->slabs ? &trim->census[number] : NULL;
    if (!its || !its->may_go) {
        hwt_entry_link(entry, *others);
        *others = entry;
        return;
    }
    uint64_t generation = hwt_generation(hwt_entry_state(entry));
    its->oldest = its->count == 0 || generation < its->oldest ? generation : its->oldest;
    its->newest = generation > its->newest ? generation : its->newest;
    its->count++;
    hwt_entry_link(entry, its->first);
    its->first = entry;
}

/* Takes all batches out of the pool, unless others give back faster than that. They are walked some
 * at a time, a step of each in turn, for the next entry of a chain has to come from memory. */
static void gather(struct hwt_pool *pool, struct hwt_trim *trim, struct hwt_entry **others)
{
    uint64_t most = (uint64_t)trim->slabs * HWT_SLAB_ENTRIES;
    struct hwt_entry *chains[CHAINS];
    uint32_t n = 0, length;
    for (;;) {
        while (n < CHAINS && most > 0 && (chains[n] = pop_batch(pool, &length)) != NULL) {
            most -= length < most ? length : most;
            n++;
        }
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n;) {
            struct hwt_entry *next = hwt_entry_linked(chains[i]);
            __builtin_prefetch(next, 1);
            sort_out(trim, chains[i], others);
            if (next)
                chains[i++] = next;
            else
                chains[i] = chains[--n];
        }
    }
}

/* Generations are counted from the floor of their slab: a record that is unread yet must not
 * come out newer than those to come, so a slab with an entry that was used much less than others
 * stays. */
static bool is_whole(const struct hwt_census *its)
{
    return its->count == HWT_SLAB_ENTRIES && its->newest - its->oldest <= SPREAD_MAX;
}

bool hwt_pool_trim_begin(struct hwt_pool *pool, struct hwt_trim *trim)
{
    struct hwt_cache kept = { 0 };
    struct hwt_entry *others = NULL;
    *trim = (struct hwt_trim){ .slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed) };
    trim->census = calloc(trim->slabs, sizeof(*trim->census));
    if (!trim->census)
        return false;
    HWT_MEET(TRIM);
    /* To take all batches is dear: not for a few slabs. */
    uint64_t in_pool = hwt_pool_free(pool);
    if ((uint64_t)find_slabs(pool, trim) * HWT_SLAB_ENTRIES < in_pool / 4) {
        wait_for_more(pool, in_pool, trim->held);
        free(trim->census);
        return false;
    }
    gather(pool, trim, &others);
    give_chain(pool, trim, &kept, others);
    for (uint32_t number = 0; number < trim->slabs; number++) {
        struct hwt_census *its = &trim->census[number];
        its->may_go = is_whole(its);
        if (its->may_go) {
            /* For the next ones; the worker's, as this is. */
            slot_of(pool, number)->floor = its->newest;
            trim->held -= (uint32_t)HWT_SLAB_ENTRIES;
        } else {
            give_chain(pool, trim, &kept, its->first);
        }
    }
    hwt_pool_flush(pool, &kept);
    return true;
}

void hwt_pool_trim_end(struct hwt_pool *pool, struct hwt_trim *trim)
{
    for (uint32_t number = 0; number < trim->slabs; number++) {
        if (!trim->census[number].may_go)
            continue;
        struct hwt_slot *slot = slot_of(pool, number);
        char *base = atomic_load_explicit(&slot->base, memory_order_relaxed);
        HWT_MEET(EMPTY);
        if (madvise(base, HWT_SLAB_SIZE, MADV_DONTNEED) != 0)
            memset(base, 0, HWT_SLAB_SIZE);
        atomic_fetch_sub_explicit(&pool->bytes, HWT_SLAB_SIZE, memory_order_relaxed);
        push_empty(pool, number);
    }
    free(trim->census);
    wait_for_more(pool, trim->kept, trim->held);
}
