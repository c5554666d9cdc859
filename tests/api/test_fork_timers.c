/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * fork() beside threads that make and destroy timers. In the child the library goes by all timers
 * that there are: it finds no other, and none half-way in or out. (One that is gone is found by
 * AddressSanitizer.)
 */

#include "children.h"

enum { MAKERS = 2, KEPT = 3, FORKS = 60 };

typedef struct scene {
    hwt_timer *unused[KEPT], *used[KEPT];
    ends ends;
    shared_count over, made;
} scene;

static hwt_timer *make_one(int i)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.tick_duration = HWT_MS(1);
    options.flags = i % 2 ? HWT_NO_WORKER : 0;
    must(hwt_timer_create(&options, &timer) == 0);
    return timer;
}

/* Those of one thread come and go between those of the other, and of the test. */
static void *make_and_destroy(void *data)
{
    scene *s = data;
    hwt_timer *timers[4] = { NULL };
    for (int i = 0; !s->over; i++) {
        hwt_timer **timer = &timers[i * 7 % 4];
        hwt_timer_destroy(*timer);
        *timer = make_one(i % 8 ? 1 : 0); /* few threads */
        if (i % 3)
            must(hwt_timer_new_timeout(*timer, &counting, &s->ends, HWT_SEC(3600), NULL) == 0);
        s->made++;
    }
    for (int i = 0; i < 4; i++)
        hwt_timer_destroy(timers[i]);
    return NULL;
}

#ifdef __SANITIZE_ADDRESS__
enum {
    MAY_ALLOCATE = false
}; /* another thread of the parent may have held the sanitizer's locks */
#else
enum { MAY_ALLOCATE = true };
#endif

static void use_all(void *data)
{
    scene *s = data;
    ends e = { 0 };
    if (!MAY_ALLOCATE)
        return; /* fork() itself has gone by all timers */
    for (int i = 0; i < KEPT; i++) {
        child_must(hwt_timer_new_timeout(s->used[i], &counting, &e, 0, NULL) == -ESHUTDOWN);
        child_must(hwt_timer_new_timeout(s->unused[i], &counting, &e, 0, NULL) == 0);
        hwt_timer_destroy(s->used[i]);
        hwt_timer_destroy(s->unused[i]);
    }
}

START_TEST(a_fork_beside_timers_that_come_and_go)
{
    scene s;
    pthread_t threads[MAKERS];
    memset(&s, 0, sizeof(s));
    for (int i = 0; i < KEPT; i++) {
        s.unused[i] = make_one(i);
        s.used[i] = make_one(i);
        (void)arm(s.used[i], &counting, &s.ends, HWT_SEC(3600));
        if (i < MAKERS)
            threads[i] = spawn(make_and_destroy, &s);
    }
    ck_assert(await_count(&s.made, 10));
    for (int i = 0; i < FORKS; i++)
        expect_well("a child beside timers that come and go", use_all, &s);
    s.over = 1;
    for (int i = 0; i < MAKERS; i++)
        join(threads[i]);
    for (int i = 0; i < KEPT; i++) {
        hwt_timer_destroy(s.used[i]);
        hwt_timer_destroy(s.unused[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: forks beside timers");
    TCase *tcase = add_case(suite, "come and go");
    if (WITH_THREAD_SANITIZER || is_emulated()) {
        puts("ThreadSanitizer and emulators are not told of threads that a child does not have");
        return 77;
    }
    tcase_add_test(tcase, a_fork_beside_timers_that_come_and_go);
    return run_suite(suite);
}
