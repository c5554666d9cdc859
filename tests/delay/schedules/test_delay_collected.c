/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A checkpoint collects its records a few at a time, before its instant. Whenever it lets go of the
 * lock, it calls the wrapped sched_yield(), which changes records that are collected already and
 * others that are not. The tests look whether all that these calls have left is delivered, and
 * nothing else, in this process and in the next one.
 */

#include "tests/delay/support/simulated.h"

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

enum {
    MESSAGES = 1200, /* the lock is let go of behind the first 512 */
    FEW = 10,        /* of them are taken */
    COLLECTED = 300,
    LATER = 1100, /* is not collected yet */
    SIZE = 16,
    NEW = MESSAGES,
    TIMES = 2 /* the lock is let go of so often before the instant */
};

static struct simulated s;
static unsigned expected[SIMULATED_IDS];
static void (*when_let_go)(void);
static unsigned at, let_go; /* it is called at which time; they are counted */
static uint64_t due;

int __wrap_sched_yield(void);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool refuses; /* the next call */

void *__wrap_malloc(size_t size)
{
    if (!refuses)
        return __real_malloc(size);
    refuses = false;
    return NULL;
}

int __wrap_sched_yield(void)
{
    void (*call)(void) = when_let_go;
    if (let_go++ != at || !call)
        return 0;
    when_let_go = NULL;
    call();
    return 0;
}

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 4 << 20;
    s.options.memory = 16 << 20;
    simulated_open(&s);
    memset(expected, 0, sizeof(expected));
    when_let_go = NULL;
    at = let_go = 0;
    due = s.realtime;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        ck_assert_int_eq(simulated_put(&s, due + i, i, SIZE), 0);
        expected[i] = 1;
    }
    simulated_advance(&s, HWT_SEC(1));
}

static void end(void)
{
    simulated_free(&s);
}

/* ---- what happens meanwhile ---- */

static void cancel(uint32_t i)
{
    ck_assert_int_eq(hwt_delay_cancel(s.store, due + i, &i, sizeof(i)), 0);
    expected[i] = 0;
}

static void take(uint64_t leases[FEW])
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, FEW, 0, &taken), FEW);
    for (uint32_t i = 0; i < FEW; i++) {
        ck_assert_uint_eq(simulated_number(&taken[i]), i);
        leases[i] = taken[i].lease;
    }
    hwt_delay_free(taken);
}

static void nothing(void)
{
}

static void cancel_two(void)
{
    cancel(COLLECTED);
    cancel(LATER);
}

/* With another payload. */
static void put_again(void)
{
    ck_assert_int_eq(simulated_put(&s, due + COLLECTED, COLLECTED, SIZE + 1), 0);
    ck_assert_int_eq(simulated_put(&s, due + LATER, LATER, SIZE + 1), 0);
}

static void put_more(void)
{
    for (uint32_t i = NEW; i < NEW + FEW; i++) {
        ck_assert_int_eq(simulated_put(&s, due + i, i, SIZE), 0);
        expected[i] = 1;
    }
}

static void take_and_keep(void)
{
    uint64_t leases[FEW];
    take(leases);
}

static void take_and_be_done(void)
{
    uint64_t leases[FEW];
    take(leases);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, FEW), FEW);
    memset(expected, 0, FEW * sizeof(expected[0]));
}

static void take_and_retry(void)
{
    uint64_t leases[FEW];
    take(leases);
    for (uint32_t i = 0; i < FEW; i++)
        ck_assert_int_eq(hwt_delay_retry(s.store, leases[i], due + MESSAGES + i), 0);
}

/* They are FRESH once more, and are collected once more. */
static void take_and_let_end(void)
{
    uint64_t leases[FEW];
    take(leases);
    for (uint32_t i = 0; i < FEW; i++)
        ck_assert_int_eq(hwt_delay_extend(s.store, leases[i], 0), 0);
    ck_assert_int_eq(hwt_delay_extend(s.store, leases[0], 0), -ENOENT); /* it ends them */
}

static void let_end_and_cancel(void)
{
    take_and_let_end();
    cancel(0);
}

static void cancel_and_put_again(void)
{
    cancel(COLLECTED);
    ck_assert_int_eq(simulated_put(&s, due + COLLECTED, COLLECTED, SIZE), 0);
    expected[COLLECTED] = 1;
}

/* ---- and then ---- */

static uint64_t count_expected(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < SIMULATED_IDS; i++)
        sum += expected[i];
    return sum;
}

static uint64_t count_pending(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(s.store, &stats), 0);
    return stats.pending;
}

