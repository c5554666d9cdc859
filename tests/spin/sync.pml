/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two threads cancel a timeout and wait for its task, which may re-arm it once; then the entry
 * serves another timeout, whose task runs too. With -DEXECUTOR a thread of the executor runs them,
 * and stop waits for that.
 *
 *     here            there
 *     cancel_sync     hwt_timeout_cancel_sync() in hwt/timer/cancel.c
 *     wait            hwt_task_wait() in hwt/worker/task.c
 *     finish          finish(), with hwt_task_returned()
 *     submit          hwt_task_submit()
 *     hand_back       hand_back()
 *     stop            hwt_task_wait_all(); then it frees the timer
 *     futex_wait      the kernel: it compares and begins to sleep in one step
 *
 * Verified: who waits returns, and then the task does not run, nor will again; nobody touches a timer
 * that is freed.
 */

#define NEW 0
#define SUBMITTED 1
#define RUNNING 2
#define EXPIRED 3
#define CANCELLED 4
#define REARMED 8
#define BARRED 16
#define WAITED 32
#define SHIFT 6

#define phase(s) ((s) & 7)
#define with_phase(s, p) (((s) & ~7) | (p))
#define generation(s) ((s) >> SHIFT)

short state = (1 << SHIFT) | SUBMITTED;
byte returns;     /* who waits for a task sleeps on it */
bool sleeping[3]; /* the two, and stop */
byte submitted = 1;
bool waited;      /* the highest bit of `submitted` */
bool joined; /* the worker has returned: nothing more is submitted */
bool told; /* a cancel of the first timeout has returned */
bool freed;

inline futex_wait(i, holds)
{
    atomic {
        if
        :: holds -> sleeping[i] = true
        :: else
        fi
    };
    !sleeping[i]
}

inline wake_all()
{
#ifdef MISTAKE_SIGNAL
    if
    :: atomic { sleeping[0] -> sleeping[0] = false }
    :: atomic { sleeping[1] -> sleeping[1] = false }
    :: else
    fi
#else
    d_step {
        sleeping[0] = false;
        sleeping[1] = false
    }
#endif
}

inline cancel()
{
    atomic {
        if
        :: generation(state) == 1 && phase(state) == SUBMITTED ->
            state = with_phase(state, CANCELLED)
        :: generation(state) == 1 && phase(state) == RUNNING -> state = state | BARRED
        :: else
        fi
    };
    told = true
}

inline wait(i)
{
    do
    :: true ->
#ifdef MISTAKE_LOOK_FIRST
        running = (generation(state) == 1 && phase(state) == RUNNING);
        seen = returns;
#else
        seen = returns;
        running = (generation(state) == 1 && phase(state) == RUNNING);
#endif
        if
        :: running -> futex_wait(i, returns == seen)
        :: else -> break
        fi
    od;
    seen = 0
}

proctype canceller(byte i)
{
    bool running;
    byte seen;
    cancel();
    atomic {
        running = (generation(state) == 1 && phase(state) == RUNNING);
#ifndef MISTAKE_NOT_ASKED
        if
        :: running -> state = state | WAITED
        :: else
        fi
#endif
    };
    if
    :: running -> wait(i)
    :: else
    fi;
    assert(generation(state) != 1 || phase(state) != RUNNING)
}

#ifdef EXECUTOR
inline submit(g)
{
    state = (g << SHIFT) | SUBMITTED;
    submitted++
}

inline hand_back()
{
#ifdef MISTAKE_LOOK_EARLY
    last = waited;
    atomic {
        submitted--;
        last = last && submitted == 0
    };
#else
    atomic {
        assert(!freed);
        submitted--;
        last = (waited && submitted == 0)
    };
#endif
#ifdef MISTAKE_TOUCHED
    assert(!freed);
#endif
    if
    :: last -> sleeping[2] = false
    :: else
    fi
}

#else
#define submit(g) state = (g << SHIFT) | SUBMITTED
#define hand_back() skip
#endif

inline returned()
{
#ifdef EXECUTOR
    assert(!freed);
#endif
#ifdef MISTAKE_WAKE_FIRST
    wake_all();
    returns++
#else
    returns++;
    wake_all()
#endif
}

inline finish()
{
#ifdef MISTAKE_EARLY_BROADCAST
    was = state;
    if
    :: was & WAITED -> returned()
    :: else
    fi;
#endif
    atomic {
        was = state;
        /* A wait comes after a cancel: what is waited for is not armed again. */
        assert(!(was & WAITED) || (was & BARRED));
        if
        :: (was & REARMED) && !(was & BARRED) -> state = (generation(was) << SHIFT) | SUBMITTED
        :: (was & REARMED) && (was & BARRED) -> state = (generation(was) << SHIFT) | CANCELLED
        :: else -> state = (generation(was) << SHIFT) | EXPIRED
        fi
    };
#ifndef MISTAKE_EARLY_BROADCAST
    if
    :: was & WAITED -> returned()
    :: else
    fi
#endif
}

proctype runner()
{
    short was;
    byte rearms = 1, g = 1;
    bool last;
    do
    :: true ->
        do
        :: atomic {
            if
            :: phase(state) == SUBMITTED ->
                state = with_phase(state, RUNNING);
                assert(g == 2 || !told)
            :: else -> break
            fi
        };
            if
            :: true
            :: rearms > 0 ->
                rearms--;
                if
                :: atomic { !(state & BARRED) -> state = state | REARMED }
                :: else
                fi
            fi;
            finish()
        od;
        hand_back();
        if
        :: g == 2 -> break
        :: else ->
            g = 2;
            submit(2);
            joined = true
        fi
    od
}

proctype stop()
{
    byte seen;
    joined;
    atomic {
        seen = submitted;
#ifndef MISTAKE_NOT_MARKED
        waited = true
#endif
    };
    do
    :: seen > 0 ->
        futex_wait(2, submitted == seen);
        seen = submitted
    :: else -> break
    od;
    freed = true;
    assert(phase(state) != RUNNING)
}

init
{
    atomic {
        run canceller(0);
        run canceller(1);
#ifdef EXECUTOR
        run stop();
#endif
        run runner()
    }
}
