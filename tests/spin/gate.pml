/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker parks while two threads add, move, cancel and stop. There is a timeout in the wheel,
 * and with -DENTRIES=2 another to add, on the same lane. The steps are in word.pml and worker.pml.
 *
 *     here                     there
 *     announce, and            hwt_gate_asks(), hwt_gate_asks_cancelled() in hwt/clock.h, and
 *     announce_cancelled       hwt_gate_wake() where they say so
 *     announce_again           the same in push_again() in hwt/timeout.c
 *     wake                     hwt_gate_wake() in hwt/clock.c
 *     add, stop                accept_timeout(), the beginning of stop() in hwt/timer.c
 *     tidy, reap               hwt_worker_tidy(), reap() in hwt/worker.c
 *     pass                     hwt_worker_pass()
 *     park                     hwt_worker_park(), with hwt_gate_close(), _shorten() and _arm()
 *     worker                   hwt_worker_main(), with hwt_gate_sleep() and _awake()
 *
 * Verified, whenever the worker sleeps and no other call is under way: the descriptor is set to the
 * end of the tick of each deadline or before; to the next end of a tick, if something cancelled is
 * queued; and stop has not been called.
 */

#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef TIME_MAX
#define TIME_MAX 1
#endif
#define NEVER 100

#define generation_of(u) (u)
#define same(x, u) (generation(x) == (u))

#include "word.pml"

/* wake_before: AWAKE, SHORT, or ASLEEP + the tick that begins at that instant. */
#define AWAKE 0
#define SHORT 1
#define ASLEEP 2

byte wake_before;
byte fd_at = NEVER; /* the descriptor is readable once now >= fd_at */
bool stopping;

inline wake()
{
#ifdef MISTAKE_FIRE_FIRST
    if
    :: wake_before != AWAKE ->
        fd_at = 0;
        wake_before = AWAKE
    :: else
    fi
#else
    if
    :: atomic { wake_before != AWAKE -> wake_before = AWAKE };
        fd_at = 0
    :: else
    fi
#endif
}

inline announce(d)
{
    if
    :: wake_before >= ASLEEP && ASLEEP + d < wake_before -> wake()
    :: else
    fi
}

inline announce_cancelled()
{
    if
#ifndef MISTAKE_CANCEL_SILENT
    :: wake_before >= ASLEEP -> wake()
#endif
    :: else
    fi
}

inline announce_again(e)
{
#ifdef MISTAKE_CANCEL_UNSEEN
    seen = deadline[e];
#else
    if
    :: phase(state[e]) == CANCELLED -> seen = NEVER
    :: else -> seen = deadline[e]
    fi;
#endif
    if
    :: seen == NEVER -> announce_cancelled()
    :: else -> announce(seen)
    fi;
    seen = 0
}

inline select_deadline(d)
{
    if
    :: d = 0
    :: d = 1
#if TIME_MAX > 1
    :: d = 2
#endif
    fi
}

#include "worker.pml"

byte calling; /* threads inside of a call */
bool asleep;

inline add(e)
{
    atomic {
        deadline[e] = d;
        newest[e] = d;
        slot[e] = FRESH;
        state[e] = (1 << SHIFT) | QUEUED
    };
#ifdef MISTAKE_EARLY_ANNOUNCE
    announce(d);
    push(pending_queue, e);
#else
    push(pending_queue, e);
    announce(d);
#endif
    given[e] = 1
}

inline stop()
{
#ifdef MISTAKE_LATE_STOP
    wake();
    stopping = true
#else
    stopping = true;
    wake()
#endif
}

proctype client(byte me, ops)
{
    short was;
    byte d, e, seen;
    bool earlier;
    do
    :: ops > 0 ->
        atomic {
            ops--;
            calling++;
            if
            :: e = 0
#if ENTRIES > 1
            :: e = 1
#endif
            fi;
            select_deadline(d)
        };
        if
        :: atomic { given[e] && d == 0 -> skip }; /* a cancel has no deadline */
            cancel(e, 1)
        :: atomic { given[e] -> skip };
            move(e, 1, d)
        :: atomic { use[e] == 0 -> use[e] = 1; pooled[e] = false };
            add(e)
        :: atomic { ENTRIES > 1 && d == 0 && e == 0 -> skip };
            stop()
        fi;
        atomic { calling--; e = 0; d = 0 }
    :: ops == 0 -> break
    od
}

