/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A timer is stopped while its one entry is added, moved, cancelled, run, re-armed and reused. The
 * steps are in word.pml and worker.pml, the other threads in threads.pml.
 *
 *     here        there
 *     stop        stop() in hwt/timer.c
 *     end_one     end_one(), with hwt_timeout_abandon(), in hwt/end.c
 *     abandon     hwt_worker_abandon(), with end_lane(), in hwt/end.c
 *
 * Verified: what timeout.pml does; and once stop and all others have returned, what was accepted
 * has had one end, what was refused none, nor a run; stop returns.
 */

#define STOP
#include "threads.pml"

inline end_one()
{
    if
    :: slot[0] == ENDED
    :: else ->
        atomic {
            leave_place(0);
            slot[0] = ENDED
        };
#ifdef MISTAKE_ABANDON_BLINDLY
        seen = is_pending(state[0]);
#define abandons seen
#else
#define abandons is_pending(state[0])
#endif
        atomic {
            if
            :: abandons ->
                state[0] = with_phase(state[0], CANCELLED);
                ended(0, BY_STOP)
            :: else ->
                assert(phase(state[0]) == CANCELLED || phase(state[0]) == NEW);
                if
                :: phase(state[0]) == CANCELLED -> ended(0, BY_CANCEL)
                :: else
                fi
            fi
        }
    fi
}

/* A thread is half-way through a push. */
#define stalled(q) (q.n > 0 && !can_pop(q))

/* Into a queue of stop's own, `to`: whether the entry is in it. */
inline splice(q, to)
{
    if
    :: can_pop(q) ->
        pop(q, d);
        d = 0;
        linked[0] = true;
        to = true
    :: else
    fi
}

inline abandon()
{
    do
    :: atomic {
        whole = !consuming && !stalled(pending_queue);
        splice(pending_queue, drained)
    };
        atomic {
            whole = whole && !stalled(cancelled_queue);
            splice(cancelled_queue, reaped)
        };
        if
        :: atomic { drained -> drained = false; linked[0] = false };
            end_one()
        :: else
        fi;
        if
        :: atomic { reaped -> reaped = false; linked[0] = false };
            end_one()
        :: else
        fi;
        if
#ifdef MISTAKE_TRANSIT_IGNORED
        :: whole -> break
#else
        :: whole && transit == 0 -> break
#endif
        :: else
        fi;
        /* Once more; it blocks, rather than turn for ever, where nothing can come of that. */
        can_pop(pending_queue) || can_pop(cancelled_queue) ||
            (transit == 0 && !consuming && !stalled(pending_queue) && !stalled(cancelled_queue))
    od;
    if
    :: slot[0] == BUCKET ->
        slot[0] = NONE;
        end_one()
    :: else
    fi
}

proctype stop()
{
    byte d;
    bool drained, reaped, whole, seen;
    stopping = true;
#ifdef MISTAKE_EXECUTOR_FORGOTTEN
    !working;
#else
    !working && idle;
#endif
    abandon();
    running == 0;
    assert(pooled[0] || ((end_of[0] > 0) + refused[0] == 1))
}

init
{
    atomic {
        start();
        run stop()
    }
}
