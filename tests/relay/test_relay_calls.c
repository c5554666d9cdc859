/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that a broker refuses are counted, and logged when that begins and when it ends. */

#include "hwt/relay/program/calls.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include <hwt/hwt.h>

#include "check_main.h"
#include "hwt/relay/log.h"

static int result;
static uint64_t now;
static char said[512];
static unsigned lines;

void relay_log(unsigned shard, const char *format, ...)
{
    va_list arguments;

    (void)shard;
    va_start(arguments, format);
    vsnprintf(said, sizeof(said), format, arguments);
    va_end(arguments);
    lines++;
}

static uint64_t clock_now(struct relay_engine *engine)
{
    (void)engine;
    return now;
}

static int64_t pull(struct relay_engine *engine, uint64_t after, size_t max,
                    const struct relay_message **ret_messages)
{
    (void)engine, (void)after, (void)max, (void)ret_messages;
    return result;
}

static int extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    (void)engine;
    ret_extent->last = 7;
    return result;
}

static int find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                uint64_t *ret_timestamp)
{
    (void)engine, (void)position, (void)ret_timestamp;
    *ret_position = 7;
    return result;
}

static int send(struct relay_engine *engine, const struct relay_outgoing *message, uint64_t cookie)
{
    (void)engine, (void)message, (void)cookie;
    return result;
}

static int read_entry(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                      uint64_t *ret_revision)
{
    (void)engine, (void)name, (void)ret_text;
    *ret_revision = 7;
    return result;
}

static int swap(struct relay_engine *engine, const char *name, uint64_t revision, const char *text,
                uint64_t *ret_revision)
{
    (void)engine, (void)name, (void)revision, (void)text;
    *ret_revision = 7;
    return result;
}

static int written(struct relay_engine *engine, const char *name, uint64_t revision,
                   uint64_t *ret_written)
{
    (void)engine, (void)name, (void)revision;
    *ret_written = 7;
    return result;
}

static int purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    (void)engine, (void)incarnation, (void)below;
    return result;
}

static const struct relay_engine_calls calls = {
    .pull = pull,
    .extent = extent,
    .find = find,
    .send = send,
    .read = read_entry,
    .swap = swap,
    .written = written,
    .purge = purge,
    .clock = clock_now,
};

static struct relay_engine engine;
static struct relay_errors errors;

static void begin(void)
{
    engine = (struct relay_engine){ .calls = &calls, .server = "10.0.0.1:4222" };
    errors = (struct relay_errors){ .fails = 0 };
    now = HWT_SEC(1000);
    lines = 0;
    relay_calls_watch(&engine, 3, &errors);
}

static int64_t call(enum relay_call which, int wanted)
{
    const struct relay_engine_calls *at = engine.calls;
    const struct relay_message *messages;
    const struct relay_outgoing outgoing = { .target = "t" };
    struct relay_extent reached;
    char text[RELAY_ENTRY_MAX];
    uint64_t number, other;

    result = wanted;
    switch (which) {
    case RELAY_CALL_EXTENT:
        return at->extent(&engine, &reached);
    case RELAY_CALL_FIND:
        return at->find(&engine, 1, &number, &other);
    case RELAY_CALL_PULL:
        return at->pull(&engine, 1, 1, &messages);
    case RELAY_CALL_SEND:
        return at->send(&engine, &outgoing, 1);
    case RELAY_CALL_READ:
        return at->read(&engine, "n", text, &number);
    case RELAY_CALL_SWAP:
        return at->swap(&engine, "n", 1, "t", &number);
    case RELAY_CALL_WRITTEN:
        return at->written(&engine, "n", 1, &number);
    default:
        return at->purge(&engine, 1, 1);
    }
}

/* What each one says when the broker does as it should. */
static const int answers[RELAY_CALLS] = {
    [RELAY_CALL_FIND] = -ENOENT, [RELAY_CALL_PULL] = -ESTALE,    [RELAY_CALL_SEND] = -EAGAIN,
    [RELAY_CALL_SWAP] = -EAGAIN, [RELAY_CALL_WRITTEN] = -EAGAIN, [RELAY_CALL_PURGE] = -ESTALE,
};

START_TEST(each_call_says_what_it_said_and_is_counted)
{
    begin();
    for (int i = RELAY_CALL_EXTENT; i < RELAY_CALLS; i++) {
        ck_assert_int_eq(call(i, 0), 0);
        ck_assert_int_eq(call(i, answers[i]), answers[i]);
        ck_assert_uint_eq(relay_count_get(&errors.count[i]), 0);
        ck_assert_uint_eq(lines, 0);
        ck_assert_int_eq(call(i, -EACCES), -EACCES);
        ck_assert_int_eq(call(i, -EIO), -EIO);
        ck_assert_uint_eq(relay_count_get(&errors.count[i]), 2);
        ck_assert_uint_eq(lines, 1);
        ck_assert_ptr_nonnull(strstr(said, relay_call_names[i]));
        ck_assert_ptr_nonnull(strstr(said, strerror(EACCES)));
        ck_assert_ptr_nonnull(strstr(said, "10.0.0.1:4222"));
        ck_assert_int_eq(call(i, answers[i]), answers[i]);
        ck_assert_uint_eq(lines, 2);
        ck_assert_ptr_nonnull(strstr(said, "goes on"));
        lines = 0;
    }
    ck_assert_int_eq(call(RELAY_CALL_PULL, 9), 9);
}
END_TEST

/* It is logged once a minute at most, and its end if its beginning was. */
START_TEST(a_call_that_fails_now_and_then_is_not_logged_each_time)
{
    begin();
    for (int i = 0; i < 10; i++) {
        call(RELAY_CALL_SWAP, -EIO);
        call(RELAY_CALL_SWAP, 0);
        now += HWT_SEC(1);
    }
    ck_assert_uint_eq(lines, 2);
    ck_assert_uint_eq(relay_count_get(&errors.count[RELAY_CALL_SWAP]), 10);
    now += HWT_SEC(60);
    call(RELAY_CALL_SWAP, -EIO);
    ck_assert_uint_eq(lines, 3);
}
END_TEST

START_TEST(what_a_shard_cannot_do_without_makes_it_unready)
{
    static const enum relay_call needed[] = { RELAY_CALL_EXTENT, RELAY_CALL_READ, RELAY_CALL_SWAP };

    begin();
    ck_assert(!relay_calls_fail(&errors));
    call(RELAY_CALL_FIND, -EIO);
    call(RELAY_CALL_SEND, -EIO);
    ck_assert(!relay_calls_fail(&errors));
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        call(needed[i], -ETIMEDOUT);
        ck_assert(relay_calls_fail(&errors));
        call(needed[i], 0);
        ck_assert(!relay_calls_fail(&errors));
    }
    relay_calls_opened(&errors, -EHOSTUNREACH);
    ck_assert(relay_calls_fail(&errors));
    ck_assert_uint_eq(relay_count_get(&errors.count[RELAY_CALL_OPEN]), 1);
    relay_calls_opened(&errors, 0);
    ck_assert(!relay_calls_fail(&errors));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_calls");
    TCase *tcase = tcase_create("calls");

    tcase_add_test(tcase, each_call_says_what_it_said_and_is_counted);
    tcase_add_test(tcase, a_call_that_fails_now_and_then_is_not_logged_each_time);
    tcase_add_test(tcase, what_a_shard_cannot_do_without_makes_it_unready);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
