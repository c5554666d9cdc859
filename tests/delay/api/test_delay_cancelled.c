/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * pthread_cancel(), deferred as it is by default. No call of a store ends its thread half-way, with
 * the lock held or a frame half written: the thread ends after the call has returned. So each call is made
 * here by a thread that has been cancelled already: the first cancellation point would end it.
 */

#include "tests/delay/support/delay_fixture.h"
#include "kit.h"

static hwt_delay *store;
static uint64_t now;
static uint64_t lease;
static int64_t answer;
static bool returned;
static int state_after;

static void open_store(void)
{
    hwt_delay_options options = small_options();
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static int64_t put(uint64_t due)
{
    const hwt_delay_message message = message_of(due, "id", "payload");
    return hwt_delay_put(store, &message, 1);
}

static int64_t take_one(uint64_t wait)
{
    const hwt_delay_message *taken;
    int64_t n = hwt_delay_take(store, 1, wait, &taken);
    if (n == 1) {
        lease = taken->lease;
        hwt_delay_free(taken);
    }
    return n;
}

/* One is leased, one is in a slot, and one is in the log. */
static void setup(void)
{
    make_directory_name();
    open_store();
    now = hwt_delay_now(store);
    ck_assert_int_eq(put(1), 0);
    ck_assert_int_eq(put(2), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(put(3), 0);
    ck_assert_int_eq(take_one(0), 1);
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    remove_store();
}

/* ---- the calls, each of which has its answer ---- */

static void ignore(int result, void *arg)
{
    (void)result;
    (void)arg;
}

static int64_t call_put(void)
{
    return put(now + HWT_MIN(60));
}

static int64_t call_put_async(void)
{
    const hwt_delay_message message = message_of(now + HWT_MIN(60), "id", "payload");
    return hwt_delay_put_async(store, &message, 1, ignore, NULL);
}

static int64_t call_apply(void)
{
    const hwt_delay_message message = message_of(now + HWT_MIN(60), "id", "payload");
    hwt_delay_change changes[] = { { .op = HWT_DELAY_OP_DONE, .lease = lease },
                                   { .op = HWT_DELAY_OP_PUT, .message = &message } };
    return hwt_delay_apply(store, changes, 2, NULL);
}

static int64_t call_cancel(void)
{
    return hwt_delay_cancel(store, 3, "id", 2);
}

static int64_t call_replace(void)
{
    const hwt_delay_message message = message_of(now + HWT_MIN(60), "id", "payload");
    return hwt_delay_replace(store, 3, "id", 2, &message);
}

static int64_t call_take(void)
{
    return take_one(0) - 1;
}

static int64_t call_done(void)
{
    return hwt_delay_done(store, &lease, 1) - 1;
}

static int64_t call_retry(void)
{
    return hwt_delay_retry(store, lease, now + HWT_MIN(60));
}

/* With a descriptor, which is written to. */
static int64_t call_extend(void)
{
    hwt_delay_fd(store);
    return hwt_delay_extend(store, lease, 0);
}

static int64_t call_lead(void)
{
    return hwt_delay_lead(store);
}

static int64_t call_wake(void)
{
    return hwt_delay_wake(store);
}

static int64_t call_fd(void)
{
    return hwt_delay_fd(store) >= 0 ? 0 : -1;
}

static int64_t call_accept_clock(void)
{
    return hwt_delay_accept_clock(store);
}

static int64_t call_note(void)
{
    return hwt_delay_note(store, NULL, 0, NULL);
}

static int visit_at_a_cancellation_point(const hwt_delay_message *message, void *data)
{
    (void)message;
    (void)data;
    pthread_testcancel();
    return 0;
}

static int64_t call_visit(void)
{
    return hwt_delay_visit(store, 0, HWT_NEVER, visit_at_a_cancellation_point, NULL);
}

static int64_t call_get_stats(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    return hwt_delay_get_stats(store, &stats);
}

static int64_t call_dump(void)
{
    char text[4096];
    return hwt_delay_dump(store, text, sizeof(text)) > 0 ? 0 : -1;
}

static int64_t call_check(void)
{
    return hwt_delay_check(store, NULL, NULL);
}

static int64_t call_checkpoint(void)
{
    return hwt_delay_checkpoint(store);
}

static int64_t call_copy(void)
{
    char copy[PATH_MAX + 8], command[PATH_MAX + 32];
    snprintf(copy, sizeof(copy), "%s.copy", store_directory);
    int64_t r = hwt_delay_copy(store, copy);
    snprintf(command, sizeof(command), "rm -rf '%s'", copy);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    r = system(command) == 0 ? r : -1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    return r;
}

static int64_t call_read_only(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *other;
    options.flags = HWT_DELAY_READ_ONLY;
    int r = hwt_delay_open(store_directory, &options, &other);
    return r == 0 ? hwt_delay_close(other) : r;
}

static int64_t call_close_and_open(void)
{
    hwt_delay_options options = small_options();
    int r = hwt_delay_close(store);
    return r == 0 ? hwt_delay_open(store_directory, &options, &store) : r;
}

static int64_t (*const calls[])(void) = {
    call_put,  call_put_async, call_apply,      call_cancel,         call_replace,   call_take,
    call_done, call_retry,     call_lead,       call_extend,         call_wake,      call_fd,
    call_note, call_visit,     call_dump,       call_accept_clock,   call_get_stats, call_check,
    call_copy, call_read_only, call_checkpoint, call_close_and_open,
};

static void *call_cancelled(void *data)
{
    int64_t (*const *call)(void) = data;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    answer = (*call)();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_after);
    returned = true;
    return NULL;
}

START_TEST(a_call_of_a_cancelled_thread_returns)
{
    int64_t (*const *call)(void) = &calls[_i];
    join(spawn(call_cancelled, (void *)(uintptr_t)call));
    ck_assert(returned);
    ck_assert_int_eq(answer, 0);
    ck_assert_int_eq(state_after, PTHREAD_CANCEL_ENABLE);
    ck_assert_int_eq(put(4), 0);
}
END_TEST

/* ---- a thread that sleeps in a take ---- */

static int64_t call_sleep(void)
{
    return take_one(HWT_NEVER);
}

static int64_t (*const sleeping)(void) = call_sleep;

/* It sleeps on, until it has something. */
START_TEST(a_take_that_sleeps_goes_on)
{
    while (take_one(0) == 1)
        ;
    pthread_t thread = spawn(call_cancelled, (void *)(uintptr_t)&sleeping);
    ck_assert_int_eq(put(4), 0);
    join(thread);
    ck_assert(returned);
    ck_assert_int_eq(answer, 1);
    ck_assert_int_eq(hwt_delay_done(store, &lease, 1), 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_cancelled");
    TCase *tcase = tcase_create("cancelled");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_call_of_a_cancelled_thread_returns, 0,
                        (int)(sizeof(calls) / sizeof(calls[0])));
    tcase_add_test(tcase, a_take_that_sleeps_goes_on);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
