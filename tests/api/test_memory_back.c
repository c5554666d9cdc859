/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * After a peak memory goes back to the system, whatever ended the timeouts, in whatever order; and
 * what `memory` of hwt_stats says of that agrees with what the system says.
 *
 * Here time is set: nothing depends on how fast the machine is.
 */

#include <stdlib.h> /* tells of glibc */
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>

#include "children.h"

#define MB(n) ((uint64_t)(n) << 20)

/* What may stay of a peak, and how far `memory` and the system may be apart: huge pages that are
 * used in part, and what the allocator keeps. */
#define STAYS MB(4)
#define APART MB(6)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* ThreadSanitizer looks for accesses without an order: each thread makes all of them with a quarter as well. */
enum { PEAK = WITH_THREAD_SANITIZER ? 1 << 17 : 1 << 19 };
enum { THREADS = 64, EACH = PEAK / THREADS, HUGE_PAGE = 2 << 20 };

#define KEPT (THREADS * (uint64_t)65536) /* by threads that keep an entry of a slab each */

static manual m;
static uint64_t now;
static hwt_timeout peak[PEAK];
static uint64_t resident_before;

static void never_run(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static void be_told(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static const hwt_task quiet = { never_run, NULL }, told = { never_run, be_told };

/* ---- what the system says ---- */

static bool memory_is_watched(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return WITH_SANITIZER || (preload && strstr(preload, "vgpreload"));
}

/* Without what the allocator keeps of what was freed. */
static uint64_t resident(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    unsigned long pages = 0, in_memory = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    must(statm && fscanf(statm, "%lu %lu", &pages, &in_memory) == 2);
    fclose(statm);
    return (uint64_t)in_memory * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- a peak, and the time after it ---- */

static void shuffle(uint64_t seed)
{
    for (uint32_t i = PEAK; i > 1; i--) {
        uint32_t other = (uint32_t)(test_random(&seed) % i);
        hwt_timeout one = peak[other];
        peak[other] = peak[i - 1];
        peak[i - 1] = one;
    }
}

static void pass_ms(uint64_t ms)
{
    for (uint64_t end = now + HWT_MS(ms); now < end; now += HWT_MS(10))
        manual_go(&m, now);
}

static void open_peak(void)
{
    uint64_t seed = test_seed();
    memset(peak, 1, sizeof(peak)); /* it is there before what is measured */
    now = 0;
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    pass_ms(10);
    resident_before = resident();
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(m.timer, &quiet, NULL, HWT_SEC(3600) + test_random(&seed) % HWT_SEC(600));
    pass_ms(10);
    shuffle(seed);
}

static void close_peak(void)
{
    for (int i = 0; i < PEAK; i++)
        must(!hwt_timeout_cancel(peak[i]) && hwt_timeout_state(peak[i]) != HWT_PENDING);
    manual_close(&m);
}

static void expect_agreement(void)
{
    uint64_t memory = stats_of(m.timer).memory, now_resident = resident();
    uint64_t grown = now_resident > resident_before ? now_resident - resident_before : 0;
    printf("%" PRIu64 " kB, by the system %" PRIu64 " kB\n", memory >> 10, grown >> 10);
    if (memory_is_watched() || is_emulated()) /* an emulator keeps what it translates */
        return;
    if (grown > memory + APART || memory > grown + APART)
        ck_abort_msg("%" PRIu64 " kB, by the system %" PRIu64 " kB", memory >> 10, grown >> 10);
}

static void expect_little(void)
{
    uint64_t memory = stats_of(m.timer).memory;
    expect_agreement();
    if (memory > STAYS)
        ck_abort_msg("%" PRIu64 " kB stay", memory >> 10);
}

/* Most is cancelled, a few of each slab are not: nothing can go yet. When they end, all goes. */
START_TEST(a_peak_of_which_a_few_stay_goes_back_when_they_end)
{
    enum { FEW = PEAK / 64 };
    open_peak();
    expect_agreement();
    for (int i = FEW; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]));
    pass_ms(20000);
    expect_agreement();
    for (int i = 0; i < FEW; i++)
        must(hwt_timeout_cancel(peak[i]));
    pass_ms(20000);
    expect_little();
    close_peak();
}
END_TEST

/* In two halves, the second while the first is given back. */
START_TEST(what_ends_while_memory_goes_back_goes_too)
{
    open_peak();
    for (int i = 0; i < PEAK / 2; i++)
        must(hwt_timeout_cancel(peak[i]));
    for (int i = PEAK / 2; i < PEAK; i++) {
        must(hwt_timeout_cancel(peak[i]));
        if (i % (PEAK / 256) == 0)
            pass_ms(10);
    }
    pass_ms(20000);
    expect_little();
    close_peak();
}
END_TEST

/* ---- threads ---- */

struct canceller {
    pthread_t thread;
    hwt_timeout *its;
};

static struct canceller cancellers[THREADS];
static shared_count cancelled, calls_again, called_again;

static void *cancel_its(void *data)
{
    struct canceller *canceller = data;
    for (int i = 0; i < EACH; i++)
        must(hwt_timeout_cancel(canceller->its[i]));
    return NULL;
}

/* All of them are there at once. */
static void *cancel_and_end(void *data)
{
    cancel_its(data);
    cancelled++;
    must(await_within(HWT_SEC(60), &cancelled, THREADS));
    return NULL;
}

/* Then it is idle; then it makes one more call. */
static void *cancel_and_stay(void *data)
{
    cancel_its(data);
    cancelled++;
    while (!calls_again)
        (void)poll(NULL, 0, 1);
    must(hwt_timeout_cancel(arm(m.timer, &quiet, NULL, HWT_SEC(60))));
    called_again++;
    while (calls_again < 2)
        (void)poll(NULL, 0, 1);
    return NULL;
}

/* Then it is idle until it ends, and makes no call any more. */
static void *cancel_and_wait(void *data)
{
    cancel_its(data);
    cancelled++;
    while (calls_again == 0)
        (void)poll(NULL, 0, 1);
    return NULL;
}

static void spawn_cancellers(void *(*run)(void *))
{
    cancelled = calls_again = called_again = 0;
    for (int i = 0; i < THREADS; i++) {
        cancellers[i].its = peak + (ptrdiff_t)i * EACH;
        cancellers[i].thread = spawn(run, &cancellers[i]);
    }
}

static void join_cancellers(void)
{
    for (int i = 0; i < THREADS; i++)
        join(cancellers[i].thread);
}

/* Each loop: they end before memory goes back, or after that was tried. */
START_TEST(threads_that_have_ended_keep_nothing)
{
    open_peak();
    spawn_cancellers(_i ? cancel_and_stay : cancel_and_end);
    if (_i) {
        ck_assert(await_within(HWT_SEC(60), &cancelled, THREADS));
        pass_ms(20000);
        expect_agreement();
        calls_again = 2;
    }
    join_cancellers();
    pass_ms(20000);
    expect_little();
    close_peak();
}
END_TEST

START_TEST(idle_threads_keep_nothing_after_their_next_call)
{
    open_peak();
    spawn_cancellers(cancel_and_stay);
    ck_assert(await_within(HWT_SEC(60), &cancelled, THREADS));
    pass_ms(20000);
    calls_again = 1;
    ck_assert(await_count(&called_again, THREADS));
    pass_ms(20000);
    expect_agreement();
    /* That call itself may have taken what it keeps from one slab each. */
    if (stats_of(m.timer).memory > STAYS + THREADS * 2 * (64 << 10))
        ck_abort_msg("%" PRIu64 " kB stay", stats_of(m.timer).memory >> 10);
    calls_again = 2;
    join_cancellers();
    pass_ms(20000);
    expect_little();
    close_peak();
}
END_TEST

/* In the end the worker has nothing to do, and does not wake for longer than a second. */
static void expect_sleep(uint64_t limit)
{
    uint64_t wakeups, before;
    do {
        before = stats_of(m.timer).wakeups;
        (void)poll(NULL, 0, 1500);
        wakeups = stats_of(m.timer).wakeups;
    } while (wakeups != before && monotonic() < limit);
    ck_assert_uint_eq(wakeups, before);
}

/* A worker that sleeps is woken when a thread that it has asked gives back. */
START_TEST(a_sleeping_worker_is_woken_for_what_it_has_asked_for)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    memset(peak, 0, sizeof(peak));
    m.timer = create(&options);
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(m.timer, &quiet, NULL, HWT_SEC(3600));
    spawn_cancellers(cancel_and_wait);
    ck_assert(await_within(HWT_SEC(60), &cancelled, THREADS));
    (void)arm(m.timer, &quiet, NULL, 0); /* it is awake once more */
    uint64_t limit = monotonic() + HWT_SEC(60);
    while (stats_of(m.timer).memory > 2 * KEPT && monotonic() < limit)
        (void)poll(NULL, 0, 1);
    (void)poll(NULL, 0, 100);
    calls_again = 2;
    join_cancellers();
    /* Each thread has kept entries of a slab of its own: that is less than all of these. */
    while (stats_of(m.timer).memory > KEPT / 2 && monotonic() < limit)
        (void)poll(NULL, 0, 1);
    ck_assert_uint_le(stats_of(m.timer).memory, KEPT / 2);
    expect_sleep(limit);
    hwt_timer_destroy(m.timer);
}
END_TEST

