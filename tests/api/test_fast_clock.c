/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Delays that count by the processor's counter: none counts from an instant before the call, and the
 * statistics say when the counter is used. HWT_TEST_ARMS says how many timeouts a thread arms
 * beside the clock.
 */

#include <hwt/hwt.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "children.h"

#define LATE HWT_US(8)
#define THREADS 3

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { .run = nothing };

static hwt_timer *make_timer(hwt_options options)
{
    hwt_timer *timer;
    ck_assert_int_eq(hwt_timer_create(&options, &timer), 0);
    return timer;
}

static bool is_fast(const hwt_timer *timer)
{
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_stats(timer, &stats), 0);
    ck_assert_uint_le(stats.fast_clock, 1);
    return stats.fast_clock;
}

/* Arms and cancels for a while, in which the counter is measured, if it can be and this thread has a
 * processor. A measurement wants two calls that nothing interrupts, 10 ms or some more apart. */
static void use(hwt_timer *timer)
{
    for (uint64_t end = hwt_timer_now(timer) + HWT_MS(50); hwt_timer_now(timer) < end;) {
        hwt_timeout timeout;
        ck_assert_int_eq(hwt_timer_new_timeout(timer, &task, NULL, HWT_SEC(60), &timeout), 0);
        ck_assert(hwt_timeout_cancel(timeout));
    }
}

static uint64_t own_clock(void *data)
{
    (void)data;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * HWT_SEC(1) + (uint64_t)now.tv_nsec;
}

/* Where a virtual machine does not let its guest read the counter, or under Valgrind, a reading
 * takes too long. */
static bool counter_is_quick(void)
{
#ifdef __x86_64__
    for (int i = 0; i < 1000; i++) {
        uint64_t before = __builtin_ia32_rdtsc();
        own_clock(NULL);
        if (__builtin_ia32_rdtsc() - before < 200)
            return true;
    }
#endif
    return false;
}

static bool kernel_counts(void)
{
    char name[16] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (file) {
        (void)!fgets(name, sizeof(name), file);
        fclose(file);
    }
#ifdef __x86_64__
    return strcmp(name, "tsc\n") == 0;
#else
    return false;
#endif
}

START_TEST(the_statistics_say_whether_the_counter_is_used)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = make_timer(options);
    use(timer);
    ck_assert(kernel_counts() || !is_fast(timer));
    while (kernel_counts() && counter_is_quick() && !is_fast(timer))
        use(timer); /* however seldom this thread has a processor */
    hwt_options exact = options, fine = options, boot = options, own = options;
    exact.flags = HWT_EXACT_CLOCK;
    fine.tick_duration = HWT_US(511);
    boot.clock_id = CLOCK_BOOTTIME;
    boot.flags = HWT_NO_WORKER;
    own.flags = HWT_NO_WORKER;
    own.clock = own_clock;
    const hwt_options plain[] = { exact, fine, boot, own };
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        hwt_timer *other = make_timer(plain[i]);
        use(other);
        ck_assert(!is_fast(other));
        hwt_timer_destroy(other);
    }
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- beside the clock ---- */

struct beside {
    hwt_timer *timer;
    uint64_t seed, arms;
};

static uint64_t deadline_of(hwt_timeout timeout)
{
    uint64_t deadline = 0;
    must(hwt_timeout_get(timeout, &deadline, NULL, NULL) == 0);
    return deadline;
}

/* Now and then on another processor, and after a pause. */
static void change_pace(uint64_t *seed)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof(all), &all) == 0) {
        int cpu = (int)(test_random(seed) % (unsigned)CPU_COUNT(&all)), seen = -1;
        while (cpu >= 0) {
            seen++;
            cpu -= CPU_ISSET(seen, &all) != 0;
        }
        CPU_ZERO(&one);
        CPU_SET(seen, &one);
        sched_setaffinity(0, sizeof(one), &one);
        sched_setaffinity(0, sizeof(all), &all);
    }
    struct timespec pause = { 0, (long)(test_random(seed) % 200000) };
    nanosleep(&pause, NULL);
}

static void *arm_beside_the_clock(void *arg)
{
    struct beside *beside = arg;
    uint64_t last = 0;
    for (uint64_t i = 0; i < beside->arms; i++) {
        hwt_timeout timeout;
        if (i % 4096 == 0)
            change_pace(&beside->seed);
        uint64_t before = own_clock(NULL);
        must(hwt_timer_new_timeout(beside->timer, &task, NULL, HWT_SEC(60), &timeout) == 0);
        uint64_t after = own_clock(NULL);
        uint64_t from = deadline_of(timeout) - HWT_SEC(60);
        must(from >= before && from >= last && from <= after + LATE);
        last = from;
        if (i % 3 == 0) {
            before = own_clock(NULL);
            must(hwt_timeout_reschedule(timeout, HWT_SEC(90)));
            after = own_clock(NULL);
            from = deadline_of(timeout) - HWT_SEC(90);
            must(from >= before && from >= last && from <= after + LATE);
            must(hwt_timeout_remaining(timeout) <= HWT_SEC(90));
            last = from;
        }
        must(hwt_timeout_cancel(timeout));
    }
    return NULL;
}

START_TEST(no_delay_counts_from_before_the_call)
{
    const char *arms = getenv("HWT_TEST_ARMS");
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = make_timer(options);
    struct beside beside[THREADS];
    pthread_t threads[THREADS];
    use(timer);
    for (int i = 0; i < THREADS; i++) {
        beside[i] = (struct beside){ timer, test_seed() + (uint64_t)i,
                                     arms ? strtoull(arms, NULL, 10) : 500000 };
        threads[i] = spawn(arm_beside_the_clock, &beside[i]);
    }
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- a child whose clock is another ---- */

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static bool set_back_clock_of_children(void)
{
    if (unshare(CLONE_NEWTIME) != 0)
        return false;
    FILE *file = fopen("/proc/self/timens_offsets", "w");
    if (!file)
        return false;
    bool written = fprintf(file, "monotonic -5 0\n") > 0;
    return fclose(file) == 0 && written;
}

START_TEST(a_child_in_another_time_namespace_takes_its_own_time)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *used = make_timer(options), *timer = make_timer(options);
    use(used);
    if (set_back_clock_of_children()) {
        hwt_timeout timeout;
        ck_assert_int_eq(hwt_timer_new_timeout(used, &task, NULL, HWT_SEC(60), &timeout), 0);
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            if (hwt_timer_new_timeout(timer, &task, NULL, HWT_SEC(60), &timeout) != 0)
                _exit(1);
            uint64_t from = deadline_of(timeout) - HWT_SEC(60);
            _exit(from <= own_clock(NULL) + LATE ? 0 : 2);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    }
    hwt_timer_destroy(timer);
    hwt_timer_destroy(used);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: fast clock");
    TCase *tcase = tcase_create("clock");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, the_statistics_say_whether_the_counter_is_used);
    tcase_add_test(tcase, no_delay_counts_from_before_the_call);
    /* Neither starts a thread in the child of a process that had several. */
    if (!WITH_THREAD_SANITIZER && !is_emulated())
        tcase_add_test(tcase, a_child_in_another_time_namespace_takes_its_own_time);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
