/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The state word and its transitions: hwt/timeout.h, hwt/timeout.c. Included by timeout.pml,
 * stop.pml and gate.pml. README.md says what a step is, and what is left out.
 *
 *     here                      there
 *     begin_push, end_push      hwt_lane_push_pending(), hwt_lane_push_cancelled(): the exchange
 *                               of the tail, and the store that links
 *     can_pop, pop              hwt_lane_pop_drained(), hwt_lane_pop_reaped()
 *     push_again                push_again()
 *     cancel                    hwt_timeout_cancel()
 *     enter_, leave_transit     hwt_worker_enter_transit(), hwt_worker_leave_transit()
 *     discardable               hwt_timeout_discardable()
 *     salvageable               hwt_timeout_salvageable(), of a task without `cancelled`
 *     move                      hwt_timeout_reschedule_at() outside of the timeout's own task:
 *                               move(), begin_move(), end_move()
 *     rearm                     the same inside of it: rearm()
 *     note                      hwt_timeout_note()
 *     begin                     hwt_timeout_begin(), hwt_timeout_begin_submitted()
 *     requeue                   hwt_timeout_requeue()
 *     finish                    hwt_timeout_finish()
 *
 * hwt_timeout_arm(), _arm_again() and _disarm() are in worker.pml, _withdraw() and _abandon() in
 * threads.pml and stop.pml, where they are called.
 */

#define NEW 0
#define QUEUED 1
#define ARMED 2
#define SUBMITTED 3
#define RUNNING 4
#define EXPIRED 5
#define CANCELLED 6
#define ABANDONED 7
#define MOVING 8
#define MOVED 16
#define REARMED 32
#define BARRED 64
#define SHIFT 8

#define phase(s) ((s) & 7)
#define with_phase(s, p) (((s) & ~7) | (p))
#define generation(s) ((s) >> SHIFT)
#define is_pending(s)                                                                              \
    (phase(s) == QUEUED || phase(s) == ARMED || phase(s) == SUBMITTED ||                           \
     (phase(s) == RUNNING && ((s) & (REARMED | BARRED)) == REARMED))

/* slot: where an entry is for the worker */
#define NONE 0
#define FRESH 1
#define TRANSIT 2
#define BUCKET 3
#define ENDED 4

short state[ENTRIES];
byte deadline[ENTRIES];
byte slot[ENTRIES];
byte filed[ENTRIES]; /* in a bucket: of this tick */
byte transit;
bool pooled[ENTRIES]; /* free */

/* ---- what the properties need to know: no step decides by it ---- */

byte use[ENTRIES];       /* which timeout the entry serves: its first, its second */
byte given[ENTRIES];     /* the last of them that somebody has a handle of */
byte newest[ENTRIES];    /* the deadline that was set last */
bool told[ENTRIES];      /* a cancel of this timeout has returned */
bool won[ENTRIES];       /* a cancel of it has returned true, or is bound to */
bool begun[ENTRIES];     /* its task has begun */
bool refused[ENTRIES];   /* new_timeout() has returned -ESHUTDOWN */
byte end_of[ENTRIES];    /* 0, or how it ended */
byte moving, overlapped; /* the threads inside of move, and those of them who saw a move end */

#define BY_RUN 1
#define BY_CANCEL 2
#define BY_STOP 3

inline ended(e, how)
{
    assert(!end_of[e] && !refused[e] && won[e] == (how == BY_CANCEL));
    end_of[e] = how
}

/* ---- queues ---- */

typedef queue {
    byte n;
    byte at[ENTRIES];
}
queue pending_queue, cancelled_queue;
bool linked[ENTRIES]; /* link is of a queue */
bool gap[ENTRIES];    /* its predecessor in the queue is not linked to it yet */

inline begin_push(q, e)
{
    atomic {
        assert(!linked[e] && !pooled[e]);
        linked[e] = true;
        gap[e] = true;
        q.at[q.n] = e;
        q.n++
    }
}

inline end_push(e)
{
    gap[e] = false
}

inline push(q, e)
{
    begin_push(q, e);
    end_push(e)
}

#if ENTRIES == 1
#define can_pop(q) (q.n > 0 && !gap[q.at[0]])
#else
#define can_pop(q) (q.n > 0 && !gap[q.at[0]] && (q.n == 1 || !gap[q.at[1]]))
#endif

inline pop(q, e)
{
    e = q.at[0];
    linked[e] = false;
#if ENTRIES == 1
    q.at[0] = 0;
#else
    q.at[0] = q.at[1];
    q.at[1] = 0;
#endif
    q.n--
}

inline push_again(e)
{
    push(pending_queue, e);
    announce_again(e)
}