/* Nor does it sleep through a tick, an hour here, while there is more to give back at once. */
START_TEST(memory_goes_back_at_once_however_long_a_tick_is)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_SEC(3600);
    m.timer = create(&options);
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(m.timer, &quiet, NULL, HWT_SEC(360000));
    uint64_t limit = monotonic() + HWT_SEC(60);
    expect_sleep(limit); /* what it tries while others cancel it tries again in the next tick */
    for (int i = 0; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]));
    must(
        hwt_timeout_cancel(arm(m.timer, &told, NULL, HWT_SEC(360000)))); /* it is awake once more */
    while (stats_of(m.timer).memory > STAYS && monotonic() < limit)
        (void)poll(NULL, 0, 1);
    ck_assert_uint_le(stats_of(m.timer).memory, STAYS);
    hwt_timer_destroy(m.timer);
}
END_TEST

/* At its very end a thread has no number any more, and shares a lane with its like: nobody is left to
 * ask for what that keeps. The library's own key was made before this one. */
static pthread_key_t key;
static hwt_timeout kept[THREADS];

static void cancel_at_the_very_end(void *rounds)
{
    if ((uintptr_t)rounds < 3) {
        must(pthread_setspecific(key, (void *)((uintptr_t)rounds + 1)) == 0);
        return;
    }
    for (int i = 0; i < THREADS; i++)
        must(hwt_timeout_cancel(kept[i]));
}

