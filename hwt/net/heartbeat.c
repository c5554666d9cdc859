/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Heartbeats and idle limits. See heartbeat.h for what they do; this is written on the public
 * header alone.
 *
 * Phases:
 *     STOPPED     zeroed, or stopped by its own callback, which may start it anew
 *     STARTING    a thread is in hwt_heartbeat_start(); it waits for a callback that still runs
 *     STARTED
 *     BARRED      stopped by anybody else; as STOPPED, but the callback that may be running
 *                 cannot start it
 *
 * GROUND RULES
 *
 * state     Number of the life, and its phase. Changed by compare-exchange only, but by the
 *           thread that has set STARTING. Acquire on every load that decides, release on every
 *           change.
 *
 * timeout   Of the last life, kept after its end: to wait for the return of its callback is to
 *           wait for that of its task. Written while STARTING, read by who stops. Its words are
 *           read before the exchange of `state`; that it has not changed since, the number
 *           of the life proves. The timeout is armed for HWT_NEVER first, and moved
 *           when STARTED is visible, so its task never meets STARTING.
 *
 * last_...  Anybody's; only ever newer within a life.
 *
 * the rest  The task's, and in between the starter's, who has waited for the task's return.
 *
 * A callback on this thread finds itself in `looks`. What it stops is not cancelled: the look
 * sees `stopped`, touches the object no more, and does not re-arm the timeout, which
 * ends with that. What it then starts anew keeps the timeout, so that whoever cancels that
 * still waits for this callback.
 */

#include "hwt/heartbeat.h"

#include <errno.h>
#include <string.h>

enum { STOPPED, STARTING, STARTED, BARRED, PHASE_MASK = 3, ONE_LIFE = 4 };

/* A task that is running on this thread, and the one it runs inside of. */
struct look {
    hwt_heartbeat *heartbeat;
    hwt_timeout timeout;
    uint64_t life; /* the state word of the life it looks after */
    bool stopped;  /* by its callback: the object may be gone */
    struct look *outer;
};

static _Thread_local struct look *looks __attribute__((tls_model("initial-exec")));

static uint64_t state_of(const hwt_heartbeat *heartbeat)
{
    return __atomic_load_n(&heartbeat->state, __ATOMIC_ACQUIRE);
}

