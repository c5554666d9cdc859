/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h against an oracle: programs of random calls on some objects of one timer, whose
 * clock is set, with random options, ticks and leaps of time. What every call answers, and
 * what is called back in every pass with which number, is foretold.
 *
 *     HWT_TEST_SEED=n       repeats a run
 *     HWT_TEST_PROGRAMS=n   plays so many (default 2000)
 */

#include "retry_fixture.h"

#include <inttypes.h>

enum { OBJECTS = 6, STEPS = 120, EVENTS_MAX = 8, ENDS = HWT_RETRY_THROTTLED + 1 };

/* Attempt `number` began, or, with the number 0, it all ended. */
struct event {
    uint64_t number;
    hwt_retry_end end;
};

struct events {
    struct event list[EVENTS_MAX];
    size_t count;
    int reason; /* of the last end; 0 where it did not fail for good */
};

/* What is foretold goes on: between two passes only the calls change it. */
enum stage { OVER, DELAY, UNDER_WAY, HAS_FAILED, WAS_PUSHED_BACK, TO_BE_TOLD };

struct object {
    hwt_retry retry;
    struct events seen, foretold;
    hwt_retry_options options;
    uint64_t salt; /* what the callbacks do follows from this and the number */
    enum stage stage;
    hwt_retry_end end;
    uint64_t number; /* under way, or next */
    uint64_t begun;
    uint64_t wake, deadline;
    uint64_t look; /* the timeout's deadline */
    hwt_backoff backoff;
    uint64_t given; /* the delay, where it was pushed back */
    int reason;
    hwt_retry_budget budget;
    uint64_t tokens, max_tokens, ratio; /* in thousandths */
};

static struct {
    manual m;
    uint64_t tick, random;
    bool in_start; /* hwt_retry_start_now() tells no end: the next pass does */
    bool coarse;   /* all spans are of whole ticks, so that instants coincide */
    struct object objects[OBJECTS];
    uint64_t attempts, ends[ENDS], refused;
} model;

static uint64_t below(uint64_t limit)
{
    return test_random(&model.random) % limit;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t now(void)
{
    return atomic_load(&model.m.now);
}

static void add_event(struct events *events, uint64_t number, hwt_retry_end end)
{
    must(events->count < EVENTS_MAX);
    events->list[events->count++] = (struct event){ number, end };
}

/* ---- what the callbacks do ---- */

static uint64_t choice(const struct object *object, uint64_t number)
{
    uint64_t state = object->salt ^ number;
    return test_random(&state);
}

static enum reply reply_of(const struct object *object, uint64_t number)
{
    static const enum reply replies[] = {
        LATER, LATER, LATER,     LATER,   LATER,   LATER,
        FAIL,  FAIL,  PUSH_BACK, SUCCEED, GIVE_UP, FAIL_FOR_GOOD
    };
    return replies[choice(object, number) % 12];
}

static bool restarts_after(const struct object *object, uint64_t number)
{
    return choice(object, number) >> 32 & 1;
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct object *object = arg;
    must(retry == &object->retry);
    add_event(&object->seen, number, HWT_RETRY_SUCCEEDED);
    enum reply reply = reply_of(object, number);
    if (reply != LATER)
        must(give_reply(retry, number, reply));
    must(!give_reply(retry, number, reply));
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg);

static const hwt_retry_task task = { attempt, ended };

static int start(struct object *object)
{
    return hwt_retry_start(&object->retry, model.m.timer, &object->options, &task, object);
}

static bool stopped;

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct object *object = arg;
    add_event(&object->seen, 0, end);
    object->seen.reason = end == HWT_RETRY_FAILED ? hwt_retry_reason(retry) : 0;
    must(!hwt_retry_cancel_sync(retry));
    if (restarts_after(object, object->number))
        must(start(object) == (stopped ? -ESHUTDOWN : 0));
}

/* ---- what is foretold ---- */