static void must_be_listed(void)
{
    static unsigned seen[SIMULATED_IDS];
    memset(seen, 0, sizeof(seen));
    ck_assert_int_eq(simulated_list(&s, seen), 0);
    ck_assert_mem_eq(seen, expected, sizeof(seen));
}

static void must_be_as_expected(void)
{
    ck_assert_uint_eq(count_pending(), count_expected());
    must_be_listed();
}

static void must_be_delivered(void)
{
    static unsigned counts[SIMULATED_IDS];
    memset(counts, 0, sizeof(counts));
    simulated_advance(&s, HWT_MIN(10)); /* leases end, too */
    ck_assert_int_ge(simulated_deliver(&s, SIMULATED_IDS, counts), 0);
    ck_assert_mem_eq(counts, expected, sizeof(counts));
    ck_assert_uint_eq(count_pending(), 0);
}

/* It is collected once more, and leased again before the instant. */
static void let_end_and_take(void)
{
    take_and_let_end();
    take_and_keep();
}

/* Of what is collected, and of what is not yet. */
static void drop_half(void)
{
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP,
                              .due = due + MESSAGES / 2,
                              .mark = hwt_delay_log_next(s.store) - 1 };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    memset(expected, 0, (MESSAGES / 2 + 1) * sizeof(expected[0]));
}

static void (*const meanwhile[])(void) = {
    nothing,          cancel_two,         put_again,      put_more,
    take_and_keep,    take_and_be_done,   take_and_retry, take_and_let_end,
    let_end_and_take, let_end_and_cancel, drop_half,      cancel_and_put_again
};
enum { CALLS = sizeof(meanwhile) / sizeof(meanwhile[0]) };

static void kill_and_open(void)
{
    simulated_kill(&s);
    simulated_open(&s);
    must_be_as_expected();
}

START_TEST(what_was_collected_is_what_is_left)
{
    when_let_go = meanwhile[_i % CALLS];
    at = (unsigned)(_i / CALLS) % TIMES;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    must(!when_let_go); /* it was called */
    must_be_as_expected();
    if (_i / CALLS / TIMES == 1)
        kill_and_open();
    must_be_delivered();
}
END_TEST

static void refuse_opens(int error)
{
    s.process.fail_only = 1U << DISK_OPEN;
    s.process.fail_with = error;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = UINT64_MAX;
}

/* The same, but the checkpoint fails. All is FRESH again, and the next one brings it to slots. */
START_TEST(a_checkpoint_that_fails_gives_back_what_it_collected)
{
    when_let_go = meanwhile[_i % CALLS];
    at = (unsigned)(_i / CALLS) % TIMES;
    refuse_opens(-EMFILE);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EMFILE);
    s.process.fail_with = 0;
    must(!when_let_go);               /* it was called */
    ck_assert_uint_gt(let_go, TIMES); /* to collect, and to give back */
    must_be_as_expected();
    if (_i / CALLS / TIMES == 1)
        kill_and_open();
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    kill_and_open();
    must_be_delivered();
}
END_TEST

/* The same on a full disk, where it is tried once more with the room of the reserve. */
START_TEST(a_checkpoint_on_a_full_disk_gives_back_what_it_collected)
{
    refuse_opens(-ENOSPC);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -ENOSPC);
    s.process.fail_with = 0;
    must_be_as_expected();
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    kill_and_open();
    must_be_delivered();
}
END_TEST

static void refuse_one(void)
{
    refuses = true;
}

START_TEST(without_memory_it_gives_back_what_it_collected)
{
    when_let_go = refuse_one;
    at = TIMES - 1;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -ENOMEM);
    must(!when_let_go && !refuses); /* memory was refused once */
    must_be_as_expected();
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    kill_and_open();
    must_be_delivered();
}
END_TEST

/* ---- behind the instant ---- */

/* The frame that follows the instant is being written. All has been collected, and stays so. */
static void take_behind_it(void *arg, enum disk_call call, const char *name)
{
    (void)arg;
    (void)call;
    (void)name;
    s.process.changed = NULL;
    ck_assert_uint_eq(hwt_delay_fresh_count(s.store), 0);
    take_and_keep();
}

