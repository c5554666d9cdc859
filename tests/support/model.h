/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_MODEL_H
#define HWT_TESTS_MODEL_H

/*
 * The oracle beside which model_timer.c and simulate.c run the timer: a plain array of everything
 * that was ever added, searched from end to end, with the promises of <hwt/hwt.h> written
 * down as directly as they can be said. It knows nothing of buckets, rounds or queues.
 *
 * A timeout is due in a tick: that of its deadline, or the next one not yet handled when
 * it was added, moved or re-armed, if that is later. An advance handles all ticks that have
 * ended by then. So everything in here is compared in ticks, and in nanoseconds once
 * more where a task starts: never before its deadline.
 *
 * What the contract leaves open, the oracle leaves open:
 * - a sibling that a task moves may run in the same advance or in the next one that handles
 *   a tick (`loose`);
 * - timeouts of one tick that were moved or re-armed run in any order (`moved`);
 * - hwt_timer_next_tick() may name the tick from which a timeout was pushed back (`seen`), the
 *   earliest that it was ever moved to, and any before that for one that is 2^29 ticks away, or was moved by a callback,
 *   while the timer was half-way through its timeouts (`vague`); with a store whose next tick
 *   is a bound, any from the next one to handle on.
 */

#include "check_main.h"
#include "model_store.h"
#include "one_thread.h"

#include <hwt/hwt.h>

#include <errno.h>

#define MODEL_FILES_LATE ((MODEL_FLAGS & HWT_ONE_THREAD) != 0)

struct item {
    hwt_timeout handle;
    bool known;   /* the handle is: it was not asked for, and its task has not run yet, if not */
    bool told;    /* its task has a `cancelled` */
    bool pending; /* in model.live at [live_index] */
    bool place;   /* pending, and counts against max_pending */
    bool running; /* its task is on the stack */
    bool sealed;  /* cancelled during its task: can no longer re-arm itself */
    bool cancelled;
    bool telling; /* `cancelled` has yet to be called */
    bool moved;
    bool loose;
    bool queued;  /* added or moved earlier, and not filed since */
    bool rearmed; /* in the last advance: queued, or filed when its task returned */
    bool vague;
    bool submitted; /* handed to the executor, which has not run its work yet */
    unsigned ends;  /* runs that were the last, `cancelled`s, visits: one in all */
    uint64_t deadline;
    uint64_t due;          /* the tick in which it has to run */
    uint64_t seen;         /* the tick at which the wheel may still have it, at most `due` */
    uint64_t cancelled_in; /* number of the advance before which it was cancelled */
    size_t live_index;
};

struct model {
    hwt_timer *timer;
    uint64_t seed, random, program, step;

    uint64_t start, tick, wheel, max_pending;
    uint64_t clock;
    uint64_t current; /* the next tick not yet handled */
    bool reads_clock; /* repeats: then the clock stands while tasks run */

    bool advancing, moving;           /* in an advance; that handles a tick */
    bool telling;                     /* in a `cancelled` */
    bool stopping, visiting, stopped; /* in hwt_timer_stop(), with a visitor; after it */
    uint64_t now, advances, runs, last_due;
    size_t last_item;
    uint64_t changes, left;

    struct item *items;
    size_t count, limit;
    size_t *live;
    size_t live_count, places;

    uint64_t added, expired, cancelled, rescheduled, rejected, unprocessed;
};

static struct model model;

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            MODEL_FAILED(#condition, __FILE__, __LINE__);                                          \
    } while (0)

/* A program that has its own, which does not return, defines this before. */
#ifndef MODEL_FAILED
#define MODEL_FAILED model_failed
static inline void model_failed(const char *condition, const char *file, int line)
{
    ck_abort_msg("%s:%d: not so: %s\n  seed %" PRIu64 ", program %" PRIu64 ", step %" PRIu64
                 " (start %" PRIu64 ", tick %" PRIu64 ", wheel %" PRIu64 ", clock %" PRIu64
                 ", next tick to handle %" PRIu64 ", %zu pending)",
                 file, line, condition, model.seed, model.program, model.step, model.start,
                 model.tick, model.wheel, model.clock, model.current, model.live_count);
}
#endif

/* ---- arithmetic that saturates ---- */

