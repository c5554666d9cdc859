/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Life of a timer from the inside: what create sets up and undoes, start, stop, max_pending. */

#include <sched.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "room_fixture.h"

static hwt_timer *create(const hwt_options *options)
{
    hwt_timer *timer = NULL;
    ck_assert_int_eq(hwt_timer_create(options, &timer), 0);
    return timer;
}

static void count(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static const hwt_task counting = { count, count };

/* ---- create ---- */

START_TEST(options_are_frozen_and_the_name_is_copied)
{
    char name[] = "a name that is far too long";
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(7);
    options.max_pending = 77;
    options.worker_name = name;
    options.worker_cpu = 0;
    options.clock_id = CLOCK_BOOTTIME;
    hwt_timer *timer = create(&options);
    memset(&options, 0xff, sizeof(options));
    memset(name, 'x', sizeof(name));
    ck_assert_uint_eq(timer->tick_duration, HWT_MS(7));
    ck_assert_uint_eq(timer->worker.wheel.tick_duration, HWT_MS(7));
    ck_assert_uint_eq(timer->max_pending, 77);
    ck_assert_str_eq(timer->worker_name, "a name that is ");
    ck_assert_int_eq(timer->worker_cpu, 0);
    ck_assert_int_eq(timer->clock_id, CLOCK_BOOTTIME);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(what_producers_and_the_worker_write_is_on_lines_of_its_own)
{
    hwt_timer *timer = create(NULL);
    uintptr_t gate = (uintptr_t)&timer->gate, reserved = (uintptr_t)&timer->reserved;
    uintptr_t stats = (uintptr_t)&timer->run_stats, worker = (uintptr_t)&timer->worker;
    ck_assert_uint_eq(gate % HWT_CACHE_LINE, 0);
    ck_assert_uint_ne(((uintptr_t)&timer->stopping) / HWT_CACHE_LINE, gate / HWT_CACHE_LINE);
    ck_assert_uint_ne(gate / HWT_CACHE_LINE, reserved / HWT_CACHE_LINE);
    ck_assert_uint_ne(reserved / HWT_CACHE_LINE, stats / HWT_CACHE_LINE);
    ck_assert_uint_eq(worker % HWT_CACHE_LINE, 0);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(the_wheel_is_rounded_up_to_a_power_of_two)
{
    static const uint32_t sizes[][2] = { { 1, 1 },     { 2, 2 },     { 3, 4 },
                                         { 500, 512 }, { 512, 512 }, { 513, 1024 } };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        hwt_options options = HWT_OPTIONS_INIT;
        options.ticks_per_wheel = sizes[i][0];
        hwt_timer *timer = create(&options);
        struct hwt_wheel wheel;
        ck_assert_int_eq(hwt_wheel_init(&wheel, &timer->pool, 0, 1, sizes[i][1]), 0);
        ck_assert_uint_eq(timer->worker.wheel.bytes, wheel.bytes);
        ck_assert_uint_eq(timer->run_stats.wheel_bytes, wheel.bytes);
        hwt_wheel_destroy(&wheel);
        hwt_timer_destroy(timer);
    }
}
END_TEST

/* From here on there are no new descriptors. */
static struct rlimit forbid_descriptors(void)
{
    struct rlimit before, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ 0, before.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

START_TEST(create_without_a_descriptor_fails_and_leaves_nothing)
{
    hwt_timer *const mark = (hwt_timer *)&counting;
    hwt_timer *timer = mark;
    struct rlimit before = forbid_descriptors();
    int r = hwt_timer_create(NULL, &timer);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(r, -EMFILE);
    ck_assert_ptr_eq(timer, mark);
    hwt_timer_destroy(create(NULL));
}
END_TEST

START_TEST(without_a_worker_there_is_no_descriptor_before_it_is_asked_for)
{
    struct room room;
    struct rlimit before = forbid_descriptors();
    room_open(&room, 0, HWT_MS(1), 8);
    int refused = hwt_timer_fd(room.timer);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(refused, -EMFILE);
    ck_assert_int_eq(room.timer->gate.fd, -1);
    int fd = hwt_timer_fd(room.timer);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(hwt_timer_fd(room.timer), fd);
    hwt_timer_stop(room.timer, NULL, NULL);
    ck_assert_int_eq(hwt_timer_fd(room.timer), fd);
    room_close(&room);
}
END_TEST

START_TEST(the_descriptor_is_set_to_the_end_of_the_next_tick_that_has_work)
{
    struct room room;
    struct itimerspec left;
    _Atomic uint64_t ends = 0;
    room_open(&room, 4711, HWT_SEC(1000), 8); /* the test takes less than a tick */
    int fd = hwt_timer_fd(room.timer);
    hwt_timer_new_timeout(room.timer, &counting, (void *)&ends, HWT_SEC(5500), NULL);
    ck_assert_uint_eq(hwt_timer_next_tick(room.timer), 4711 + HWT_SEC(6000));
    ck_assert_int_eq(timerfd_gettime(fd, &left), 0);
    ck_assert_int_gt(left.it_value.tv_sec, 5000);
    ck_assert_int_le(left.it_value.tv_sec, 6000);
    room_close(&room);
}
END_TEST

START_TEST(destroy_closes_the_descriptor)
{
    hwt_timer *timer = create(NULL);
    int fd = timer->gate.fd;
    hwt_timer_destroy(timer);
    timer = create(NULL);
    ck_assert_int_eq(timer->gate.fd, fd); /* the lowest free one */
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- start and stop ---- */

START_TEST(no_thread_is_started_before_the_first_timeout)
{
    _Atomic uint64_t ends = 0;
    hwt_timer *timer = create(NULL);
    ck_assert(!timer->started);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, (void *)&ends, HWT_NEVER, NULL), 0);
    ck_assert(timer->started);
    pthread_t thread = timer->thread;
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    ck_assert(pthread_equal(timer->thread, thread));
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends, 1);
}
END_TEST

static void *start_once_open(void *data)
{
    hwt_timer *timer = data;
    return hwt_timer_start(timer) == 0 && atomic_load(&timer->started) ? timer : NULL;
}

START_TEST(several_threads_start_one_worker)
{
    hwt_timer *timer = create(NULL);
    pthread_t threads[4];
    void *result;
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(start_once_open, timer);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_eq(result, timer);
    }
    hwt_timer_destroy(timer); /* a second one would be left, and use what is freed */
}
END_TEST

