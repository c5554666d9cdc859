/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SIMULATE_CALLS_H
#define HWT_TESTS_SIMULATE_CALLS_H

/*
 * For simulate_run.c: the operations on timeouts, each with what the oracle says that it must
 * answer, and with its line in the journal.
 */

#include "simulate_state.h"

/* ---- adding ---- */

static void task_run(hwt_timeout handle, void *arg);
static void task_told(hwt_timeout handle, void *arg);

static const hwt_task task_quiet = { task_run, NULL };
static const hwt_task task_telling = { task_run, task_told };

/* What so many must answer, in C; NULL: that is not said, or not the same for all. */
static const char *answer_to_new(uint64_t count)
{
    if (model.stopping || model.stopped)
        return "-ESHUTDOWN";
    if (!model.max_pending || model.live_count + model_untold() + count <= model.max_pending)
        return "0";
    return model.places >= model.max_pending ? "-ENOBUFS" : NULL;
}

static void say_new(uint32_t id, const struct item *item, bool relative, uint64_t when)
{
    const char *answer = answer_to_new(1);
    char out[32] = "NULL";
    if (item->known)
        snprintf(out, sizeof out, "&t[%u]", id);
    say("%shwt_timer_new_timeout%s(timer, &%s, &t[%u], %s, %s)%s%s%s;",
        answer ? "ck_assert_int_eq(" : "(void)", relative ? "" : "_at",
        item->told ? "telling" : "quiet", id, number(when), out, answer ? ", " : "",
        answer ? answer : "", answer ? ")" : "");
}

static bool has_room(uint32_t id)
{
    return model.count < IDS_MAX && id < IDS_MAX && !sim.by_id[id];
}

static void sit_down(struct item *item, uint32_t id, hwt_timeout handle, uint64_t deadline)
{
    sim.by_id[id] = item;
    *seat_of(item) = (struct seat){ .id = id };
    model_added(item, handle, deadline);
}

static void add_one(const struct operation *op, uint32_t id, uint64_t deadline, bool said)
{
    struct item *item = &model.items[model.count];
    bool relative = is_relative(op, deadline);
    uint64_t when = relative ? delay_of(deadline) : deadline;
    hwt_timeout handle = { NULL, 77 };

    if (!has_room(id))
        return;
    *item = (struct item){ .told = op->numbers[HOW] & HOW_TOLD,
                           .known = !(op->numbers[HOW] & HOW_UNASKED) || sim.has_executor };
    if (simulate_journal && !said)
        say_new(id, item, relative, when);
    model.changes++;
    int r = (relative ? hwt_timer_new_timeout : hwt_timer_new_timeout_at)(
        model.timer, item->told ? &task_telling : &task_quiet, item, when,
        item->known ? &handle : NULL);
    if (r < 0) {
        must(handle.entry == NULL && handle.generation == 77);
        model_refused(r);
        return;
    }
    must(r == 0);
    sit_down(item, id, handle, deadline);
}

static void do_new(const struct operation *op)
{
    add_one(op, op->target, instant_of(op), false);
}

/* As a loop, if they all answer the same. */
static bool say_crowd(const struct operation *op, uint64_t deadline, uint64_t count)
{
    const char *answer = answer_to_new(count);
    if (!answer || count == 0 || sum(deadline, product(count, op->numbers[STRIDE])) == HWT_NEVER)
        return false;
    say("for (unsigned k = 0; k < %" PRIu64 "; k++)", count);
    say("    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &%s, &t[%u + k], %s + k * %s, "
        "&t[%u + k]), %s);",
        op->numbers[HOW] & HOW_TOLD ? "telling" : "quiet", op->target, number(deadline),
        number(op->numbers[STRIDE]), op->target, answer);
    return true;
}

static void do_crowd(const struct operation *op)
{
    const struct operation at = { .numbers = { [HOW] = op->numbers[HOW] & HOW_TOLD } };
    uint64_t deadline = instant_of(op);
    uint64_t count = op->numbers[COUNT] < CROWD_MAX ? op->numbers[COUNT] : CROWD_MAX;
    bool said = simulate_journal && say_crowd(op, deadline, count);
    for (uint32_t i = 0; i < count; i++)
        add_one(&at, op->target + i, sum(deadline, product(i, op->numbers[STRIDE])), said);
}

static void do_window(const struct operation *op)
{
    struct item *item = &model.items[model.count];
    uint64_t earliest = difference(instant_of(op), model.clock);
    uint64_t latest = sum(earliest, op->numbers[COUNT]);
    const char *answer = answer_to_new(1);
    hwt_timeout handle = { NULL, 77 };

    if (!has_room(op->target))
        return;
    *item = (struct item){ .told = op->numbers[HOW] & HOW_TOLD, .known = true };
    say("%shwt_timer_new_timeout_within(timer, &%s, &t[%u], %s, %s, &t[%u])%s%s%s;",
        answer ? "ck_assert_int_eq(" : "(void)", item->told ? "telling" : "quiet", op->target,
        number(earliest), number(latest), op->target, answer ? ", " : "", answer ? answer : "",
        answer ? ")" : "");
    model.changes++;
    int r = hwt_timer_new_timeout_within(model.timer, item->told ? &task_telling : &task_quiet,
                                         item, earliest, latest, &handle);
    if (r < 0) {
        must(handle.entry == NULL && handle.generation == 77);
        model_refused(r);
        return;
    }
    uint64_t chosen;
    must(hwt_timeout_get(handle, &chosen, NULL, NULL) == 0);
    expect(sum(model.clock, earliest) <= chosen,
           "ck_assert_uint_ge(hwt_timeout_remaining(t[%u]), %s);", op->target, number(earliest));
    expect(chosen <= sum(model.clock, latest),
           "ck_assert_uint_le(hwt_timeout_remaining(t[%u]), %s);", op->target, number(latest));
    sit_down(item, op->target, handle, chosen);
}

