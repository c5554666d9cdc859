/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_timer_soonest() beside a sorted list, on a set clock and with a timer for one thread too; and
 * beside threads that add, move and cancel.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define START HWT_SEC(5)

enum { GROUPS = 3, MANY = 600 };

static manual m;

typedef struct subject {
    hwt_timeout timeout;
    uint64_t deadline;
    unsigned group;
    bool pending;
} subject;

static subject subjects[MANY];

static void open_kind(int one_thread)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = 64;
    options.flags = one_thread ? HWT_ONE_THREAD : 0;
    memset(subjects, 0, sizeof(subjects)); /* their handles are of another timer */
    manual_open_with(&m, START, options);
}

static void note_end(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    subject *s = arg;
    must(s->pending);
    s->pending = false;
}

static const hwt_task plain = { note_end, NULL };

/* ---- the oracle ---- */

struct filter {
    unsigned group; /* GROUPS: any */
    uint64_t after; /* deadlines */
    uint64_t calls;
    bool asked[MANY];
};

static bool is_wanted(const subject *s, const struct filter *filter)
{
    return s->pending && s->deadline >= filter->after &&
           (filter->group == GROUPS || s->group == filter->group);
}

static bool want(const hwt_pending *pending, void *data)
{
    struct filter *filter = data;
    const subject *s = pending->arg;
    must(pending->task == &plain && s->deadline == pending->deadline);
    must(!filter->asked[s - subjects]);
    filter->asked[s - subjects] = true;
    filter->calls++;
    return is_wanted(s, filter);
}

static int compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static size_t deadlines_wanted(const struct filter *filter, uint64_t *deadlines)
{
    size_t count = 0;
    for (size_t i = 0; i < MANY; i++) {
        if (is_wanted(&subjects[i], filter))
            deadlines[count++] = subjects[i].deadline;
    }
    qsort(deadlines, count, sizeof(*deadlines), compare);
    return count;
}

/* Returns how many `wanted` was asked of. */
static uint64_t check_soonest(unsigned group, uint64_t after, size_t count)
{
    static hwt_pending found[MANY + 1];
    static uint64_t deadlines[MANY];
    struct filter filter = { .group = group, .after = after };
    bool seen[MANY] = { false };
    size_t expected = deadlines_wanted(&filter, deadlines);
    bool all = group == GROUPS && after == 0;
    int64_t n = hwt_timer_soonest(m.timer, all ? NULL : want, &filter, found, count);
    ck_assert_int_eq(n, (int64_t)(expected < count ? expected : count));
    for (int64_t i = 0; i < n; i++) {
        const subject *s = found[i].arg;
        ck_assert_uint_eq(found[i].deadline, deadlines[i]);
        ck_assert_uint_eq(s->deadline, deadlines[i]);
        ck_assert(is_wanted(s, &filter));
        ck_assert_ptr_eq(found[i].task, &plain);
        ck_assert_ptr_eq(found[i].timeout.entry, s->timeout.entry);
        ck_assert_uint_eq(found[i].timeout.generation, s->timeout.generation);
        ck_assert(!seen[s - subjects]);
        seen[s - subjects] = true;
    }
    return filter.calls;
}

/* ---- random sets ---- */

static uint64_t random_state;

static uint64_t below(uint64_t limit)
{
    return test_random(&random_state) % limit;
}

static uint64_t random_deadline(void)
{
    if (below(16) == 0)
        return HWT_NEVER;
    return atomic_load(&m.now) + below(below(2) ? HWT_MS(20) : HWT_SEC(10));
}

static void change(subject *s)
{
    if (!s->pending) {
        s->deadline = random_deadline();
        s->group = (unsigned)below(GROUPS);
        must(hwt_timer_new_timeout_at(m.timer, &plain, s, s->deadline, &s->timeout) == 0);
        s->pending = true;
    } else if (below(3) == 0) {
        must(hwt_timeout_cancel(s->timeout));
        s->pending = false;
    } else {
        s->deadline = random_deadline();
        must(hwt_timeout_reschedule_at(s->timeout, s->deadline));
    }
}