START_TEST(a_start_that_fails_leaves_a_timer_that_can_be_started)
{
    if (sysconf(_SC_NPROCESSORS_CONF) >= CPU_SETSIZE)
        return;
    _Atomic uint64_t ends = 0;
    hwt_options options = HWT_OPTIONS_INIT;
    options.worker_cpu = CPU_SETSIZE - 1;
    options.max_pending = 1;
    hwt_timer *timer = create(&options);
    ck_assert_int_eq(hwt_timer_start(timer), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, (void *)&ends, 0, NULL), -EINVAL);
    ck_assert(!timer->started);
    ck_assert_uint_eq(timer->reserved, 0);
    timer->worker_cpu = -1;
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, (void *)&ends, HWT_NEVER, NULL), 0);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 1);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_stopped_timer_starts_accepts_and_drives_nothing)
{
    struct room room;
    _Atomic uint64_t ends = 0;
    room_open(&room, 0, HWT_MS(1), 8);
    hwt_timer *timer = room.timer;
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, (void *)&ends, 0, NULL), 0);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 1);
    ck_assert(timer->stopping && timer->stopped);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 0);
    ck_assert_int_eq(hwt_timer_start(timer), -ESHUTDOWN);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, (void *)&ends, 0, NULL), -ESHUTDOWN);
    ck_assert_uint_eq(hwt_timer_advance(timer, HWT_SEC(1)), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(timer), HWT_NEVER);
    ck_assert_int_eq(hwt_timer_fd(timer), -ESHUTDOWN);
    ck_assert_uint_eq(ends, 1);
    room_close(&room);
}
END_TEST

/* ---- max_pending ---- */

enum { THREADS = 4, EACH = 20000, MOST = 1000 };

static hwt_timer *create_bounded(uint64_t most)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.max_pending = most;
    options.flags = HWT_NO_WORKER;
    return create(&options);
}

START_TEST(places_are_given_out_to_the_last_and_not_beyond)
{
    hwt_timer *timer = create_bounded(MOST);
    for (int i = 0; i < MOST; i++)
        ck_assert(hwt_timer_reserve(timer));
    ck_assert(!hwt_timer_reserve(timer));
    hwt_timer_release(timer);
    ck_assert(hwt_timer_reserve(timer));
    ck_assert(!hwt_timer_reserve(timer));
    hwt_timer_reserve_beyond(timer); /* a re-arm is never refused */
    ck_assert_uint_eq(timer->reserved, MOST + 1);
    hwt_timer_release(timer);
    ck_assert(!hwt_timer_reserve(timer));
    hwt_timer_release(timer);
    ck_assert(hwt_timer_reserve(timer));
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(without_a_limit_nothing_is_counted)
{
    _Atomic uint64_t ends = 0;
    hwt_timer *timer = create_bounded(0);
    for (int i = 0; i < 10; i++)
        must(hwt_timer_new_timeout(timer, &counting, (void *)&ends, HWT_NEVER, NULL) == 0);
    ck_assert_uint_eq(timer->reserved, 0);
    hwt_timer_reserve_beyond(timer);
    ck_assert_uint_eq(timer->reserved, 0);
    hwt_timer_release(timer);
    ck_assert_uint_eq(timer->reserved, 0);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends, 10);
}
END_TEST

static _Atomic int64_t held, most_held;

