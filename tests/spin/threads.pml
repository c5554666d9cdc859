/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The threads of timeout.pml and stop.pml, one entry between them. They begin with a timeout that
 * has just been added.
 *
 *     here        there
 *     add         accept_timeout() in hwt/timer.c, with hwt_timeout_withdraw()
 *     salvage     hwt_lane_salvage() in hwt/lane.c, as far as the state word goes
 *     client      any thread that calls the library
 *     worker      hwt_worker_main() in hwt/worker.c; the parts of hwt_worker_pass() in any order
 *     executor    work() in hwt/task.c, or the worker itself where the executor has refused
 */

#define ENTRIES 1
#define USES 2

/* Bounds: calls of each client, clients, and the instant at which all deadlines are over. */
#ifndef OPS
#define OPS 1
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TIME_MAX
#define TIME_MAX 2
#endif

#ifdef MISTAKE_SAME_GENERATION
#define generation_of(u) 1
#else
#define generation_of(u) (u)
#endif
#define same(x, u) (generation(x) == generation_of(u))

/* The gate is gate.pml's. */
#define announce(d) skip
#define announce_again(e) skip
#define announce_cancelled() skip

#include "word.pml"

inline select_deadline(d)
{
    if
    :: d = 0
    :: d = 1
#if TIME_MAX > 2
    :: d = 2
#endif
    fi
}

#ifdef EXECUTOR
#define idle (!handed && !taken_up)
#else
#define idle true
#endif

byte running; /* threads that call the library */
bool consuming;
#ifdef STOP
bool stopping;
bool working = true; /* the worker has not returned */
#endif

#define limit now
#include "worker.pml"

inline add()
{
    atomic {
        deadline[0] = d;
        newest[0] = d;
        slot[0] = FRESH;
        was = state[0]
    };
    atomic {
        assert(state[0] == was);
        was = 0;
        state[0] = (generation_of(use[0]) << SHIFT) | QUEUED
    };
#ifdef MISTAKE_EARLY_LOOK
    was = stopping;
    push(pending_queue, 0);
#define sees_stop was
#else
    push(pending_queue, 0);
#define sees_stop stopping
#endif
    if
#if defined(STOP) && !defined(MISTAKE_NO_LOOK)
    :: sees_stop ->
        atomic {
            if
#ifdef MISTAKE_WITHDRAW_BLINDLY
            :: true ->
#else
            :: state[0] == ((generation_of(use[0]) << SHIFT) | QUEUED) ->
#endif
                was = 0;
                state[0] = with_phase(state[0], NEW);
                assert(!begun[0]);
                refused[0] = true
            :: else -> given[0] = use[0]
            fi
        }
#endif
    :: else -> given[0] = use[0]
    fi
}

/* What is not salvageable goes to the queue of what was passed over: it is one queue here. */
inline salvage()
{
    atomic {
        use[0] < USES && !consuming && can_pop(pending_queue) ->
        consuming = true;
        pop(pending_queue, u);
        u = 0
    };
    if
    :: atomic {
        salvageable(0) ->
        ended(0, BY_CANCEL);
        give(0);
        pooled[0] = false;
        use[0]++;
        consuming = false
    };
        add()
    :: else ->
        push(pending_queue, 0);
        consuming = false
    fi
}

proctype client(byte me)
{
    short was;
    byte d, u, ops;
    bool earlier;
    do
    :: ops < OPS ->
        atomic {
            ops++;
            if
            :: u = 1
            :: given[0] > 1 -> u = 2
            fi;
            select_deadline(d)
        };
        if
        :: atomic { d == 0 -> skip }; /* a cancel has no deadline */
            cancel(0, u)
        :: move(0, u, d)
        :: atomic { use[0] < USES && pooled[0] -> pooled[0] = false; use[0]++; u = 0 };
            add()
        :: salvage()
        fi;
        atomic { u = 0; d = 0 }
    :: atomic { ops == OPS -> ops = 0; running--; break }
    od
}

proctype worker()
{
    short s, was;
    byte d, result;
    bool ok;
    do
    :: atomic { can_pop(pending_queue) -> pop(pending_queue, d); d = 0 };
        file_drained(0);
        forget(0)
    :: atomic { can_pop(cancelled_queue) -> pop(cancelled_queue, d); d = 0; leave_place(0) };
        discard(0);
        forget(0)
    :: atomic { slot[0] == BUCKET && (filed[0] < now || now == TIME_MAX) -> slot[0] = NONE };
        expire_one(0, filed[0] + 1);
        forget(0)
    :: atomic { now < TIME_MAX -> now++ }
#ifdef STOP
    :: stopping -> break
    :: atomic {
        stopping && slot[0] == BUCKET && filed[0] < now ->
        slot[0] = NONE
    };
        file_again(0, 0);
        forget(0)
    od;
    working = false
#else
    :: atomic {
        running == 0 && idle && pending_queue.n == 0 && cancelled_queue.n == 0 &&
            slot[0] != BUCKET && now == TIME_MAX ->
        break
    }
    od;
    assert(pooled[0] && transit == 0)
#endif
}

#ifdef EXECUTOR
proctype executor()
{
    short s, was;
    byte d, result;
    bool ok;
end:
    do
    :: atomic { handed -> handed = false; taken_up = true };
        take_up(0);
        forget(0);
        taken_up = false
    od
}
#endif

inline start()
{
    select_deadline(deadline[0]);
    newest[0] = deadline[0];
    state[0] = (generation_of(1) << SHIFT) | QUEUED;
    use[0] = 1;
    given[0] = 1;
    slot[0] = FRESH;
    linked[0] = true;
    pending_queue.n = 1;
    running = CLIENTS;
    run client(1);
    run client(2);
#if CLIENTS > 2
    run client(4);
#endif
#ifdef EXECUTOR
    run executor();
#endif
    run worker()
}
