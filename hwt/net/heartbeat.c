/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Heartbeats and idle limits. See heartbeat.h for what they do; this is written on the public
 * header alone.
 *
 * Phases:
 *     STOPPED     zeroed, or stopped by its own callback, which may start it anew
 *     AWAITING    a thread is in hwt_heartbeat_start(); it waits for a callback that still runs
 *     STARTING    it has waited, and makes the new life
 *     STARTED
 *     BARRED      stopped by anybody else; as STOPPED, but the callback that may be running
 *                 cannot start it
 *
 * GROUND RULES
 *
 * state     Number of the life, and its phase. Changed by compare-exchange only, but by the
 *           thread that has set AWAITING, whose it is until STARTED: by exchange to STARTING, by
 *           a store from there. Acquire on every load that decides, release on every change.
 *
 * timeout   Of the last life, kept after its end: to wait for the return of its callback is to
 *           wait for that of its task. Written while STARTING, read by those who stop. Its words
 *           are read before the exchange of `state`; that it has not changed since, the number of
 *           the life proves, and that exchange comes before the one to STARTING. The timeout is
 *           armed for HWT_NEVER first, and moved when STARTED is visible, so its task never meets
 *           STARTING.
 *
 * last_...  Anybody's; only ever newer within a life.
 *
 * the rest  The task's, and in between the starter's, who has waited for the task's return.
 *
 * A callback on this thread finds itself in `looks`. If it stops its object, the timeout is not
 * cancelled. The look sees `stopped`, touches the object no more, and does not re-arm the timeout,
 * which ends with that. If the callback then starts the object anew, the object keeps the timeout,
 * so that a thread that cancels that still waits for this callback.
 */

#define HWT_NO_INLINE /* what other programs have inline, this one defines */

#include "hwt/heartbeat.h"

#include <errno.h>
#include <string.h>

#include "hwt/base/own_task.h"

enum { STOPPED, AWAITING, STARTING, STARTED, BARRED, PHASE_MASK = 7, ONE_LIFE = 8 };

enum { EVENTS = HWT_HEARTBEAT_SEND + 1 };

_Static_assert(sizeof((hwt_heartbeat){ 0 }.due) == EVENTS * sizeof(uint64_t) &&
                   sizeof((hwt_heartbeat){ 0 }.count) == EVENTS * sizeof(uint32_t),
               "the header says how many kinds of events there are");

/* A task that is running on this thread, and the one it runs inside of. */
struct look {
    hwt_heartbeat *heartbeat;
    hwt_timeout timeout;
    uint64_t life; /* the state word of the life it looks after */
    bool stopped;  /* by its callback: the object may be gone */
    struct look *outer;
};

static _Thread_local struct look *looks;

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

/* Relaxed, here and below, because the exchange of `state` says whether it was of use. */
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