static void *reserve_and_release(void *data)
{
    uintptr_t got = 0;
    for (int i = 0; i < EACH; i++) {
        if (!hwt_timer_reserve(data))
            continue;
        int64_t now = atomic_fetch_add(&held, 1) + 1, most = atomic_load(&most_held);
        while (now > most && !atomic_compare_exchange_weak(&most_held, &most, now))
            ;
        got++;
        if (i % 8) {
            atomic_fetch_sub(&held, 1);
            hwt_timer_release(data);
            got--;
        }
    }
    return (void *)got;
}

START_TEST(several_threads_get_every_place_and_none_twice)
{
    hwt_timer *timer = create_bounded(MOST);
    pthread_t threads[THREADS];
    uintptr_t sum = 0;
    void *got;
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(reserve_and_release, timer);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &got), 0);
        sum += (uintptr_t)got;
    }
    ck_assert_int_le(most_held, MOST);
    ck_assert_uint_eq(sum, (uintptr_t)held);
    ck_assert_uint_eq(timer->reserved, sum);
    while (hwt_timer_reserve(timer))
        sum++;
    ck_assert_uint_eq(sum, MOST);
    hwt_timer_destroy(timer);
}
END_TEST

static void rearm(hwt_timeout timeout, void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
    must(hwt_timeout_repeat(timeout, HWT_MS(2)));
}

static void keep(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)arg;
    (void)remaining;
    (*(uint64_t *)data)++;
}

START_TEST(every_way_to_end_gives_the_place_back)
{
    static const hwt_task rearming = { rearm, NULL };
    struct room room;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timeout queued, armed, repeating;
    _Atomic uint64_t ends = 0;
    uint64_t kept = 0;
    options.max_pending = 5;
    options.tick_duration = HWT_MS(1);
    room_open_with(&room, 0, options);
    hwt_timer *timer = room.timer;
    void *arg = (void *)&ends;
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &rearming, arg, 0, &repeating), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, HWT_NEVER, &armed), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, 0, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, HWT_NEVER, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, HWT_NEVER, &queued), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, 0, NULL), -ENOBUFS);
    ck_assert_uint_eq(room.lane->rejected, 1);
    ck_assert(hwt_timeout_cancel(queued));
    ck_assert_uint_eq(timer->reserved, 4);
    ck_assert_uint_eq(hwt_timer_advance(timer, HWT_MS(1)), 2);
    ck_assert_uint_eq(timer->reserved, 3); /* the repeating one has its place again */
    ck_assert(hwt_timeout_cancel(armed));
    ck_assert_uint_eq(timer->reserved, 2);
    for (uint64_t i = 1; i < 10; i++)
        ck_assert_uint_eq(hwt_timer_advance(timer, HWT_MS(2 * i + 1)), 1);
    ck_assert_uint_eq(timer->reserved, 2);
    ck_assert(hwt_timeout_cancel(repeating));
    ck_assert_uint_eq(timer->reserved, 1);
    atomic_store(&timer->pool.slabs, HWT_SLABS_MAX);
    while (hwt_pool_take(timer, room.lane))
        ; /* all the entries there are */
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &counting, arg, 0, NULL), -ENOMEM);
    ck_assert_uint_eq(timer->reserved, 1);
    ck_assert_int_eq(hwt_timer_stop(timer, keep, &kept), 1);
    ck_assert_uint_eq(kept, 1);
    ck_assert_uint_eq(timer->reserved, 0);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    room_close(&room);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timer");
    TCase *creating = room_case(suite, "create", NULL, NULL);
    tcase_add_test(creating, options_are_frozen_and_the_name_is_copied);
    tcase_add_test(creating, what_producers_and_the_worker_write_is_on_lines_of_its_own);
    tcase_add_test(creating, the_wheel_is_rounded_up_to_a_power_of_two);
    tcase_add_test(creating, create_without_a_descriptor_fails_and_leaves_nothing);
    tcase_add_test(creating, without_a_worker_there_is_no_descriptor_before_it_is_asked_for);
    tcase_add_test(creating, the_descriptor_is_set_to_the_end_of_the_next_tick_that_has_work);
    tcase_add_test(creating, destroy_closes_the_descriptor);
    TCase *life = room_case(suite, "life", NULL, NULL);
    tcase_add_test(life, no_thread_is_started_before_the_first_timeout);
    tcase_add_test(life, several_threads_start_one_worker);
    tcase_add_test(life, a_start_that_fails_leaves_a_timer_that_can_be_started);
    tcase_add_test(life, a_stopped_timer_starts_accepts_and_drives_nothing);
    TCase *bounded = room_case(suite, "max_pending", NULL, NULL);
    tcase_add_test(bounded, places_are_given_out_to_the_last_and_not_beyond);
    tcase_add_test(bounded, without_a_limit_nothing_is_counted);
    tcase_add_test(bounded, several_threads_get_every_place_and_none_twice);
    tcase_add_test(bounded, every_way_to_end_gives_the_place_back);
    return run_suite(suite);
}