/* ---- the pool ---- */

/* What is cleared here is what the next timeout begins with, so that histories that do not matter
 * any more are one state. */
inline give(e)
{
    assert(!pooled[e] && !linked[e] && slot[e] != BUCKET && slot[e] != TRANSIT);
    assert(!(state[e] & MOVING) && !is_pending(state[e]));
    assert(end_of[e] || refused[e]);
    pooled[e] = true;
    deadline[e] = 0;
    filed[e] = 0;
    slot[e] = NONE;
    newest[e] = 0;
    told[e] = false;
    won[e] = false;
    begun[e] = false;
    refused[e] = false;
    end_of[e] = 0
}

/* ---- cancelling; `was`: the phase before, 0: nothing was cancelled ---- */

inline cancel(e, u)
{
    atomic {
        was = 0;
        if
        :: same(state[e], u) && is_pending(state[e]) ->
            was = state[e];
            assert(use[e] == u && !won[e]);
            won[e] = true
        :: else
        fi;
        if
#ifndef MISTAKE_NOT_BARRED
        :: same(state[e], u) && phase(state[e]) == RUNNING -> state[e] = state[e] | BARRED
#endif
        :: was && phase(state[e]) != RUNNING -> state[e] = with_phase(state[e], CANCELLED)
        :: else
        fi;
        was = phase(was)
    };
    if
#if defined(MISTAKE_PUSH_QUEUED)
    :: was == ARMED || was == QUEUED ->
#elif defined(MISTAKE_PUSH_SUBMITTED)
    :: was == ARMED || was == SUBMITTED ->
#else
    :: was == ARMED ->
#endif
        push(cancelled_queue, e);
        announce_cancelled()
    :: was == QUEUED ->
        announce_cancelled()
    :: else
    fi;
    atomic {
        was = 0;
        told[e] = told[e] || (use[e] == u && !pooled[e])
    }
}

inline enter_transit(e)
{
    atomic {
        assert(slot[e] == NONE);
        slot[e] = TRANSIT;
        transit++
    }
}

inline leave_transit(e)
{
    slot[e] = NONE;
    transit--
}

/* `ok`: it can be given back. */
inline discardable(e)
{
    ok = !(state[e] & MOVING);
#ifdef MISTAKE_DISCARD_MOVING
    ok = true;
#endif
    if
    :: ok
    :: else ->
#ifndef MISTAKE_LATE_TRANSIT
        enter_transit(e);
#endif
        atomic {
            if
            :: state[e] & MOVING -> state[e] = with_phase(state[e], ABANDONED)
            :: else ->
                ok = true;
#ifndef MISTAKE_LATE_TRANSIT
                leave_transit(e)
#endif
            fi
        };
#ifdef MISTAKE_LATE_TRANSIT
        if
        :: !ok -> enter_transit(e)
        :: else
        fi
#endif
    fi
}

#if defined(MISTAKE_SALVAGE_MOVING)
#define salvageable(e) (phase(state[e]) == CANCELLED && slot[e] == FRESH)
#elif defined(MISTAKE_SALVAGE_FILED)
#define salvageable(e) (phase(state[e]) == CANCELLED && !(state[e] & MOVING))
#else
#define salvageable(e) (phase(state[e]) == CANCELLED && !(state[e] & MOVING) && slot[e] == FRESH)
#endif

/* ---- moving ---- */

/* An ARMED timeout is filed at or before the tick of its deadline. What is overdue is in the
 * current tick. */
#define filed_well(e)                                                                              \
    (phase(state[e]) != ARMED || (state[e] & MOVING) || slot[e] != BUCKET ||                       \
     filed[e] <= deadline[e] || filed[e] <= now)

