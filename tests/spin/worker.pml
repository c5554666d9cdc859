/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the worker, and who runs tasks, does with one entry: hwt/worker.c, hwt/task.c. Included by
 * timeout.pml, stop.pml and gate.pml. With -DEXECUTOR there is an executor.
 *
 *     here              there
 *     leave_place       leave_place()
 *     task_discard      hwt_task_discard()
 *     discard           discard()
 *     file              hwt_wheel_file(), with the load of the deadline before it
 *     file_again        file_again(), with hwt_timeout_disarm()
 *     file_rearmed      hwt_worker_file_rearmed(), with hwt_timeout_arm_again()
 *     run_task          hwt_task_run(): the task does nothing, or re-arms its timeout
 *     hand_over         hwt_task_submit()
 *     expire_one        expire_one()
 *     file_drained      file_drained(), keep_unfiled(), with hwt_timeout_arm(); what is salvageable
 *                       is discarded as any other
 *     take_up           take_up(), with hwt_timeout_begin_submitted()
 *
 * A tick is one unit of time: tick t is over, and can be handled, once now > t. What is filed in a
 * tick that is over already is in the current bucket: there is no difference here. `limit` is the
 * includer's: the first tick that is not over for the worker.
 */

/* Bounds: re-arms by tasks, and allocations that fail. */
#ifndef REARMS
#define REARMS 0
#endif
#ifndef FAILURES
#define FAILURES 0
#endif

byte now;
byte rearms = REARMS, failures = FAILURES; /* that are left */
#ifdef EXECUTOR
bool handed, taken_up; /* to the executor; by it */
#endif

/* Clears what is of no use any more, so that it does not tell states apart. */
inline forget(e)
{
    atomic {
        if
        :: slot[e] != BUCKET -> filed[e] = 0
        :: else
        fi;
        s = 0;
        was = 0;
        d = 0;
        result = 0;
        ok = false
    }
}

inline leave_place(e)
{
    if
    :: slot[e] == TRANSIT -> leave_transit(e)
    :: else -> slot[e] = NONE
    fi
}

inline task_discard(e)
{
    discardable(e);
    if
    :: ok ->
        atomic {
            ended(e, BY_CANCEL);
            give(e)
        }
    :: else
    fi
}

inline hand_over(e)
{
    atomic {
        assert(!handed);
        handed = true
    }
}

/* With an executor, a task that has `cancelled` is handed over. */
inline discard(e)
{
    if
    :: task_discard(e)
#ifdef EXECUTOR
    :: hand_over(e)
#endif
    fi
}

inline file(e, earliest)
{
    filed[e] = deadline[e];
    if
    :: filed[e] < earliest -> filed[e] = earliest
    :: else
    fi;
    slot[e] = BUCKET
}

inline file_again(e, earliest)
{
    if
    :: atomic {
        file(e, earliest);
        assert(filed_well(e))
    }
#if FAILURES > 0
    :: atomic {
        failures > 0 ->
        failures--;
        ok = (phase(state[e]) == ARMED);
        if
        :: ok -> state[e] = with_phase(state[e], QUEUED)
        :: else
        fi
    };
        if
        :: ok -> push(pending_queue, e)
        :: else -> enter_transit(e)
        fi
#endif
    fi
}

/* What the worker ran itself. `ok`: it is filed. */
inline file_rearmed(e)
{
    do
    :: atomic {
        note(e);
        ok = false;
        if
        :: !(s & REARMED) || (s & BARRED) -> break
        :: else
        fi
    };
        atomic {
            if
            :: deadline[e] >= now -> file(e, 0)
            :: true -> break /* due; or no memory; or the worker's lane is not empty */
            fi
        };
        atomic {
            if
            :: state[e] == s ->
#ifdef MISTAKE_RUN_FORGOTTEN
                s = s & ~REARMED;
#endif
                state[e] = with_phase(s, ARMED);
                assert(filed_well(e));
                ok = true;
                break
            :: else -> slot[e] = NONE
            fi
        }
    od
}

inline run_task(e)
{
    ok = false;
#if REARMS > 0
    if
    :: true
    :: atomic {
        rearms > 0 ->
        rearms--;
        select_deadline(d)
    };
        rearm(e, d)
    fi;
#ifndef EXECUTOR
    file_rearmed(e);
#endif
#endif
    if
    :: ok
    :: else ->
        finish(e);
        if
        :: ok
        :: !ok && !(was & REARMED) -> atomic { give(e) }
        :: !ok && (was & REARMED) -> task_discard(e)
        fi
    fi
}

inline expire_one(e, horizon)
{
#ifdef EXECUTOR
    begin(e, ARMED, SUBMITTED, horizon);
#else
    begin(e, ARMED, RUNNING, horizon);
#endif
    if
#ifdef EXECUTOR
    :: result == BEGUN -> hand_over(e)
#else
    :: result == BEGUN -> run_task(e)
#endif
    :: result == NOT_DUE -> file_again(e, 0)
    :: result == HELD -> file_again(e, limit)
#ifdef MISTAKE_ELSEWHERE_FORGOTTEN
    :: else
#else
    :: else -> enter_transit(e)
#endif
    fi
}

inline file_drained(e)
{
    atomic { leave_place(e) };
    do
    :: atomic {
        note(e);
        if
        :: phase(s) == CANCELLED ->
            break
        :: phase(s) == NEW ->
            give(e);
            break
        :: else
        fi
    };
        if
        :: atomic { file(e, 0) };
            atomic {
                if
#ifdef MISTAKE_ARM_BLINDLY
                :: true ->
#else
                :: state[e] == s ->
#endif
                    state[e] = with_phase(s, ARMED);
                    assert(filed_well(e));
                    break
                :: else -> slot[e] = NONE
                fi
            }
#if FAILURES > 0
        :: atomic {
            failures > 0 ->
            failures--;
            ok = (deadline[e] < now)
        };
            atomic {
                if
                :: ok && state[e] == s -> state[e] = with_phase(s, ARMED)
                :: else -> ok = false
                fi
            };
            if
            :: ok -> expire_one(e, now)
            :: else -> push(pending_queue, e)
            fi;
            s = 0;
            break
#endif
        fi
    od;
    if
    :: phase(s) == CANCELLED -> discard(e)
    :: else
    fi
}

#ifdef EXECUTOR
inline take_up(e)
{
    begin(e, SUBMITTED, RUNNING, now + 1);
    if
    :: result == BEGUN -> run_task(e)
    :: result == ELSEWHERE -> task_discard(e)
    :: else ->
        requeue(e);
        if
        :: !ok -> task_discard(e)
        :: else
        fi
    fi
}
#endif