START_TEST(it_finds_what_a_sorted_list_has)
{
    static const size_t counts[] = { 0, 1, 2, 3, 7, 10, 64, 300, MANY, MANY + 1 };
    open_kind(_i);
    random_state = test_seed();
    for (int round = 0; round < 400; round++) {
        for (uint64_t i = below(20); i > 0; i--)
            change(&subjects[below(round < 200 ? MANY : 40)]);
        if (below(4) == 0)
            manual_go(&m, atomic_load(&m.now) - START + below(HWT_MS(30)));
        check_soonest((unsigned)below(GROUPS + 1), below(2) ? 0 : random_deadline(),
                      counts[below(sizeof(counts) / sizeof(counts[0]))]);
    }
    manual_close(&m);
}
END_TEST

/* As documented: of what cannot be among the soonest, `wanted` is not asked. */
START_TEST(of_the_late_ones_nobody_is_asked)
{
    open_kind(_i);
    for (size_t i = 0; i < MANY; i++) {
        subjects[i].deadline = START + HWT_SEC(10) + i;
        must(hwt_timer_new_timeout_at(m.timer, &plain, &subjects[i], subjects[i].deadline,
                                      &subjects[i].timeout) == 0);
        subjects[i].pending = true;
    }
    for (size_t i = 0; i < 2; i++) /* they are the last in memory, or the first */
        ck_assert(hwt_timeout_reschedule_at(subjects[i ? 0 : MANY - 1].timeout, START + i));
    subjects[0].deadline = START + 1;
    subjects[MANY - 1].deadline = START;
    ck_assert_uint_lt(check_soonest(0, 1, 2), MANY);
    ck_assert_uint_eq(check_soonest(0, 0, MANY), MANY);
    manual_close(&m);
}
END_TEST

/* As beanstalkd's kick: the soonest of a group are moved to now, and run in that order. */
START_TEST(the_soonest_of_a_group_are_moved_to_now)
{
    hwt_pending found[5];
    struct filter filter = { .group = 1 };
    open_kind(_i);
    for (size_t i = 0; i < 60; i++) {
        subjects[i].group = (unsigned)(i % GROUPS);
        subjects[i].deadline = START + HWT_SEC(60 - i);
        subjects[i].pending = true;
        must(hwt_timer_new_timeout_at(m.timer, &plain, &subjects[i], subjects[i].deadline,
                                      &subjects[i].timeout) == 0);
    }
    ck_assert_int_eq(hwt_timer_soonest(m.timer, want, &filter, found, 5), 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert(hwt_timeout_reschedule(found[i].timeout, 0));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), 5);
    for (size_t i = 0; i < 60; i++)
        ck_assert_int_eq(subjects[i].pending, i % GROUPS != 1 || i < 60 - 5 * GROUPS);
    manual_close(&m);
}
END_TEST

START_TEST(nonsense_is_refused_and_ended_timers_have_none)
{
    hwt_pending found[2];
    open_kind(_i);
    subjects[0] = (subject){ .deadline = START + HWT_SEC(1), .pending = true };
    must(hwt_timer_new_timeout_at(m.timer, &plain, &subjects[0], subjects[0].deadline,
                                  &subjects[0].timeout) == 0);
    ck_assert_int_eq(hwt_timer_soonest(NULL, NULL, NULL, found, 2), -EINVAL);
    ck_assert_int_eq(hwt_timer_soonest(m.timer, NULL, NULL, NULL, 1), -EINVAL);
    ck_assert_int_eq(hwt_timer_soonest(m.timer, NULL, NULL, NULL, 0), 0);
    ck_assert_int_eq(hwt_timer_soonest(m.timer, NULL, NULL, found, SIZE_MAX), 1);
    ck_assert_ptr_eq(found[0].arg, &subjects[0]);
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(hwt_timer_soonest(m.timer, NULL, NULL, found, 2), 0);
    manual_close(&m);
}
END_TEST

