/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_MODEL_CALLS_H
#define HWT_TESTS_MODEL_CALLS_H

/*
 * For model_timer.c: the public calls with arguments at random, each with what the oracle
 * says that it must answer. They are made between advances and from inside of tasks alike.
 */

#include "model.h"

#include <string.h>

static void task_run(hwt_timeout handle, void *arg);
static void task_told(hwt_timeout handle, void *arg);

static const hwt_task task_quiet = { task_run, NULL };
static const hwt_task task_telling = { task_run, task_told };

static uint64_t model_clock(void *data)
{
    (void)data;
    return model.clock;
}

/* ---- numbers at random ---- */

static uint64_t below(uint64_t limit)
{
    return test_random(&model.random) % limit;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static uint64_t any_magnitude(void)
{
    return test_random(&model.random) >> below(64);
}

/* Around a few revolutions, a tick and a nanosecond more or less. */
static uint64_t random_revolutions(void)
{
    uint64_t ticks = below(6) * model.wheel + below(3);
    uint64_t delay = ticks ? product(ticks - 1, model.tick) : 0;

    return difference(sum(delay, below(3)), 1);
}

/* To the end of a tick near by, a nanosecond more or less. */
static uint64_t random_boundary(void)
{
    uint64_t end = tick_end(sum(tick_of(model.clock), below(4)));

    return difference(sum(end, below(3)), sum(model.clock, 1));
}

static uint64_t random_delay(void)
{
    switch (below(12)) {
    case 0:
        return below(2);
    case 1:
        return below(model.tick);
    case 2:
    case 3:
        return random_revolutions();
    case 4:
        return random_boundary();
    case 5:
        return any_magnitude();
    case 6:
        return one_in(4) ? HWT_NEVER : below(product(model.tick, 4));
    case 7:
        return below(product(product(model.tick, model.wheel), 3));
    case 8:
        return below(product(model.tick, model.wheel));
    default:
        return below(product(model.tick, 40));
    }
}

/* Mostly to come; also gone by, and before the timer's start. */
static uint64_t random_deadline(void)
{
    if (one_in(8))
        return difference(model.clock, random_delay());
    return sum(model.clock, random_delay());
}

static struct item *random_item(void)
{
    if (model.count == 0)
        return NULL;
    if (model.live_count && !one_in(6))
        return live_item(below(model.live_count));
    return &model.items[below(model.count)];
}

/* ---- the calls, each with what it must answer ---- */

static void call_new(void)
{
    struct item *item = &model.items[model.count];
    hwt_timeout handle = { NULL, 77 };
    uint64_t deadline = random_deadline();
    const hwt_task *task;
    int r;

    if (model.count == model.limit)
        return;
    memset(item, 0, sizeof *item);
    item->told = one_in(2);
    item->known = !one_in(32);
    task = item->told ? &task_telling : &task_quiet;
    if (one_in(2) && deadline >= model.clock)
        r = hwt_timer_new_timeout(model.timer, task, item, deadline - model.clock,
                                  item->known ? &handle : NULL);
    else
        r = hwt_timer_new_timeout_at(model.timer, task, item, deadline,
                                     item->known ? &handle : NULL);
    model.changes++;
    if (r == 0) {
        model_added(item, handle, deadline);
    } else {
        must(handle.entry == NULL && handle.generation == 77);
        model_refused(r);
    }
}

static void call_cancel(struct item *item)
{
    bool expected = item->pending;
    bool sync = one_in(3);

    if (!item->known)
        return;
    model.changes++;
    must((sync ? hwt_timeout_cancel_sync : hwt_timeout_cancel)(item->handle) == expected);
    if (item->running)
        item->sealed = true;
    if (expected)
        model_cancelled(item);
}

static void call_reschedule(struct item *item)
{
    bool expected = item->pending || (item->running && !item->sealed);
    uint64_t deadline = random_deadline();
    bool r;

    if (!item->known)
        return;
    model.changes++;
    if (one_in(2) && deadline >= model.clock)
        r = hwt_timeout_reschedule(item->handle, deadline - model.clock);
    else
        r = hwt_timeout_reschedule_at(item->handle, deadline);
    must(r == expected);
    if (r)
        model_rescheduled(item, deadline);
}

/* A busy timeout is moved at each packet, a little later each time. */
static void call_push_back(struct item *item)
{
    uint64_t deadline = sum(item->deadline, below(product(model.tick, 3)));

    if (!item->known || !item->pending)
        return;
    model.changes++;
    must(hwt_timeout_reschedule_at(item->handle, deadline));
    model_rescheduled(item, deadline);
}

static void call_repeat(struct item *item)
{
    uint64_t period = one_in(8) ? sum(any_magnitude(), 1) : 1 + below(product(model.tick, 20));
    bool expected = item->running && !item->sealed;
    uint64_t next;

    if (!item->known || (item->running && item->pending))
        return;
    must(!hwt_timeout_repeat(item->handle, 0));
    if (item->running && !model.reads_clock)
        return;
    model.changes++;
    must(hwt_timeout_repeat(item->handle, period) == expected);
    if (!expected)
        return;
    next = model_repeated(item->deadline, period);
    model_rescheduled(item, next);
    must(hwt_timeout_remaining(item->handle) ==
         (next == HWT_NEVER ? HWT_NEVER : difference(next, model.clock)));
}

static void check_item(const struct item *item)
{
    hwt_state state;
    uint64_t remaining;

    if (!item->known)
        return;
    state = hwt_timeout_state(item->handle);
    remaining = hwt_timeout_remaining(item->handle);
    if (item->pending) {
        must(state == HWT_PENDING);
        if (item->deadline == HWT_NEVER)
            must(remaining == HWT_NEVER);
        else
            must(remaining == difference(item->deadline, model.clock));
        return;
    }
    must(remaining == 0);
    if (item->running && !item->cancelled)
        must(state == HWT_EXPIRED);
    else
        must(state == HWT_GONE || state == (item->cancelled ? HWT_CANCELLED : HWT_EXPIRED));
}

static void call_nonsense(void)
{
    static const hwt_task no_run = { NULL, task_told };
    hwt_timeout zero = { NULL, 0 };
    hwt_timeout out = { NULL, 77 };

    must(!hwt_timeout_cancel(zero) && !hwt_timeout_cancel_sync(zero));
    must(!hwt_timeout_reschedule(zero, 1) && !hwt_timeout_reschedule_at(zero, 1));
    must(!hwt_timeout_repeat(zero, 1) && hwt_timeout_remaining(zero) == 0);
    must(hwt_timeout_state(zero) != HWT_PENDING);
    must(hwt_timer_new_timeout(model.timer, NULL, NULL, 0, &out) == -EINVAL);
    must(hwt_timer_new_timeout_at(model.timer, &no_run, NULL, 0, &out) == -EINVAL);
    must(out.entry == NULL && out.generation == 77);
    must(hwt_timer_now(model.timer) == model.clock);
    if (!model.stopping && !model.stopped)
        must(hwt_timer_start(model.timer) == 0);
}

/* From inside a task, the timer can be neither driven nor stopped. */
static void call_from_inside(void)
{
    must(hwt_timer_advance(model.timer, UINT64_MAX) == 0);
    must(hwt_timer_dispatch(model.timer) == 0);
    hwt_timer_next_tick(model.timer);
    must(hwt_timer_stop(model.timer, NULL, NULL) == -EDEADLK);
}

static void call_any(struct item *item)
{
    switch (below(9)) {
    case 0:
    case 1:
        call_new();
        break;
    case 2:
        call_cancel(item);
        break;
    case 3:
    case 4:
        call_reschedule(item);
        break;
    case 5:
        call_push_back(item);
        break;
    case 6:
        call_repeat(item);
        break;
    default:
        check_item(item);
        break;
    }
}

#endif