static uint64_t limit_of(const hwt_heartbeat *heartbeat, hwt_heartbeat_event event)
{
    const hwt_heartbeat_rules *rules = heartbeat->rules;
    if (rules->limit)
        return rules->limit(event, heartbeat->arg);
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

static uint64_t activity(hwt_heartbeat_event event, uint64_t read, uint64_t written)
{
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

/* Takes over the notes. An event whose activity has changed counts from the beginning. */
static void see_notes(hwt_heartbeat *heartbeat)
{
    uint64_t read = __atomic_load_n(&heartbeat->last_read, __ATOMIC_RELAXED);
    uint64_t written = __atomic_load_n(&heartbeat->last_written, __ATOMIC_RELAXED);
    for (int event = 0; event < EVENTS; event++) {
        if (activity(event, read, written) !=
            activity(event, heartbeat->seen_read, heartbeat->seen_written))
            heartbeat->count[event] = 0;
    }
    heartbeat->seen_read = read;
    heartbeat->seen_written = written;
}

/* `limit` after the activity seen, or after the last event, whichever is later. */
static uint64_t due_after(const hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t limit)
{
    uint64_t seen = activity(event, heartbeat->seen_read, heartbeat->seen_written);
    uint64_t last = heartbeat->due[event];
    uint64_t from = seen > last ? seen : last;
    return limit == 0 || from > HWT_NEVER - limit ? HWT_NEVER : from + limit;
}

static uint64_t next_due(hwt_heartbeat *heartbeat)
{
    uint64_t next = HWT_NEVER;
    see_notes(heartbeat);
    for (int event = 0; event < EVENTS; event++) {
        uint64_t due = due_after(heartbeat, event, limit_of(heartbeat, event));
        next = due < next ? due : next;
    }
    return next;
}

/* ---- a look ---- */

/* Tells of `event` if it is due and nobody has stopped the object. */
static void tell(const struct look *look, hwt_heartbeat_event event, uint64_t now)
{
    hwt_heartbeat *heartbeat = look->heartbeat;
    uint64_t limit = limit_of(heartbeat, event);
    see_notes(heartbeat);
    uint64_t due = due_after(heartbeat, event, limit);
    if (due > now || due == HWT_NEVER || state_of(heartbeat) != look->life)
        return;

    uint64_t missed = now > due ? (now - due - 1) / limit : 0;
    heartbeat->due[event] = due + missed * limit;
    if (heartbeat->count[event] < UINT32_MAX)
        heartbeat->count[event]++;
    heartbeat->rules->notify(heartbeat, event, heartbeat->count[event], heartbeat->arg);
}

static void look_at(hwt_timeout timeout, void *arg)
{
    hwt_heartbeat *heartbeat = arg;
    struct look look = { heartbeat, timeout, state_of(heartbeat), false, looks };
    uint64_t now = hwt_timer_now(heartbeat->timer);
    if ((look.life & PHASE_MASK) != STARTED)
        return;
    looks = &look;
    for (int event = 0; event < EVENTS && !look.stopped; event++)
        tell(&look, event, now);
    looks = look.outer;
    if (!look.stopped)
        hwt_timeout_reschedule_at(timeout, next_due(heartbeat));
}

/* It has no `cancelled`, because a stop of the timer has nothing to tell, and the object may be
 * gone as soon as hwt_heartbeat_stop_sync() has returned. */
const hwt_task hwt_heartbeat_own_task = { look_at, NULL };

/* ---- notes ---- */

/* Relaxed, because it is a number, and publishes nothing. */
static void note(uint64_t *last, uint64_t now)
{
    uint64_t seen = __atomic_load_n(last, __ATOMIC_RELAXED);
    while (seen < now &&
           !__atomic_compare_exchange_n(last, &seen, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void hwt_heartbeat_read_at(hwt_heartbeat *heartbeat, uint64_t now)
{
    if (heartbeat)
        note(&heartbeat->last_read, now);
}

void hwt_heartbeat_written_at(hwt_heartbeat *heartbeat, uint64_t now)
{
    if (heartbeat)
        note(&heartbeat->last_written, now);
}

/* Before the first start the timer is NULL, and its clock 0, which changes nothing. */
static uint64_t now_of(const hwt_heartbeat *heartbeat)
{
    return hwt_timer_now(__atomic_load_n(&heartbeat->timer, __ATOMIC_RELAXED));
}

void hwt_heartbeat_read(hwt_heartbeat *heartbeat)
{
    if (heartbeat)
        note(&heartbeat->last_read, now_of(heartbeat));
}

void hwt_heartbeat_written(hwt_heartbeat *heartbeat)
{
    if (heartbeat)
        note(&heartbeat->last_written, now_of(heartbeat));
}

/* ---- start ---- */

/* Notes that are newer than the start stay. Notes that the last life has left do not. */
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
            note(notes[i], now);
    }
    __atomic_store_n(&heartbeat->timer, timer, __ATOMIC_RELAXED);
    heartbeat->rules = rules;
    heartbeat->arg = arg;
    memset(heartbeat->due, 0, sizeof(heartbeat->due));
    memset(heartbeat->count, 0, sizeof(heartbeat->count));
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

static bool are_sound(const hwt_heartbeat_rules *rules)
{
    uint64_t reserved = 0;
    for (size_t i = 0; i < sizeof(rules->reserved) / sizeof(rules->reserved[0]); i++)
        reserved |= rules->reserved[i];
    return rules->notify && reserved == 0;
}

/* Takes an object that was stopped. It is this thread's now, and AWAITING. Returns the state that
 * it had. */
static int take(hwt_heartbeat *heartbeat, uint64_t *ret_state)
{
    uint64_t state = state_of(heartbeat);
    do {
        if ((state & PHASE_MASK) != STOPPED && (state & PHASE_MASK) != BARRED)
            return -EALREADY;
    } while (!exchange(heartbeat, &state, with_phase(state, AWAITING)));
    *ret_state = state;
    return 0;
}

static void set_state(hwt_heartbeat *heartbeat, uint64_t state)
{
    __atomic_store_n(&heartbeat->state, state, __ATOMIC_RELEASE);
}

int hwt_heartbeat_start(hwt_heartbeat *heartbeat, hwt_timer *timer,
                        const hwt_heartbeat_rules *rules, void *arg)
{
    if (!heartbeat || !timer || !rules || !are_sound(rules))
        return -EINVAL;
    struct look *own = own_look(heartbeat);
    if (own)
        return start_again(own, timer, rules, arg);
    uint64_t state;
    int r = take(heartbeat, &state);
    if (r < 0)
        return r;

    hwt_timeout_cancel_sync(timeout_of(heartbeat));
    /* This is an exchange, so the words of the timeout are written after all copies that were made
     * of them. */
    __atomic_exchange_n(&heartbeat->state, with_phase(state, STARTING), __ATOMIC_ACQ_REL);
    hwt_timeout timeout;
    r = hwt_timer_new_timeout_at(timer, &hwt_heartbeat_own_task, heartbeat, HWT_NEVER, &timeout);
    if (r < 0) {
        set_state(heartbeat, state);
        return r;
    }
    begin_life(heartbeat, timer, rules, arg);
    set_timeout(heartbeat, timeout);
    uint64_t due = next_due(heartbeat);
    set_state(heartbeat, with_phase(state + ONE_LIFE, STARTED));
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

/* One that is being started is not stopped, but its old callback may still be running, which is the
 * timeout's until STARTING. An AWAITING is exchanged for itself, which proves the copy. */
static bool stop(hwt_heartbeat *heartbeat, bool (*cancel)(hwt_timeout timeout))
{
    if (!heartbeat)
        return false;
    struct look *own = own_look(heartbeat);
    if (own)
        return stop_own(own);

    uint64_t state = state_of(heartbeat);
    hwt_timeout timeout;
    unsigned phase;
    do {
        phase = state & PHASE_MASK;
        if (phase == STARTING)
            return false;
        timeout = timeout_of(heartbeat);
    } while (!exchange(heartbeat, &state, phase == AWAITING ? state : with_phase(state, BARRED)));
    cancel(timeout);
    return phase == STARTED;
}

bool hwt_heartbeat_stop(hwt_heartbeat *heartbeat)
{
    return stop(heartbeat, hwt_timeout_cancel);
}

bool hwt_heartbeat_stop_sync(hwt_heartbeat *heartbeat)
{
    return stop(heartbeat, hwt_timeout_cancel_sync);
}