static void rearm_and_look(hwt_timeout timeout, void *arg)
{
    hwt_pending found[2];
    (void)arg;
    must(hwt_timer_soonest(m.timer, NULL, NULL, found, 2) == 0); /* it runs */
    must(hwt_timeout_reschedule_at(timeout, START + HWT_MS(50)));
    must(hwt_timer_soonest(m.timer, NULL, NULL, found, 2) == 1);
    must(found[0].deadline == START + HWT_MS(50) && found[0].timeout.entry == timeout.entry);
    must(hwt_timeout_cancel(timeout));
    must(hwt_timer_soonest(m.timer, NULL, NULL, found, 2) == 0);
    subjects[0].pending = true; /* says that this was here */
}

START_TEST(a_task_finds_itself_once_it_is_armed_again)
{
    static const hwt_task looking = { rearm_and_look, NULL };
    open_kind(_i);
    must(hwt_timer_new_timeout(m.timer, &looking, NULL, 0, NULL) == 0);
    manual_go(&m, HWT_MS(1));
    ck_assert(subjects[0].pending);
    manual_close(&m);
}
END_TEST

/* ---- beside others ---- */

enum { STANDING = 50, TURNS = 20000 };

static struct {
    hwt_timer *timer;
    ends ends;
    _Atomic bool over;
} beside;

static void *churn(void *arg)
{
    uint64_t random = *(const uint64_t *)arg;
    hwt_timeout mine[64] = { { NULL, 0 } };
    for (int turn = 0; turn < TURNS; turn++) {
        hwt_timeout *timeout = &mine[test_random(&random) % 64];
        uint64_t delay = HWT_MIN(2) + test_random(&random) % HWT_MIN(60);
        if (test_random(&random) % 2)
            hwt_timeout_cancel(*timeout);
        must(hwt_timer_set(beside.timer, &counting, &beside.ends, delay, timeout) >= 0);
    }
    return NULL;
}

static bool is_standing(const hwt_pending *pending, void *data)
{
    (void)data;
    return pending->task == &plain;
}

/* What stands is found whole, in order and once, whatever else goes on. */
static void look(uint64_t base, bool filtered)
{
    hwt_pending found[STANDING + 8];
    int64_t n =
        hwt_timer_soonest(beside.timer, filtered ? is_standing : NULL, NULL, found, STANDING + 8);
    int64_t standing = 0;
    for (int64_t i = 0; i < n; i++) {
        must(i == 0 || found[i].deadline >= found[i - 1].deadline);
        if (found[i].task == &plain)
            must(found[i].arg == &subjects[standing] &&
                 found[i].deadline == base + HWT_SEC((uint64_t)standing++));
    }
    must(standing == STANDING && (!filtered || n == STANDING));
}

START_TEST(what_stands_is_found_beside_what_changes)
{
    hwt_options options = HWT_OPTIONS_INIT;
    pthread_t churners[2];
    beside.timer = create(&options);
    uint64_t base = hwt_timer_now(beside.timer) + (_i ? HWT_MIN(20) : HWT_SEC(50));
    for (size_t i = 0; i < STANDING; i++)
        must(hwt_timer_new_timeout_at(beside.timer, &plain, &subjects[i], base + HWT_SEC(i),
                                      NULL) == 0);
    uint64_t seeds[2] = { test_seed(), test_seed() + 1 };
    for (int i = 0; i < 2; i++)
        churners[i] = spawn(churn, &seeds[i]);
    for (int turn = 0; turn < 1000; turn++)
        look(base, _i);
    for (int i = 0; i < 2; i++)
        join(churners[i]);
    look(base, true);
    for (size_t i = 0; i < STANDING; i++)
        subjects[i].pending = true;
    hwt_timer_destroy(beside.timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: the soonest");
    TCase *tcase = add_case(suite, "soonest");
    tcase_add_loop_test(tcase, it_finds_what_a_sorted_list_has, 0, 2);
    tcase_add_loop_test(tcase, of_the_late_ones_nobody_is_asked, 0, 2);
    tcase_add_loop_test(tcase, the_soonest_of_a_group_are_moved_to_now, 0, 2);
    tcase_add_loop_test(tcase, nonsense_is_refused_and_ended_timers_have_none, 0, 2);
    tcase_add_loop_test(tcase, a_task_finds_itself_once_it_is_armed_again, 0, 2);
    tcase_add_loop_test(tcase, what_stands_is_found_beside_what_changes, 0, 2);
    return run_suite(suite);
}