/* `me` is the thread's own bit. */
inline move(e, u, d)
{
    atomic {
        was = state[e] & MOVED; /* the first look */
        moving = moving | me
    };
    atomic {
        if
        :: !same(state[e], u) || !is_pending(state[e]) -> was = 0
        :: else ->
            assert(use[e] == u);
            if
#if defined(MISTAKE_ANY_MOVED)
            :: (state[e] & MOVING) || (state[e] & MOVED) ->
#elif defined(MISTAKE_TWO_MOVERS)
            :: (state[e] & ~was & MOVED) ->
#else
            :: (state[e] & MOVING) || (state[e] & ~was & MOVED) ->
#endif
                assert((state[e] & MOVING) || (overlapped & me));
                was = 0
            :: else ->
                state[e] = state[e] | MOVING;
                was = MOVING
            fi
        fi
    };
    if
    :: was ->
        atomic {
            assert(use[e] == u);
            earlier = (d < deadline[e]);
            deadline[e] = d
        };
        atomic {
            was = state[e];
            assert(use[e] == u && phase(was) != NEW && phase(was) != EXPIRED);
            assert(phase(was) != RUNNING || (was & REARMED));
#ifdef MISTAKE_NOT_MOVED
            state[e] = state[e] & ~MOVING;
#else
            state[e] = (state[e] & ~MOVING) | MOVED;
#endif
            if
            :: phase(was) == ABANDONED -> state[e] = with_phase(state[e], CANCELLED)
#ifndef MISTAKE_NOT_REQUEUED
            :: phase(was) == ARMED && earlier -> state[e] = with_phase(state[e], QUEUED)
#endif
            :: else
            fi;
            newest[e] = d;
            overlapped = overlapped | moving;
            was = phase(was);
            assert(filed_well(e))
        };
        if
        :: was == ABANDONED ->
            push(cancelled_queue, e);
            announce_cancelled()
#ifndef MISTAKE_NOT_REQUEUED
        :: was == ARMED && earlier ->
            push_again(e)
#endif
#ifndef MISTAKE_MOVE_SILENT
        :: was == QUEUED && earlier ->
            announce(d)
#endif
        :: else
        fi
    :: else
    fi;
    atomic {
        was = 0;
        earlier = false;
        moving = moving & ~me;
        overlapped = overlapped & ~me
    }
}

inline rearm(e, d)
{
#ifndef MISTAKE_LATE_DEADLINE
    atomic {
        assert(phase(state[e]) == RUNNING && !(state[e] & (REARMED | MOVING)));
        deadline[e] = d
    };
#endif
    atomic {
        if
        :: state[e] & BARRED
        :: else ->
            state[e] = state[e] | REARMED;
            newest[e] = d
        fi
    };
#ifdef MISTAKE_LATE_DEADLINE
    deadline[e] = d
#endif
}

/* ---- the worker's and the runners' transitions ---- */

/* `s`: what it saw. */
inline note(e)
{
#ifndef MISTAKE_LATE_NOTE
    state[e] = state[e] & ~MOVED;
#endif
    s = state[e]
}

#define ELSEWHERE 0 /* also for HWT_DEAD */
#define HELD 1
#define NOT_DUE 2
#define BEGUN 3

/* From phase `from` to phase `to` if the deadline is before `horizon`; and `result`. */
inline begin(e, from, to, horizon)
{
    do
    :: atomic {
        note(e);
        if
        :: phase(s) != from ->
            result = ELSEWHERE;
            break
#ifndef MISTAKE_BEGIN_MOVING
        :: phase(s) == from && (s & MOVING) ->
            result = HELD;
            break
#endif
        :: else
        fi
    };
        atomic {
            if
            :: deadline[e] >= horizon ->
                result = NOT_DUE;
                break
            :: else
            fi
        };
        atomic {
#ifdef MISTAKE_LATE_NOTE
            state[e] = state[e] & ~MOVED;
            s = s & ~MOVED;
#endif
            if
            :: state[e] == s ->
                state[e] = with_phase((to == RUNNING -> s & ~REARMED : s), to);
                result = BEGUN;
                if
                :: to == RUNNING ->
                    assert(newest[e] < horizon && !told[e] && !won[e] && !end_of[e]);
                    begun[e] = true;
                    given[e] = use[e] /* its task may show the handle to others */
                :: else
                fi;
                break
            :: else
            fi
        }
    od
}

/* `ok`: it is pushed. */
inline requeue(e)
{
    atomic {
        ok = (phase(state[e]) == SUBMITTED);
        if
        :: ok -> state[e] = with_phase(state[e], QUEUED)
        :: else
        fi
    };
    if
#ifndef MISTAKE_NOT_PUSHED
    :: ok -> push_again(e)
#endif
    :: else
    fi
}

/* `was`: the state before; `ok`: it is pushed. */
inline finish(e)
{
    atomic {
        was = state[e];
        ok = false;
#ifdef MISTAKE_RUN_FORGOTTEN
        state[e] = state[e] & ~(REARMED | BARRED);
#else
        state[e] = state[e] & ~BARRED;
#endif
        if
        :: !(was & REARMED) ->
            state[e] = with_phase(state[e], EXPIRED);
            ended(e, BY_RUN)
#ifndef MISTAKE_BARRED_AGAIN
        :: (was & REARMED) && (was & BARRED) -> state[e] = with_phase(state[e], CANCELLED)
#endif
        :: else ->
            state[e] = with_phase(state[e], QUEUED);
            ok = true
        fi
    };
    if
#ifndef MISTAKE_NOT_PUSHED
    :: ok -> push_again(e)
#endif
    :: else
    fi
}
