/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Machines of 1 to 4096 processors, and one that does not say how many it has: more threads than
 * the timer can have expected add, cancel and move, and every timeout has one end.
 */

#include <sys/sysinfo.h>

#include "children.h"

/* ---- what the library is told: with the linker's --wrap, these take the place of libc's in it ---- */

static int processors; /* 0: as the machine has; below 0: that cannot be said */

long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __real_get_nprocs(void);
int __wrap_get_nprocs(void);
int __real_get_nprocs_conf(void);
int __wrap_get_nprocs_conf(void);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

long __wrap_sysconf(int name)
{
    if (processors != 0 && (name == _SC_NPROCESSORS_CONF || name == _SC_NPROCESSORS_ONLN)) {
        errno = processors < 0 ? EINVAL : errno;
        return processors < 0 ? -1 : processors;
    }
    return __real_sysconf(name);
}

int __wrap_get_nprocs(void)
{
    return processors ? processors : __real_get_nprocs();
}

int __wrap_get_nprocs_conf(void)
{
    return processors ? processors : __real_get_nprocs_conf();
}

/* The kernel refuses a set that is smaller than its own. */
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    if (processors == 0)
        return __real_sched_getaffinity(pid, size, set);
    if (processors < 0 || (size_t)processors > 8 * size) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, size);
    for (size_t i = 0; i < (size_t)processors; i++)
        CPU_SET_S(i, size, set);
    return 0;
}

/* ---- more threads than lanes, all at once ---- */

enum { THREADS = 200, EACH = 300 };

typedef struct crowd {
    hwt_timer *timer;
    ends ends[THREADS];
    shared_count next;
    pthread_barrier_t all;
} crowd;

static void *use_timer(void *data)
{
    crowd *c = data;
    ends *e = &c->ends[c->next++];
    pthread_barrier_wait(&c->all);
    for (int i = 0; i < EACH; i++) {
        hwt_timeout timeout;
        child_must(hwt_timer_new_timeout(c->timer, &counting, e, HWT_MS(i % 7), &timeout) == 0);
        if (i % 3 == 0)
            hwt_timeout_cancel(timeout);
        else if (i % 3 == 1)
            hwt_timeout_reschedule(timeout, HWT_MS(i % 2));
    }
    return NULL;
}

static void crowd_uses(hwt_timer *timer)
{
    static crowd c;
    pthread_t threads[THREADS];
    memset(&c, 0, sizeof(c));
    c.timer = timer;
    child_must(pthread_barrier_init(&c.all, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(use_timer, &c);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    pthread_barrier_destroy(&c.all);
    hwt_timer_dispatch(timer);
    child_must(hwt_timer_stop(timer, NULL, NULL) >= 0);
    hwt_timer_destroy(timer);
    for (int i = 0; i < THREADS; i++)
        child_must(ends_sum(&c.ends[i]) == EACH);
}

/* Two timers at once, so that one that writes beyond its lanes meets the other. */
static void use_machine(void *count)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *with = NULL, *without = NULL, *after = NULL;
    processors = *(const int *)count;
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &with) == 0);
    options.flags = HWT_NO_WORKER;
    child_must(hwt_timer_create(&options, &without) == 0);
    child_must(hwt_timer_create(&options, &after) == 0);
    crowd_uses(without);
    crowd_uses(with);
    crowd_uses(after);
}

/* ThreadSanitizer takes seconds for the threads of each. */
enum { EVERY = WITH_THREAD_SANITIZER ? 5 : 1 };
static const int machines[] = { 1,  -1, 2,  15,  16,  17,   31,   32,   33,
                                63, 64, 65, 127, 128, 1023, 1024, 1025, 4096 };

START_TEST(a_machine_of_any_size_will_do)
{
    char what[64];
    int count = machines[_i * EVERY];
    snprintf(what, sizeof(what), "a machine of %d processors", count);
    expect_well(what, use_machine, &count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: processors");
    TCase *tcase = add_case(suite, "machines");
    tcase_add_loop_test(tcase, a_machine_of_any_size_will_do, 0,
                        (sizeof(machines) / sizeof(machines[0]) + EVERY - 1) / EVERY);
    return run_suite(suite);
}
