/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Callers never wait for another thread. In the steady state neither a producer nor the worker asks
 * for memory, gives any back, or takes a lock: what they ask of libc is counted, by the linker's
 * --wrap. And where another thread stands within malloc() or free() for as long as it likes, so that
 * whoever comes there waits for it, timeouts run as if it were not there: those of threads that make
 * their first call, too.
 */

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "api_fixture.h"

/* ---- what is asked of libc ---- */

static atomic_bool counts, held;
static shared_count memory_calls, mapping_calls, locks;

static void note(shared_count *count)
{
    *count += counts;
}

/* Another thread stands within the allocator. */
static void pass_allocator(void)
{
    note(&memory_calls);
    while (held)
        (void)poll(NULL, 0, 1);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

void *__wrap_malloc(size_t size)
{
    pass_allocator();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    pass_allocator();
    return __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    pass_allocator();
    return __real_aligned_alloc(alignment, size);
}

void __wrap_free(void *memory)
{
    pass_allocator();
    __real_free(memory);
}

/* clang-format off */
#define WRAP_MAP(name, offset_type)                                                                \
    void *__real_##name(void *, size_t, int, int, int, offset_type);                               \
    void *__wrap_##name(void *, size_t, int, int, int, offset_type);                               \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int fd,             \
                        offset_type offset)                                                        \
    {                                                                                              \
        note(&mapping_calls);                                                                      \
        return __real_##name(address, size, protection, flags, fd, offset);                        \
    }
/* clang-format on */

#ifdef __GLIBC__
WRAP_MAP(mmap64, off_t)
WRAP_MAP(mmap, long) /* the compiler's own libraries call it */
#else
WRAP_MAP(mmap, off_t)
#endif

int __wrap_munmap(void *address, size_t size)
{
    note(&mapping_calls);
    return __real_munmap(address, size);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    note(&locks);
    return __real_pthread_mutex_lock(lock);
}

/* ---- producers ---- */

enum { PRODUCERS = 4, ITS = 3000, TURNS = 40, QUIET = 2 * TURNS };

static hwt_timer *timer;
static shared_count ran, cancelled, ready;
static _Atomic int goal; /* the turn to which producers may go */

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    ran++;
}

static void be_told(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    cancelled++;
}

static const hwt_task plain = { run, NULL }, told = { run, be_told };

/* Arms, moves both ways, and cancels; some run, some in other rounds of the wheel. */
static void take_turn(hwt_timeout *its, uint64_t *seed, int n)
{
    for (int i = 0; i < n; i++) {
        const uint64_t chance = test_random(seed);
        hwt_timeout *one = &its[chance % ITS];
        if (chance >> 32 & 1)
            (void)hwt_timeout_cancel(*one);
        else if (chance >> 33 & 1)
            (void)hwt_timeout_reschedule(*one, HWT_US(chance >> 40 & 0xffff));
        if (hwt_timeout_state(*one) != HWT_PENDING)
            *one = arm(timer, chance >> 34 & 1 ? &told : &plain, NULL, HWT_US(chance >> 40 & 0xffff));
    }
}

/* It waits at each goal, so that the test knows when all have come there. */
static void *produce(void *data)
{
    uint64_t seed = test_seed() + (uintptr_t)data;
    hwt_timeout *its = __real_calloc(ITS, sizeof(*its));
    must(its);
    for (int turn = 0; turn < QUIET; turn++) {
        if (turn % TURNS == 0) {
            ready++;
            while (goal < turn)
                (void)poll(NULL, 0, 1);
        }
        /* The first turns have more than those that are watched. */
        take_turn(its, &seed, turn < TURNS ? 4 * ITS : ITS);
    }
    ready++;
    while (goal < QUIET)
        (void)poll(NULL, 0, 1);
    for (int i = 0; i < ITS; i++)
        (void)hwt_timeout_cancel(its[i]);
    __real_free(its);
    return NULL;
}

