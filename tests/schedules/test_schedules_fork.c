/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * fork() beside a thread that drives a timer which nobody has started yet. Such a timer goes along: the child
 * has no driver, and whatever the parent's was about to do, the timer is as good as new there.
 */

#include "fork_fixture.h"
#include "schedule.h"

/* Of each driver: in the child, another one stands on it just where the parent's did. */
static _Alignas(4096) char stack[1 << 20];
static pthread_attr_t on_it;
static uintptr_t stood_at;

static hwt_timer *timer;
static int fd;

static void advance(struct actor *driver)
{
    stood_at = (uintptr_t)__builtin_frame_address(0);
    driver->answer = (int64_t)hwt_timer_dispatch(timer);
}

static void look(struct actor *driver)
{
    stood_at = (uintptr_t)__builtin_frame_address(0);
    driver->answer = hwt_timer_next_tick(timer) == HWT_NEVER ? 0 : -1;
}

static void (*const calls[])(struct actor *driver) = { advance, look };

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static void begin_driver(struct actor *driver, unsigned call)
{
    actor_begin_with(driver, calls[call], &on_it);
}

static void drive_in_child(void *data)
{
    uintptr_t before = stood_at;
    struct actor driver;
    if (!WITH_THREAD_SANITIZER && !is_emulated()) { /* neither knows threads there */
        begin_driver(&driver, *(const unsigned *)data);
        child_must(actor_end(&driver) == 0);
        child_must(stood_at == before);
    }
    child_must(hwt_timer_dispatch(timer) == 0);
    child_must(!readable(fd, 0)); /* a loop would come back for nothing */
    loop_by(timer, fd);
}

static void drive_in_parent(void)
{
    ends e = { 0 };
    must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(5), NULL) == 0);
    while (atomic_load(&e.runs) == 0) {
        must(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
}

/* False: the call has no such point. */
static bool fork_beside(unsigned call, uint32_t point)
{
    struct actor driver;
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    timer = create(&options);
    fd = hwt_timer_fd(timer);
    ck_assert_int_ge(fd, 0);
    begin_driver(&driver, call);
    bool stands = actor_go_on(&driver, point) == point;
    if (stands)
        expect_well(actor_passed(&driver), drive_in_child, &call);
    ck_assert_int_eq(actor_end(&driver), 0);
    drive_in_parent();
    hwt_timer_destroy(timer);
    return stands;
}

/*
 *     driver                          parent                      child
 *     stands at any of its points
 *                                     forks
 *                                                                 a driver comes from the same
 *                                                                 place; a loop runs timeouts
 *     goes on
 */
START_TEST(a_child_drives_what_was_being_driven)
{
    uint32_t points = 0;
    ck_assert_int_eq(pthread_attr_init(&on_it), 0);
    ck_assert_int_eq(pthread_attr_setstack(&on_it, stack, sizeof(stack)), 0);
    while (fork_beside((unsigned)_i, points + 1))
        points++;
    ck_assert_uint_ge(points, 3);
    pthread_attr_destroy(&on_it);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: fork");
    TCase *tcase = tcase_create("fork");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_child_drives_what_was_being_driven, 0, CALLS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