static void foretell_start(struct object *object)
{
    must(hwt_backoff_init(&object->backoff, &object->options) == 0);
    object->stage = DELAY;
    object->number++;
    object->begun = 0;
    object->wake = object->look = now();
    object->deadline = sum(now(), object->options.total_timeout);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void foretell_end(struct object *object, hwt_retry_end end)
{
    if (model.in_start) {
        object->stage = TO_BE_TOLD;
        object->end = end;
        return;
    }
    object->stage = OVER;
    model.ends[end]++;
    if (end == HWT_RETRY_SUCCEEDED && object->options.budget)
        object->tokens = least(object->tokens + object->ratio, object->max_tokens);
    add_event(&object->foretold, 0, end);
    object->foretold.reason = end == HWT_RETRY_FAILED ? object->reason : 0;
    if (!stopped && restarts_after(object, object->number))
        foretell_start(object);
}

static void foretell_failure(struct object *object, bool pushed_back)
{
    if (object->options.budget)
        object->tokens -= least(object->tokens, 1000);
    if (object->begun == object->options.max_attempts) {
        foretell_end(object, HWT_RETRY_EXHAUSTED);
        return;
    }
    if (object->options.budget && object->tokens * 2 <= object->max_tokens) {
        foretell_end(object, HWT_RETRY_THROTTLED);
        return;
    }
    if (pushed_back)
        object->backoff.delay = object->options.first_delay;
    uint64_t delay = pushed_back ? object->given : hwt_backoff_next(&object->backoff);
    object->wake = object->look = sum(now(), delay);
    if (object->wake >= object->deadline) {
        foretell_end(object, HWT_RETRY_OUT_OF_TIME);
        return;
    }
    object->stage = DELAY;
    object->number++;
}

static void foretell_attempt(struct object *object)
{
    add_event(&object->foretold, object->number, HWT_RETRY_SUCCEEDED);
    model.attempts++;
    object->begun++;
    switch (reply_of(object, object->number)) {
    case SUCCEED:
        foretell_end(object, HWT_RETRY_SUCCEEDED);
        break;
    case GIVE_UP:
        foretell_end(object, HWT_RETRY_CANCELLED);
        break;
    case FAIL:
        foretell_failure(object, false);
        break;
    case PUSH_BACK:
        object->given = PUSHED_BACK_BY;
        foretell_failure(object, true);
        break;
    case FAIL_FOR_GOOD:
        object->reason = REASON;
        foretell_end(object, HWT_RETRY_FAILED);
        break;
    default:
        object->stage = UNDER_WAY;
        object->wake = sum(now(), object->options.attempt_timeout);
        if (object->wake > object->deadline)
            object->wake = object->deadline;
        object->look = object->wake;
    }
}

static bool is_due(const struct object *object)
{
    uint64_t since = object->look - model.m.start;
    return object->look != HWT_NEVER && since / model.tick < since_start(&model.m) / model.tick;
}

static void foretell_pass(struct object *object)
{
    if (object->stage == TO_BE_TOLD)
        foretell_end(object, object->end);
    else if (object->stage == OVER || !is_due(object))
        return;
    else if (object->stage == HAS_FAILED || object->stage == WAS_PUSHED_BACK)
        foretell_failure(object, object->stage == WAS_PUSHED_BACK);
    else if (now() >= object->deadline)
        foretell_end(object, HWT_RETRY_OUT_OF_TIME);
    else if (object->stage == DELAY)
        foretell_attempt(object);
    else
        foretell_failure(object, false);
}

static void check_events(struct object *object)
{
    must(object->seen.count == object->foretold.count);
    must(object->seen.reason == object->foretold.reason);
    for (size_t i = 0; i < object->seen.count; i++) {
        must(object->seen.list[i].number == object->foretold.list[i].number);
        must(object->seen.list[i].end == object->foretold.list[i].end);
    }
    object->seen.count = object->foretold.count = 0;
}

/* ---- calls ---- */

static uint64_t span_below(uint64_t limit)
{
    uint64_t span = below(limit);
    return model.coarse ? span / model.tick * model.tick : span;
}

static uint64_t random_span(void)
{
    switch (below(8)) {
    case 0:
        return below(3);
    case 1:
        return test_random(&model.random) >> below(64);
    case 2:
        return HWT_NEVER;
    default:
        return span_below(model.tick * 30);
    }
}

static uint64_t random_limit(void)
{
    uint64_t limit = random_span();
    return limit ? limit : 1;
}

static hwt_retry_options random_options(void)
{
    static const double factors[] = { 1, 1.5, 2, 3, 1000 };
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    options.first_delay = below(4) ? span_below(model.tick * 5) : random_span();
    options.max_delay = sum(options.first_delay, random_span());
    options.factor = factors[below(5)];
    options.attempt_timeout = random_limit();
    options.total_timeout = below(3) ? HWT_NEVER : random_limit();
    options.seed = 1 + below(1000);
    options.max_attempts = (uint32_t)below(6);
    options.jitter = (hwt_jitter)below(5);
    options.jitter_fraction = (double)below(11) / 10;
    return options;
}

/* Its budget goes on from life to life. */
static void choose_budget(struct object *object)
{
    if (below(3) > 0)
        return;
    if (object->max_tokens == 0) {
        object->max_tokens = object->tokens = 1000 * (1 + below(12));
        object->ratio = 1 + below(1000);
        must(hwt_retry_budget_init(&object->budget, (uint32_t)(object->max_tokens / 1000),
                                   (double)object->ratio / 1000) == 0);
    }
    object->options.budget = &object->budget;
}

static void call_start_now(struct object *object)
{
    must(hwt_retry_start_now(&object->retry, model.m.timer, &object->options, &task, object) == 0);
    foretell_start(object);
    model.in_start = true;
    foretell_attempt(object);
    model.in_start = false;
}

static void call_start(struct object *object)
{
    bool over = object->stage == OVER;
    if (over) {
        object->options = random_options();
        choose_budget(object);
        object->salt = test_random(&model.random);
    }
    if (over && below(2)) {
        call_start_now(object);
        return;
    }
    must(start(object) == (over ? 0 : -EALREADY));
    if (over)
        foretell_start(object);
}

static void call_cancel(struct object *object)
{
    bool first = object->stage != OVER && object->stage != TO_BE_TOLD;
    must((below(2) ? hwt_retry_cancel : hwt_retry_cancel_sync)(&object->retry) == first);
    if (!first)
        return;
    object->stage = TO_BE_TOLD;
    object->end = HWT_RETRY_CANCELLED;
}

static bool call_failed(struct object *object, uint64_t number, bool accepted)
{
    if (below(2)) {
        must(hwt_retry_failed(&object->retry, number) == accepted);
        return false;
    }
    uint64_t given = random_span();
    must(hwt_retry_failed_with_delay(&object->retry, number, given) == accepted);
    if (accepted)
        object->given = given;
    return true;
}

static void call_last(struct object *object, uint64_t number, bool accepted)
{
    int reason = (int)below(1000) - 500;
    bool good = below(3);
    must((good ? hwt_retry_succeeded(&object->retry, number)
               : hwt_retry_failed_for_good(&object->retry, number, reason)) == accepted);
    if (!accepted)
        return;
    object->stage = TO_BE_TOLD;
    object->end = good ? HWT_RETRY_SUCCEEDED : HWT_RETRY_FAILED;
    object->reason = good ? object->reason : reason;
}

static void call_answer(struct object *object)
{
    uint64_t number = below(3) ? object->number : below(object->number + 2);
    bool accepted = object->stage == UNDER_WAY && number == object->number;
    model.refused += !accepted;
    if (below(3) == 0) {
        call_last(object, number, accepted);
        return;
    }
    bool pushed_back = call_failed(object, number, accepted);
    if (!accepted)
        return;
    object->stage = pushed_back ? WAS_PUSHED_BACK : HAS_FAILED;
    object->look = now();
}

static uint64_t random_leap(void)
{
    switch (below(10)) {
    case 0:
        return 0;
    case 1:
        return span_below(model.tick * 200);
    case 2:
        return model.tick - since_start(&model.m) % model.tick; /* to the end of the tick */
    default:
        return span_below(model.tick * 4);
    }
}

static void pass(void)
{
    uint64_t instant = since_start(&model.m) + random_leap();
    manual_go(&model.m, instant);
    for (size_t i = 0; i < OBJECTS; i++) {
        foretell_pass(&model.objects[i]);
        check_events(&model.objects[i]);
    }
}

static void step(void)
{
    struct object *object = &model.objects[below(OBJECTS)];
    switch (below(12)) {
    case 0:
    case 1:
        call_start(object);
        break;
    case 2:
        if (below(3) == 0)
            call_cancel(object);
        break;
    case 3:
    case 4:
    case 5:
        call_answer(object);
        break;
    default:
        pass();
    }
}

static uint64_t count_live(void)
{
    uint64_t live = 0;
    for (size_t i = 0; i < OBJECTS; i++)
        live += model.objects[i].stage != OVER && model.objects[i].stage != TO_BE_TOLD;
    return live;
}

static void stop(void)
{
    uint64_t live = count_live();
    stopped = true;
    must(hwt_timer_stop(model.m.timer, NULL, NULL) == (int64_t)live);
    for (size_t i = 0; i < OBJECTS; i++) {
        struct object *object = &model.objects[i];
        if (object->stage == TO_BE_TOLD)
            foretell_end(object, object->end);
        else if (object->stage != OVER)
            foretell_end(object, HWT_RETRY_CANCELLED);
        check_events(object);
        if (object->number > 0)
            must(start(object) == -ESHUTDOWN);
    }
}

static void play_program(uint64_t program)
{
    uint64_t state = test_seed() + program;
    memset(model.objects, 0, sizeof(model.objects));
    model.random = test_random(&state);
    model.tick = below(2) ? HWT_MS(1) : HWT_US(1) + below(HWT_SEC(1));
    model.coarse = below(2);
    manual_open(&model.m, test_random(&model.random) >> (1 + below(63)), model.tick,
                1U << below(8));
    stopped = false;
    for (int i = 0; i < STEPS; i++) {
        step();
        must(hwt_timer_pending(model.m.timer) == count_live());
    }
    stop();
    manual_close(&model.m);
}

static uint64_t programs_wanted(void)
{
    const char *text = getenv("HWT_TEST_PROGRAMS");
    return text && *text ? strtoull(text, NULL, 0) : 2000;
}

START_TEST(random_programs_do_what_the_oracle_says)
{
    for (uint64_t program = 0; program < programs_wanted(); program++)
        play_program(program);
    printf("%" PRIu64 " attempts, %" PRIu64 " succeeded, %" PRIu64 " exhausted, %" PRIu64
           " out of time, %" PRIu64 " cancelled, %" PRIu64 " failed for good, %" PRIu64
           " throttled; %" PRIu64 " answers refused\n",
           model.attempts, model.ends[0], model.ends[1], model.ends[2], model.ends[3],
           model.ends[4], model.ends[5], model.refused);
    for (int end = 0; end < ENDS; end++)
        ck_assert_uint_gt(model.ends[end], programs_wanted() / 10);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("model_retry");
    TCase *random = add_case(suite, "random");
    tcase_add_test(random, random_programs_do_what_the_oracle_says);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