static inline uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t product(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static inline uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline uint64_t tick_of(uint64_t instant)
{
    return difference(instant, model.start) / model.tick;
}

/* As a task sees it: by the clock, or by what the timer was told. */
static inline uint64_t model_now(void)
{
    return model.now > model.clock ? model.now : model.clock;
}

/* The first instant at which this tick is handled. */
static inline uint64_t tick_end(uint64_t tick)
{
    return sum(model.start, product(sum(tick, 1), model.tick));
}

/* ---- the array of what is pending ---- */

static inline void live_add(struct item *item)
{
    item->pending = true;
    item->live_index = model.live_count;
    model.live[model.live_count++] = (size_t)(item - model.items);
}

static inline void live_remove(struct item *item)
{
    size_t last = model.live[--model.live_count];

    model.live[item->live_index] = last;
    model.items[last].live_index = item->live_index;
    item->pending = false;
    model.places -= item->place;
    item->place = false;
}

/* The last tick that ends before HWT_NEVER. */
static inline uint64_t last_tick(void)
{
    uint64_t never = tick_of(HWT_NEVER);

    return never > 0 ? never - 1 : 0;
}

static inline struct item *live_item(size_t index)
{
    return &model.items[model.live[index]];
}

/* Filed at the tick `from`: one that is an age away is looked at on the way. */
static inline void model_check_far(struct item *item, uint64_t from)
{
    if (item->due - from >= (UINT64_C(1) << 29) - 1)
        item->vague = true;
}

/*
 * Says in which tick the item is due from now on, and from which the wheel may show it: the
 * tick it was filed for, which a later deadline does not change.
 */
static inline void model_file(struct item *item, uint64_t deadline, bool anew)
{
    uint64_t tick = tick_of(deadline);

    /* Moved to earlier, and to later again before that was read: the wheel keeps what it had. */
    if (!anew && item->queued && deadline > item->deadline)
        item->vague = true;
    if (anew || deadline < item->deadline)
        item->queued = true;
    item->deadline = deadline;
    item->due = tick > model.current ? tick : model.current;
    /* Once time is HWT_NEVER the last tick that ends is the one for all that is added. */
    if (item->due > last_tick() && tick <= last_tick())
        item->due = last_tick();
    if (anew)
        item->vague = false;
    else if (item->rearmed)
        item->vague = true;
    if (anew || item->due < item->seen)
        item->seen = item->due;
    model_check_far(item, model.current);
    if (model.telling || (model.advancing && !anew)) {
        item->vague = true;
        item->queued = false;
    }
}

/* The timer files all that was added or moved; with one thread it may do so later, and does not say
 * when. */
static inline void model_filing(void)
{
    for (size_t i = 0; i < model.live_count; i++) {
        live_item(i)->queued &= MODEL_FILES_LATE;
        live_item(i)->rearmed = false;
    }
}

/* ---- what the calls do, where they succeed ---- */

static inline void model_added(struct item *item, hwt_timeout handle, uint64_t deadline)
{
    must(!model.stopping && !model.stopped);
    must(!model.max_pending || model.places < model.max_pending);
    item->handle = handle;
    item->place = true;
    model.places++;
    model.added++;
    model.count++;
    live_add(item);
    model_file(item, deadline, true);
    /* a `cancelled` may come early in an advance: what it adds may still run in that */
    item->loose = model.advancing && model.telling;
    item->moved |= item->loose;
}

/* Cancelled, and not told yet, or in the executor's hands, or its own task has armed it again and has
 * not returned. */
static inline bool keeps_place(const struct item *item)
{
    return item->telling || (item->cancelled && (item->submitted || item->running));
}

/* How many were cancelled and keep their places. */
static inline size_t model_untold(void)
{
    size_t untold = 0;
    for (size_t i = 0; i < model.count; i++)
        untold += keeps_place(&model.items[i]);
    return untold;
}

static inline void model_refused(int r)
{
    if (model.stopping || model.stopped) {
        must(r == -ESHUTDOWN);
        return;
    }
    must(r == -ENOBUFS);
    must(model.max_pending && model.live_count + model_untold() >= model.max_pending);
    model.rejected++;
}

static inline void model_cancelled(struct item *item)
{
    live_remove(item);
    item->cancelled = true;
    item->cancelled_in = model.advances;
    item->telling = item->told;
    item->ends += !item->told;
    model.cancelled++;
}

static inline void model_rescheduled(struct item *item, uint64_t deadline)
{
    bool rearmed = item->running;

    if (!item->pending)
        live_add(item);
    model_file(item, deadline, rearmed);
    item->moved = true;
    item->loose = model.advancing && !rearmed;
    model.rescheduled++;
}

/*
 * The deadline that a repeat gives: the first instant of the sequence after `now`; for a run in
 * the very tick after its deadline, the next instant of the sequence, if it is not before the
 * tick that has just begun.
 */
static inline uint64_t model_repeated(uint64_t last, uint64_t period)
{
    uint64_t now = model_now();
    uint64_t begin = model.start + product(tick_of(now), model.tick);
    uint64_t next = sum(last, period);

    if (next <= now && !(sum(last, model.tick) >= begin && next >= begin))
        next = sum(last, product(sum((now - last) / period, 1), period));
    return next;
}

/* ---- what the timer must do, as it does it ---- */

/* Added at first: earlier ticks first, and in one tick by order of adding. */
static inline void model_check_order(const struct item *item)
{
    size_t index = (size_t)(item - model.items) + 1;

    must(item->due < model.current);
    must(item->due >= model.last_due);
    if (item->due > model.last_due)
        model.last_item = 0;
    model.last_due = item->due;
    if (!item->moved) {
        must(index > model.last_item);
        model.last_item = index;
    }
}

/* The advance runs the item, or hands it to the executor. */
static inline void model_taken(struct item *item)
{
    must(model.advancing && model.moving && !model.telling);
    must(item->pending && !item->running && item->ends == 0);
    must(item->deadline <= model.now);
    must(tick_of(item->deadline) <= tick_of(model.now) - 1);
    if (!item->loose)
        model_check_order(item);
    item->loose = false;
    model.runs++;
}

static inline void model_run_begins(struct item *item, hwt_timeout handle)
{
    if (!item->submitted)
        model_taken(item);
    must(item->pending && !item->running && item->ends == 0);
    must(item->deadline <= model_now());
    if (!item->known)
        item->handle = handle;
    item->known = true;
    must(handle.entry == item->handle.entry && handle.generation == item->handle.generation);
    live_remove(item);
    item->running = true;
    item->sealed = item->submitted = false;
    model.expired++;
}

static inline void model_run_ends(struct item *item)
{
    must(item->running);
    item->running = false;
    item->rearmed = item->pending;
    item->queued = item->rearmed && MODEL_FILES_LATE;
    if (item->rearmed)
        model_check_far(item, model.last_due);
    if (!item->pending && !item->cancelled)
        item->ends++;
}

static inline void model_told(struct item *item, hwt_timeout handle)
{
    if (model.stopping && !model.visiting && item->pending) {
        live_remove(item);
        item->cancelled = item->telling = true;
        model.left++;
    }
    must(item->telling && !item->running && item->told);
    must(!item->known || handle.entry == item->handle.entry);
    must(!item->known || handle.generation == item->handle.generation);
    item->telling = false;
    item->ends++;
}

static inline void model_visited(struct item *item, uint64_t remaining)
{
    uint64_t expected = difference(item->deadline, model.clock);

    must(model.stopping && model.visiting && item->pending && !item->running);
    must(remaining == (item->deadline == HWT_NEVER ? HWT_NEVER : expected));
    live_remove(item);
    item->cancelled = true;
    item->ends++;
    model.left++;
}

static inline void model_advance_begins(uint64_t now)
{
    uint64_t horizon = tick_of(now > model.now ? now : model.now);

    model_filing();
    model.moving = horizon > model.current;
    if (model.moving)
        model.current = horizon;
    model.now = now > model.now ? now : model.now;
    model.runs = model.last_due = model.last_item = 0;
    model.advances++;
    model.advancing = true;
}

/* Nothing that was due is left, and those cancelled before have been told so. */
static inline void model_advance_ends(uint64_t ret)
{
    model.advancing = false;
    must(ret == model.runs);
    if (model.current > last_tick())
        model.current = last_tick();
    for (size_t i = 0; i < model.live_count; i++) {
        struct item *item = live_item(i);

        must(item->due >= model.current || item->submitted);
        item->loose = false;
        if (item->seen < model.current) {
            item->seen = item->due;
            model_check_far(item, model.current);
        }
    }
    for (size_t i = 0; model.moving && i < model.count; i++)
        must(!model.items[i].telling || model.items[i].submitted ||
             model.items[i].cancelled_in == model.advances);
}

/* Between which instants hwt_timer_next_tick() may answer. */
static inline void model_next_tick(uint64_t *ret_least, uint64_t *ret_most)
{
    uint64_t least = HWT_NEVER, most = HWT_NEVER;

    for (size_t i = 0; i < model.live_count; i++) {
        const struct item *item = live_item(i);
        uint64_t seen = tick_end(item->seen);
        uint64_t due = tick_end(item->due);

        if (item->submitted)
            continue;
        if (item->vague || (MODEL_NEXT_IS_A_BOUND && item->seen < tick_of(HWT_NEVER)))
            seen = tick_end(model.current);
        least = seen < least ? seen : least;
        most = due < most ? due : most;
    }
    *ret_least = least;
    *ret_most = most;
}

#endif
