/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The states of `parking` in hwt/inbox/gate.h, with wakers that may stand still for ever between
 * their steps. Memory is the same for all here: gate.pml has store buffers, tests/genmc weak memory.
 *
 *     here                 there
 *     waker                hwt_gate_asks() and hwt_gate_wake() in hwt/inbox/gate.[ch]
 *     worker               hwt_gate_begin(), _close(), _sleep() and _open(); the look at the streams
 *                          is in hwt/worker/park.c
 *
 * With -DDESCRIPTOR the loop that drives the timer sleeps on a timer descriptor, which each call sets
 * to now.
 *
 * Verified: when the worker sleeps, and each waker has done what it does or stands still, nothing
 * is unread of what a waker has said whose call is over.
 */

#ifndef WAKERS
#define WAKERS 3
#endif
#ifndef ADDS
#define ADDS 2 /* of each */
#endif
#ifndef SLEEPS
#define SLEEPS 8 /* the number of the sleep wraps after so many */
#endif

#define AWAKE 0
#define ASLEEP 1
#define CALLED 2
#define STATES 4

bool closed; /* wake_before: all that is said is due before that */
byte parking;
bool readable; /* the descriptor is readable */
bool sleeping;
byte published[WAKERS], said[WAKERS], read[WAKERS];
byte calls = WAKERS; /* under way */

/* It goes on, or never does. */
inline stand()
{
    if
    :: true
    :: calls-- ->
end_stand:
        false
    fi
}

#ifdef MISTAKE_MARKED_FIRST
#define MARK AWAKE
#else
#define MARK CALLED
#endif

inline mark()
{
    seen = parking;
    do
    :: seen % STATES == ASLEEP ->
        atomic {
            if
            :: parking == seen ->
                parking = seen - ASLEEP + MARK;
                called = true
            :: else
            fi;
            seen = parking
        }
    :: else -> break
    od
#ifndef MISTAKE_CALLED_BELIEVED
    ;
    called = called || seen % STATES == CALLED
#endif
}

inline call()
{
    atomic {
        readable = true;
        sleeping = false
    }
}

inline mark_awake()
{
#ifdef MISTAKE_MARKED_BLINDLY
    parking = seen - seen % STATES + AWAKE
#else
    atomic {
        if
        :: seen % STATES == CALLED && parking == seen -> parking = seen - CALLED + AWAKE
        :: else
        fi
    }
#endif
}

proctype waker(byte me)
{
    byte seen;
    bool called;
    do
    :: published[me] < ADDS ->
        published[me]++;
        if
        :: closed ->
            mark();
            if
            :: called ->
                stand();
                call();
                stand();
                mark_awake()
            :: else
            fi
        :: else
        fi;
        atomic {
            seen = 0;
            called = false;
            said[me] = published[me]
        }
    :: else -> break
    od;
    calls--
}

inline look()
{
    atomic {
        do
        :: i < WAKERS ->
            read[i] = published[i];
            i++
        :: else ->
            i = 0;
            break
        od
    }
}

inline sleep()
{
#ifdef DESCRIPTOR
#ifdef MISTAKE_SET_LATE
    awaited = parking == number * STATES + ASLEEP;
    readable = false;
#else
    readable = false;
    awaited = parking == number * STATES + ASLEEP;
#endif
    atomic {
        sleeping = awaited && !readable;
        awaited = false
    };
#else
    atomic {
        sleeping = parking == number * STATES + ASLEEP
    };
#endif
    if
    :: !sleeping
    :: atomic {
        sleeping && calls == 0 ->
        do
        :: i < WAKERS ->
            assert(said[i] <= read[i]);
            i++
        :: else -> break
        od;
        over = true
    }
    fi
}

proctype worker()
{
    byte i, number;
    bool over, awaited;
    do
    :: over -> break
    :: else ->
        look();
#ifndef MISTAKE_ONE_NUMBER
        number = (number + 1) % SLEEPS;
#endif
        parking = number * STATES + ASLEEP;
        closed = true;
        look();
        sleep();
        closed = false;
        parking = number * STATES + AWAKE
    od
}

init
{
    atomic {
        byte n;
        do
        :: n < WAKERS ->
            run waker(n);
            n++
        :: else -> break
        od;
        run worker()
    }
}