static bool exchange(hwt_heartbeat *heartbeat, uint64_t *seen, uint64_t state)
{
    return __atomic_compare_exchange_n(&heartbeat->state, seen, state, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static uint64_t with_phase(uint64_t state, unsigned phase)
{
    return (state & ~(uint64_t)PHASE_MASK) | phase;
}

/* Relaxed, here and below: the exchange of `state` says whether it was of use. */
static hwt_timeout timeout_of(const hwt_heartbeat *heartbeat)
{
    return (hwt_timeout){ __atomic_load_n(&heartbeat->timeout.entry, __ATOMIC_RELAXED),
                          __atomic_load_n(&heartbeat->timeout.generation, __ATOMIC_RELAXED) };
}

static void set_timeout(hwt_heartbeat *heartbeat, hwt_timeout timeout)
{
    __atomic_store_n(&heartbeat->timeout.entry, timeout.entry, __ATOMIC_RELAXED);
    __atomic_store_n(&heartbeat->timeout.generation, timeout.generation, __ATOMIC_RELAXED);
}

/* The look that this call comes out of; another object may be where a freed one was. */
static struct look *own_look(const hwt_heartbeat *heartbeat)
{
    hwt_timeout timeout = timeout_of(heartbeat);
    for (struct look *look = looks; look; look = look->outer) {
        if (look->heartbeat == heartbeat && look->timeout.entry == timeout.entry &&
            look->timeout.generation == timeout.generation)
            return look;
    }
    return NULL;
}

/* ---- when an event is due ---- */

static uint64_t limit_of(const hwt_heartbeat_rules *rules, hwt_heartbeat_event event)
{
    switch (event) {
    case HWT_HEARTBEAT_DEAD:
        return rules->dead;
    case HWT_HEARTBEAT_READER_IDLE:
        return rules->reader_idle;
    case HWT_HEARTBEAT_WRITER_IDLE:
        return rules->writer_idle;
    case HWT_HEARTBEAT_ALL_IDLE:
        return rules->all_idle;
    default:
        return rules->send;
    }
}

static uint64_t activity_of(const hwt_heartbeat *heartbeat, hwt_heartbeat_event event)
{
    uint64_t read = __atomic_load_n(&heartbeat->last_read, __ATOMIC_RELAXED);
    uint64_t written = __atomic_load_n(&heartbeat->last_written, __ATOMIC_RELAXED);
    switch (event) {
    case HWT_HEARTBEAT_DEAD:
    case HWT_HEARTBEAT_READER_IDLE:
        return read;
    case HWT_HEARTBEAT_WRITER_IDLE:
        return written;
    case HWT_HEARTBEAT_ALL_IDLE:
        return read > written ? read : written;
    default:
        return read < written ? read : written;
    }
}

/* A limit after the activity or the last event, whichever is later. */
static uint64_t due_after(const hwt_heartbeat *heartbeat, hwt_heartbeat_event event,
                          uint64_t activity)
{
    uint64_t limit = limit_of(heartbeat->rules, event);
    uint64_t last = heartbeat->past[event].due;
    uint64_t from = activity > last ? activity : last;
    return limit == 0 || from > HWT_NEVER - limit ? HWT_NEVER : from + limit;
}

static uint64_t next_due(const hwt_heartbeat *heartbeat)
{
    uint64_t next = HWT_NEVER;
    for (int event = 0; event <= HWT_HEARTBEAT_SEND; event++) {
        uint64_t due = due_after(heartbeat, event, activity_of(heartbeat, event));
        next = due < next ? due : next;
    }
    return next;
}

/* ---- a look ---- */

/* Tells of `event` if it is due and nobody has stopped the object. */
static void tell(const struct look *look, hwt_heartbeat_event event, uint64_t now)
{
    hwt_heartbeat *heartbeat = look->heartbeat;
    uint64_t activity = activity_of(heartbeat, event);
    uint64_t due = due_after(heartbeat, event, activity);
    if (due > now || due == HWT_NEVER || state_of(heartbeat) != look->life)
        return;

    const hwt_heartbeat_rules *rules = heartbeat->rules;
    struct hwt_heartbeat_past *past = &heartbeat->past[event];
    uint64_t limit = limit_of(rules, event);
    uint64_t missed = now > due ? (now - due - 1) / limit : 0;
    past->count = activity == past->activity ? past->count + 1 : 1;
    past->activity = activity;
    past->due = due + missed * limit;
    rules->notify(heartbeat, event, past->count, heartbeat->arg);
}

static void look_at(hwt_timeout timeout, void *arg)
{
    hwt_heartbeat *heartbeat = arg;
    struct look look = { heartbeat, timeout, state_of(heartbeat), false, looks };
    uint64_t now = hwt_timer_now(heartbeat->timer);
    if ((look.life & PHASE_MASK) != STARTED)
        return;
    looks = &look;
    for (int event = 0; event <= HWT_HEARTBEAT_SEND && !look.stopped; event++)
        tell(&look, event, now);
    looks = look.outer;
    if (!look.stopped)
        hwt_timeout_reschedule_at(timeout, next_due(heartbeat));
}

static const hwt_task look_task = { look_at, NULL };

/* ---- start ---- */

/* What was noted meanwhile stays, if it is newer; what the last life has left does not. */
static void begin_life(hwt_heartbeat *heartbeat, hwt_timer *timer, const hwt_heartbeat_rules *rules,
                       void *arg)
{
    uint64_t *notes[] = { &heartbeat->last_read, &heartbeat->last_written };
    uint64_t old[] = { __atomic_load_n(notes[0], __ATOMIC_RELAXED),
                       __atomic_load_n(notes[1], __ATOMIC_RELAXED) };
    uint64_t now = hwt_timer_now(timer);
    for (int i = 0; i < 2; i++) {
        if (!__atomic_compare_exchange_n(notes[i], &old[i], now, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            hwt_heartbeat_note(notes[i], now);
    }
    __atomic_store_n(&heartbeat->timer, timer, __ATOMIC_RELAXED);
    heartbeat->rules = rules;
    heartbeat->arg = arg;
    memset(heartbeat->past, 0, sizeof(heartbeat->past));
}

static int start_again(struct look *own, hwt_timer *timer, const hwt_heartbeat_rules *rules,
                       void *arg)
{
    hwt_heartbeat *heartbeat = own->heartbeat;
    uint64_t state = state_of(heartbeat);
    if ((state & PHASE_MASK) == STOPPED) {
        if (timer != heartbeat->timer)
            return -EBUSY;
        uint64_t life = with_phase(state + ONE_LIFE, STARTED);
        begin_life(heartbeat, timer, rules, arg);
        if (exchange(heartbeat, &state, life)) {
            own->life = life;
            own->stopped = false;
            return 0;
        }
    }
    return (state & PHASE_MASK) == BARRED ? -ECANCELED : -EALREADY;
}

int hwt_heartbeat_start(hwt_heartbeat *heartbeat, hwt_timer *timer,
                        const hwt_heartbeat_rules *rules, void *arg)
{
    if (!heartbeat || !timer || !rules || !rules->notify)
        return -EINVAL;
    struct look *own = own_look(heartbeat);
    if (own)
        return start_again(own, timer, rules, arg);

    uint64_t state = state_of(heartbeat);
    do {
        if ((state & PHASE_MASK) == STARTING || (state & PHASE_MASK) == STARTED)
            return -EALREADY;
    } while (!exchange(heartbeat, &state, with_phase(state, STARTING)));

    hwt_timeout_cancel_sync(timeout_of(heartbeat));
    hwt_timeout timeout;
    int r = hwt_timer_new_timeout_at(timer, &look_task, heartbeat, HWT_NEVER, &timeout);
    if (r < 0) {
        __atomic_store_n(&heartbeat->state, state, __ATOMIC_RELEASE);
        return r;
    }
    begin_life(heartbeat, timer, rules, arg);
    set_timeout(heartbeat, timeout);
    uint64_t due = next_due(heartbeat);
    __atomic_store_n(&heartbeat->state, with_phase(state + ONE_LIFE, STARTED), __ATOMIC_RELEASE);
    /* From here on, another thread may stop it, and free it. */
    hwt_timeout_reschedule_at(timeout, due);
    return 0;
}

/* ---- stop ---- */

static bool stop_own(struct look *own)
{
    uint64_t state = own->life;
    own->stopped = true;
    return exchange(own->heartbeat, &state, with_phase(state, STOPPED));
}

static bool stop(hwt_heartbeat *heartbeat, bool (*cancel)(hwt_timeout timeout))
{
    if (!heartbeat)
        return false;
    struct look *own = own_look(heartbeat);
    if (own)
        return stop_own(own);

    uint64_t state = state_of(heartbeat);
    hwt_timeout timeout;
    do {
        if ((state & PHASE_MASK) == STARTING)
            return false;
        timeout = timeout_of(heartbeat);
    } while (!exchange(heartbeat, &state, with_phase(state, BARRED)));
    cancel(timeout);
    return (state & PHASE_MASK) == STARTED;
}

bool hwt_heartbeat_stop(hwt_heartbeat *heartbeat)
{
    return stop(heartbeat, hwt_timeout_cancel);
}

bool hwt_heartbeat_stop_sync(hwt_heartbeat *heartbeat)
{
    return stop(heartbeat, hwt_timeout_cancel_sync);
}

/* ---- notes ---- */

void hwt_heartbeat_read(hwt_heartbeat *heartbeat)
{
    const hwt_timer *timer = __atomic_load_n(&heartbeat->timer, __ATOMIC_RELAXED);
    hwt_heartbeat_read_at(heartbeat, hwt_timer_now(timer));
}

void hwt_heartbeat_written(hwt_heartbeat *heartbeat)
{
    const hwt_timer *timer = __atomic_load_n(&heartbeat->timer, __ATOMIC_RELAXED);
    hwt_heartbeat_written_at(heartbeat, hwt_timer_now(timer));
}