static void *end_and_cancel(void *data)
{
    must(pthread_setspecific(key, (void *)(uintptr_t)1) == 0);         /* rounds of destructors */
    must(hwt_timeout_cancel(arm(m.timer, &quiet, NULL, HWT_SEC(60)))); /* it has a number */
    return data;
}

START_TEST(what_a_thread_cancels_at_its_very_end_goes_back)
{
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    now = 0;
    must(pthread_key_create(&key, cancel_at_the_very_end) == 0);
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(m.timer, &quiet, NULL, HWT_SEC(3600));
    for (int i = 0; i < THREADS; i++)
        kept[i] = peak[i * EACH];
    join(spawn(end_and_cancel, NULL));
    for (int i = 0; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]) == (i % EACH != 0));
    pass_ms(60000);
    ck_assert_uint_le(stats_of(m.timer).memory, KEPT / 2);
    must(pthread_key_delete(key) == 0);
    manual_close(&m);
}
END_TEST

/* ---- huge pages ---- */

/* As khugepaged does in time, if it may. */
static void collapse_all(void)
{
    uintptr_t last = 0;
    for (int i = 0; i < PEAK; i++) {
        uintptr_t block = (uintptr_t)peak[i].entry & ~(uintptr_t)(HUGE_PAGE - 1);
        if (block != last)
            (void)madvise((void *)block, HUGE_PAGE, MADV_COLLAPSE);
        last = block;
    }
}