/* Something is gathered, so the instant is where the checkpoint begins to write a frame. */
static void gather_one(void)
{
    const uint32_t id = NEW;
    const hwt_delay_message message = { .due = due + id, .id = &id, .id_size = sizeof(id) };
    struct hwt_delay_steps steps;
    ck_assert_int_eq(hwt_delay_steps_init(&steps, 1), 0);
    ck_assert_int_eq(hwt_delay_step_put(steps.list, &message), 0);
    pthread_mutex_lock(&s.store->lock);
    ck_assert_int_eq(hwt_delay_steps_make(s.store, &steps), 0);
    pthread_mutex_unlock(&s.store->lock);
    hwt_delay_steps_free(&steps);
    expected[id] = 1;
    s.process.changed = take_behind_it;
}

START_TEST(behind_the_instant_a_snapshot_keeps_what_it_has)
{
    when_let_go = gather_one;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    must(!when_let_go && !s.process.changed); /* both were called */
    kill_and_open();
    must_be_delivered();
}
END_TEST

/* ---- what leaves memory ---- */

/* All is loaded, and the next checkpoint leaves a quarter of it in memory. */
static void load_too_much(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    pthread_mutex_lock(&s.store->lock);
    ck_assert_int_eq(hwt_delay_load(s.store, due + HWT_SEC(1)), 0);
    pthread_mutex_unlock(&s.store->lock);
    s.store->options.memory = hwt_delay_bytes_in(s.store, HWT_DELAY_FILED) * 2;
    let_go = 0;
}

/* Others call while it goes back to its slots. How many are pending is not known exactly then: see
 * filed.c. */
START_TEST(what_left_memory_is_what_is_left)
{
    load_too_much();
    when_let_go = meanwhile[_i % CALLS];
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    must(!when_let_go); /* it was called */
    s.store->options.memory = s.options.memory;
    must_be_listed();
    if (_i / CALLS == 1) {
        simulated_kill(&s);
        simulated_open(&s);
        must_be_listed();
    }
    must_be_delivered();
}
END_TEST

/* ---- memory ---- */

/* Most of it has been collected, and takes of the memory for new messages all the same. */
static void be_refused(void)
{
    const uint64_t most = s.store->options.memory / 8 * 3;
    ck_assert_uint_lt(hwt_delay_bytes_in(s.store, HWT_DELAY_FRESH), most / 2);
    ck_assert_int_eq(hwt_delay_log_try(s.store, SIZE, most / 2, true), -EAGAIN);
    ck_assert_int_eq(hwt_delay_log_try(s.store, SIZE, 0, true), 0);
}

START_TEST(until_the_instant_it_takes_of_the_memory_for_new_messages)
{
    s.store->options.memory = hwt_delay_memory(s.store) * 3;
    when_let_go = be_refused;
    at = TIMES - 1;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    must(!when_let_go); /* it was called */
}
END_TEST

/* However many there are, the lock is let go of now and then before the instant, and behind it. */
START_TEST(the_lock_is_let_go_of)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_ge(let_go, 2 * TIMES);
}
END_TEST

/* It is, too, as the records of a checkpoint that failed are given back, and forgotten. */
START_TEST(the_lock_is_let_go_of_after_a_failure)
{
    refuse_opens(-EMFILE);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EMFILE);
    ck_assert_uint_ge(let_go, 3 * TIMES);
}
END_TEST

/* And as those are forgotten that are leased, which no slot gets. */
START_TEST(the_lock_is_let_go_of_for_leases)
{
    const hwt_delay_message *taken;
    simulated_advance(&s, HWT_SEC(1));
    ck_assert_int_eq(hwt_delay_take(s.store, MESSAGES, 0, &taken), MESSAGES);
    hwt_delay_free(taken);
    let_go = 0;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_ge(let_go, TIMES);
    must_be_as_expected();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_collected");
    TCase *tcase = tcase_create("collected");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, what_was_collected_is_what_is_left, 0, 2 * TIMES * CALLS);
    tcase_add_loop_test(tcase, a_checkpoint_that_fails_gives_back_what_it_collected, 0,
                        2 * TIMES * CALLS);
    tcase_add_test(tcase, a_checkpoint_on_a_full_disk_gives_back_what_it_collected);
    tcase_add_test(tcase, without_memory_it_gives_back_what_it_collected);
    tcase_add_test(tcase, behind_the_instant_a_snapshot_keeps_what_it_has);
    tcase_add_test(tcase, until_the_instant_it_takes_of_the_memory_for_new_messages);
    tcase_add_loop_test(tcase, what_left_memory_is_what_is_left, 0, 2 * CALLS);
    tcase_add_test(tcase, the_lock_is_let_go_of);
    tcase_add_test(tcase, the_lock_is_let_go_of_after_a_failure);
    tcase_add_test(tcase, the_lock_is_let_go_of_for_leases);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