/* ---- on a handle ---- */

static hwt_timeout handle_of(const struct item *item)
{
    static const hwt_timeout none;
    return item ? item->handle : none;
}

static void do_cancel(const struct operation *op, struct item *item)
{
    bool sync = op->numbers[HOW] & HOW_SYNC;
    bool expected = item && item->pending;

    say("ck_assert_int_eq(hwt_timeout_cancel%s(t[%u]), %d);", sync ? "_sync" : "", op->target,
        expected);
    model.changes++;
    must((sync ? hwt_timeout_cancel_sync : hwt_timeout_cancel)(handle_of(item)) == expected);
    if (item && item->running)
        item->sealed = true;
    if (expected)
        model_cancelled(item);
}

static void do_reschedule(const struct operation *op, struct item *item)
{
    uint64_t deadline = instant_of(op);
    bool relative = is_relative(op, deadline);
    uint64_t when = relative ? delay_of(deadline) : deadline;
    bool expected = item && (item->pending || (item->running && !item->sealed));

    say("ck_assert_int_eq(hwt_timeout_reschedule%s(t[%u], %s), %d);", relative ? "" : "_at",
        op->target, number(when), expected);
    model.changes++;
    must((relative ? hwt_timeout_reschedule : hwt_timeout_reschedule_at)(handle_of(item), when) ==
         expected);
    if (expected)
        model_rescheduled(item, deadline);
}

static void do_repeat(const struct operation *op, struct item *item)
{
    uint64_t period = distance_of(op);
    bool expected = item && item->running && !item->sealed && period > 0;

    say("ck_assert_int_eq(hwt_timeout_repeat(t[%u], %s), %d);", op->target, number(period),
        expected);
    model.changes++;
    must(hwt_timeout_repeat(handle_of(item), period) == expected);
    if (!expected)
        return;
    uint64_t next = model_repeated(seat_of(item)->ran_for, period);
    uint64_t remaining = next == HWT_NEVER ? HWT_NEVER : difference(next, model.clock);
    expect(hwt_timeout_remaining(item->handle) == remaining,
           "ck_assert_uint_eq(hwt_timeout_remaining(t[%u]), %s);", op->target, number(remaining));
    model_rescheduled(item, next);
}

/* How a timeout that is not pending answers, unless its memory serves another. */
static hwt_state ended_state(const struct item *item)
{
    if (!item)
        return HWT_GONE;
    return item->cancelled ? HWT_CANCELLED : HWT_EXPIRED;
}

static void check_state(uint32_t id, const struct item *item)
{
    static const char *const names[] = { "HWT_PENDING", "HWT_EXPIRED", "HWT_CANCELLED",
                                         "HWT_GONE" };
    bool pending = item && item->pending;
    bool maybe_gone = !pending && !(item && item->running);
    hwt_state expected = pending ? HWT_PENDING : ended_state(item);
    hwt_state state = hwt_timeout_state(handle_of(item));

    if (maybe_gone)
        expect(state == expected || state == HWT_GONE,
               "ck_assert(hwt_timeout_state(t[%u]) == %s || hwt_timeout_state(t[%u]) == HWT_GONE);",
               id, names[expected], id);
    else
        expect(state == expected, "ck_assert_int_eq(hwt_timeout_state(t[%u]), %s);", id,
               names[expected]);
}

static void check_remaining(uint32_t id, const struct item *item)
{
    uint64_t expected = 0;
    if (item && item->pending)
        expected =
            item->deadline == HWT_NEVER ? HWT_NEVER : difference(item->deadline, model.clock);
    expect(hwt_timeout_remaining(handle_of(item)) == expected,
           "ck_assert_uint_eq(hwt_timeout_remaining(t[%u]), %s);", id, number(expected));
}

/* Nobody has its handle, or a stop without a visitor has ended it already, or not yet. */
static bool is_out_of_sight(const struct item *item)
{
    return item &&
           (!item->known || (model.stopping && !model.visiting && item->pending && !item->told));
}

static void check_handle(uint32_t id, const struct item *item)
{
    if (is_out_of_sight(item))
        return;
    check_state(id, item);
    check_remaining(id, item);
}

static void do_ask_all(void)
{
    for (size_t i = 0; i < model.count; i++)
        check_handle(seat_of(&model.items[i])->id, &model.items[i]);
}

/* One of the operations above that have a target. */
static void do_with_handle(const struct operation *op)
{
    struct item *item = item_of(op->target);
    if (is_out_of_sight(item))
        return;
    switch (op->kind) {
    case OP_CANCEL:
        do_cancel(op, item);
        break;
    case OP_RESCHEDULE:
        do_reschedule(op, item);
        break;
    case OP_REPEAT:
        do_repeat(op, item);
        break;
    default:
        check_handle(op->target, item);
        break;
    }
}

#endif