/* How many of some of the timeouts are in memory that may have huge pages, as the system says; -1: it
 * knows none. */
static int count_huge(const hwt_timeout *timeouts, int n, int step)
{
    char line[4096];
    unsigned long begin = 0, end = 0, from, to;
    int count = 0;
    void *own = mmap(NULL, HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool known = own != MAP_FAILED && madvise(own, HUGE_PAGE, MADV_HUGEPAGE) == 0 &&
                 !is_emulated(); /* whose smaps has no flags */
    must(munmap(own, HUGE_PAGE) == 0);
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            begin = from, end = to;
        if (strncmp(line, "VmFlags:", 8) != 0 || !strstr(line, " hg"))
            continue;
        for (int i = 0; i < n; i += step)
            count += (uintptr_t)timeouts[i].entry >= begin && (uintptr_t)timeouts[i].entry < end;
    }
    if (maps)
        fclose(maps);
    return maps && known ? count : -1;
}

static int order_of_addresses(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)((const hwt_timeout *)one)->entry;
    uintptr_t b = (uintptr_t)((const hwt_timeout *)other)->entry;
    return a < b ? -1 : a > b;
}

/* One in each megabyte stays: what is beside it does not come back as part of a huge page. The system
 * may make these late, or not at all: so it is asked where it may. */
START_TEST(the_system_does_not_undo_what_was_given_back)
{
    static hwt_timeout stay[PEAK];
    uint64_t n = 0;
    uintptr_t last = 0;
    open_peak();
    qsort(peak, PEAK, sizeof(*peak), order_of_addresses);
    ck_assert_int_ne(count_huge(peak, PEAK, 256), 0);
    for (int i = 0; i < PEAK; i++) {
        uintptr_t megabyte = (uintptr_t)peak[i].entry >> 20;
        if (megabyte != last)
            stay[n++] = peak[i];
        else
            must(hwt_timeout_cancel(peak[i]));
        last = megabyte;
    }
    pass_ms(20000);
    uint64_t memory = stats_of(m.timer).memory;
    ck_assert_uint_le(memory, STAYS + n * (64 << 10));
    ck_assert_int_le(count_huge(stay, (int)n, 1), 0);
    collapse_all();
    expect_agreement();
    while (n > 0)
        must(hwt_timeout_cancel(stay[--n]));
    pass_ms(20000);
    collapse_all();
    expect_little();
    close_peak();
}
END_TEST

START_TEST(what_goes_as_a_whole_may_have_huge_pages_again)
{
    open_peak();
    for (int i = 0; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]));
    pass_ms(20000);
    expect_little();
    ck_assert_int_ne(count_huge(peak, PEAK, 256), 0);
    close_peak();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: memory goes back");
    TCase *shapes = add_case(suite, "shapes");
    tcase_add_test(shapes, a_peak_of_which_a_few_stay_goes_back_when_they_end);
    tcase_add_test(shapes, what_ends_while_memory_goes_back_goes_too);
    TCase *threads = add_case(suite, "threads");
    tcase_add_loop_test(threads, threads_that_have_ended_keep_nothing, 0, 2);
    tcase_add_test(threads, idle_threads_keep_nothing_after_their_next_call);
    tcase_add_test(threads, a_sleeping_worker_is_woken_for_what_it_has_asked_for);
    tcase_add_test(threads, memory_goes_back_at_once_however_long_a_tick_is);
    tcase_add_test(threads, what_a_thread_cancels_at_its_very_end_goes_back);
    if (!WITH_THREAD_SANITIZER) { /* of one thread, and with so little no page is huge */
        TCase *pages = add_case(suite, "huge pages");
        tcase_add_test(pages, the_system_does_not_undo_what_was_given_back);
        tcase_add_test(pages, what_goes_as_a_whole_may_have_huge_pages_again);
    }
    return run_suite(suite);
}