inline tidy()
{
    atomic {
        n = pending_queue.n;
        if
        :: n > 0 && gap[pending_queue.at[0]] -> n = 0; unfiled = true
        :: else
        fi
    };
    do
    :: n > 0 ->
        atomic {
            if
            :: can_pop(pending_queue) -> pop(pending_queue, e); n--
            :: else -> unfiled = true; n = 0; break
            fi
        };
        file_drained(e);
        forget(e);
        e = 0
    :: else -> break
    od;
    reap()
}

inline reap()
{
    atomic {
        n = cancelled_queue.n;
        if
        :: n > 0 && gap[cancelled_queue.at[0]] -> n = 0; unfiled = true
        :: else
        fi
    };
    do
    :: n > 0 ->
        atomic {
            if
            :: can_pop(cancelled_queue) -> pop(cancelled_queue, e); n--; leave_place(e)
            :: else -> unfiled = true; n = 0; break
            fi
        };
        discard(e);
        forget(e);
        e = 0
    :: else -> break
    od
}

/* The next tick with something to take. */
#define filed_at(e) (slot[e] == BUCKET -> (filed[e] < limit -> limit : filed[e]) : NEVER)
#if ENTRIES == 1
#define wheel_next filed_at(0)
#else
#define wheel_next (filed_at(0) < filed_at(1) -> filed_at(0) : filed_at(1))
#endif

inline pass()
{
    atomic { limit = now; unfiled = false };
    tidy();
    do
    :: atomic {
        if
        :: slot[0] == BUCKET && filed[0] < limit -> e = 0
#if ENTRIES > 1
        :: slot[1] == BUCKET && filed[1] < limit -> e = 1
#endif
        :: else -> break
        fi;
        slot[e] = NONE
    };
        expire_one(e, filed[e] + 1);
        forget(e);
        e = 0
    od;
    reap()
}

/* Whether it sleeps for one tick only, because there were cancels, is left to chance. */
inline park()
{
    atomic {
        next = wheel_next;
        if
        :: promised = next
        :: promised = limit
        fi;
        next = 0
    };
#ifdef MISTAKE_TIDY_FIRST
    tidy();
    wake_before = (promised <= limit -> SHORT : ASLEEP + promised);
#else
    wake_before = (promised <= limit -> SHORT : ASLEEP + promised);
    tidy();
#endif
    atomic {
        next = wheel_next;
#ifndef MISTAKE_STALL_IGNORED
        if
        :: unfiled -> next = limit
        :: else
        fi;
#endif
#ifndef MISTAKE_PROMISE_FORGOTTEN
        if
        :: next > promised -> next = promised
        :: else
        fi;
#endif
        promised = 0;
        unfiled = false
    };
    if
    :: next <= limit ->
        if
        :: atomic { wake_before != AWAKE -> wake_before = SHORT }
        :: else
        fi
    :: else
    fi;
    if
    :: stopping -> next = 0
    :: else ->
        atomic { fd_at = (next == NEVER -> NEVER : next + 1); next = 0; limit = 0 };
#ifdef MISTAKE_SLEEP_BLINDLY
        asleep = true
#else
        asleep = (wake_before != AWAKE)
#endif
    fi
}

proctype worker()
{
    short s, was;
    byte d, e, n, result, limit, next, promised, seen;
    bool ok, unfiled;
    do
    :: stopping -> break
    :: else ->
        pass();
        park();
        if
        :: asleep ->
end:
            atomic { now >= fd_at -> fd_at = NEVER; asleep = false }
        :: else
        fi;
        wake_before = AWAKE
    od
}

proctype clock()
{
    do
    :: atomic { now < TIME_MAX -> now++ }
    :: else -> break
    od
}

#define wakes_by(t) (fd_at <= ((t) > now -> (t) : now) + 1)
#define in_time(e)                                                                                 \
    ((!linked[e] || wakes_by(phase(state[e]) == CANCELLED -> now : deadline[e])) &&                \
     (slot[e] != BUCKET || phase(state[e]) != ARMED || wakes_by(deadline[e])))

#if ENTRIES == 1
#define all_in_time in_time(0)
#else
#define all_in_time (in_time(0) && in_time(1))
#endif

/* Always looks: there is only the step that must not be. */
proctype monitor()
{
end:
    atomic {
        asleep && now < fd_at && calling == 0 && !(all_in_time && !stopping) ->
        assert(false)
    }
}

init
{
    atomic {
#if ENTRIES > 1
        pooled[1] = true;
#endif
        select_deadline(deadline[0]);
        newest[0] = deadline[0];
        state[0] = (1 << SHIFT) | ARMED;
        use[0] = 1;
        given[0] = 1;
        slot[0] = BUCKET;
        filed[0] = deadline[0];
        run client(1, 1);
        run client(2, 3 - ENTRIES);
        run worker();
        run clock();
        run monitor()
    }
}