static void open_timer(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = 16;
    timer = create(&options);
    ran = cancelled = ready = 0;
    memory_calls = mapping_calls = locks = 0;
    goal = 0;
}

/* While the worker has no processor, more records are unread than ever before: then more is mapped,
 * a MiB at a time. With a mapping for each chunk it would be thousands. */
enum { MAPPINGS = 200 };

START_TEST(in_the_steady_state_nothing_is_asked_for)
{
    pthread_t threads[PRODUCERS];
    open_timer();
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        threads[i] = spawn(produce, (void *)i);
    must(await_within(HWT_SEC(100), &ready, 2 * PRODUCERS));
    uint64_t ran_before = ran, cancelled_before = cancelled;
    counts = true;
    goal = TURNS;
    must(await_within(HWT_SEC(100), &ready, 3 * PRODUCERS));
    must(await_within(HWT_SEC(100), &ran, ran_before + 1));
    must(await_within(HWT_SEC(100), &cancelled, cancelled_before + 1));
    counts = false;
    ck_assert_uint_eq(memory_calls, 0);
    ck_assert_uint_eq(locks, 0);
    ck_assert_uint_le(mapping_calls, MAPPINGS);
    goal = QUIET;
    for (int i = 0; i < PRODUCERS; i++)
        join(threads[i]);
    hwt_timer_destroy(timer);
}
END_TEST

/* The same without a worker: the loop takes its own lock alone. */
START_TEST(in_the_steady_state_a_loop_asks_for_no_memory)
{
    static hwt_timeout its[ITS];
    memset(its, 0, sizeof(its)); /* what an earlier round has left is of a timer that is gone */
    uint64_t seed = test_seed();
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = 16;
    options.flags = HWT_NO_WORKER | (_i ? HWT_ONE_THREAD : 0);
    timer = create(&options);
    memory_calls = mapping_calls = locks = 0;
    for (int turn = 0; turn < QUIET; turn++) {
        counts = turn >= TURNS;
        take_turn(its, &seed, turn < TURNS ? 4 * ITS : ITS);
        (void)hwt_timer_dispatch(timer);
    }
    counts = false;
    ck_assert_uint_eq(memory_calls, 0);
    ck_assert_uint_le(mapping_calls, MAPPINGS);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- a thread stands within the allocator ---- */

enum { CROWD = 8, EACH = 20000 };

static void *arm_first(void *data)
{
    while (!held)
        (void)poll(NULL, 0, 1);
    for (int i = 0; i < EACH; i++) {
        (void)arm(timer, &plain, NULL, HWT_US(i));
        must(hwt_timeout_cancel(arm(timer, i % 2 ? &told : &plain, NULL, HWT_SEC(60))));
    }
    return data;
}

START_TEST(who_stands_within_the_allocator_holds_nobody_up)
{
    pthread_t threads[CROWD];
    open_timer();
    must(hwt_timer_start(timer) == 0);
    for (uintptr_t i = 0; i < CROWD; i++)
        threads[i] = spawn(arm_first, NULL);
    held = true;
    bool all = await_within(HWT_SEC(60), &ran, CROWD * EACH) &&
               await_within(HWT_SEC(60), &cancelled, CROWD * EACH / 2);
    held = false;
    ck_assert(all);
    for (int i = 0; i < CROWD; i++)
        join(threads[i]);
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: no waiting");
    TCase *steady = add_case(suite, "steady state");
    tcase_set_timeout(steady, 300);
    tcase_add_test(steady, in_the_steady_state_nothing_is_asked_for);
    tcase_add_loop_test(steady, in_the_steady_state_a_loop_asks_for_no_memory, 0, 2);
    TCase *stands = add_case(suite, "stands");
    tcase_set_timeout(stands, 300);
    tcase_add_test(stands, who_stands_within_the_allocator_holds_nobody_up);
    return run_suite(suite);
}
