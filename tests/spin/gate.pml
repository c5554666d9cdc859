/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker parks while producers add, one asks for a dump and one stops, on a machine with store
 * buffers, as x86 is: what a thread stores is seen by the others later, in the order of its stores.
 * A seq_cst store and an exchange wait until the buffer is empty. Either the worker can make all
 * threads empty theirs (membarrier), or, with -DFENCES, each producer does so itself.
 *
 *     here                 there
 *     add                  accept_timeout(), announce(), withdraw() in hwt/timer/arm.c
 *     list                 hwt_streams_list(), hwt_streams_push() in hwt/inbox/lane.c
 *     compaction           hwt_stream_grow() in hwt/inbox/stream.c, as far as the claim goes,
 *                          or all that is unread is dropped; hwt_shared_need_rescan()
 *     wake, begin, awake   hwt_gate_wake(), hwt_gate_begin(), hwt_gate_open() in hwt/inbox/gate.c
 *     read_stream, gather  read_stream() in hwt/worker/drain.c, hwt_streams_receive() in lane.c
 *     read_all             hwt_worker_read()
 *     park                 hwt_worker_park() in hwt/worker/park.c, with close_for()
 *     worker               run_worker() in hwt/timer/thread.c
 *     stopper              stop() in hwt/timer/stop.c
 *     asker                ask() in hwt/timer/request.c
 *
 * A timeout is due before the worker wakes anyway, or not. A long sleep ends only if somebody wakes
 * the worker. Verified: when it sleeps, and all others have done what they do, nothing is unread
 * that is due before it wakes; stop and the asker return; and stop ends each timeout that was not
 * refused, run or ended already. Who is refused has not run.
 *
 * A waker that stands still between its steps is in wake.pml.
 *
 * MISTAKE_STOP_RELAXED and MISTAKE_REQUEST_RELAXED are flags that nothing publishes: they are seen at
 * any time from then on, whatever the thread does next. (On x86 their own stores
 * push them, in C11 they are seq_cst; tests/genmc looks at that.)
 */

#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef ADDS
#define ADDS 1 /* of the first producer; others make one */
#endif
#define RECORDS (PRODUCERS - 1 + ADDS)
#define WORKER PRODUCERS /* the number of its buffer */

#define OPEN 0
#define FAR 1 /* wake_before is the instant at which the worker wakes anyway */

/* The states of `parking`; above them is the number of the sleep, which wraps here after so many. */
#define AWAKE 0
#define ASLEEP 1
#define CALLED 2
#define STATES 4
#ifndef SLEEPS
#define SLEEPS 8
#endif

/* What is stored where. */
#define WAKE_BEFORE 0
#define PARKING 1
#define STOPPING 2
#define REQUEST 3
#define OVERLOOKED 4
#define LISTED(s) (5 + (s))
#define CLAIMED(s) (5 + PRODUCERS + (s))
#define USED(s) (5 + 2 * PRODUCERS + (s))
#define LINK(n) (5 + 3 * PRODUCERS + (n))
#define ENTRY(s, n) (5 + 3 * PRODUCERS + RECORDS + (s) * ADDS + (n))
#define WORDS (5 + 3 * PRODUCERS + RECORDS + PRODUCERS * ADDS)

/* An entry: */
#define NEW 0
#define PENDING 1
#define RUN 2
#define ENDED 3 /* by stop */
#define REFUSED 4

byte memory[WORDS];
chan buffer[PRODUCERS + 1] = [4] of { byte, byte };

bool near[PRODUCERS * ADDS]; /* due before FAR */
byte queue[RECORDS], pushed; /* the stream that took each place of the queue */
bool sleeping, joined;
byte calls = PRODUCERS; /* under way */

/* The worker's. */
byte read[PRODUCERS], popped;
bool on_list[PRODUCERS], dismissed[PRODUCERS];
bool again, long_sleep;

#define put(a, v) buffer[me]!a, v
#define flushed (len(buffer[me]) == 0)
#define all_flushed \
    (len(buffer[0]) == 0 && len(buffer[PRODUCERS - 1]) == 0 && len(buffer[WORKER]) == 0)

/* Seq_cst. */
inline set(a, v)
{
    atomic { flushed -> memory[a] = v }
}

proctype late(byte a)
{
    memory[a] = 1;
    calls--
}

/* The memory of the machine. */
proctype flush()
{
    byte a, v;
end:
    do
    :: atomic { buffer[0]?a, v -> memory[a] = v; a = 0; v = 0 }
#if PRODUCERS > 1
    :: atomic { buffer[1]?a, v -> memory[a] = v; a = 0; v = 0 }
#endif
    :: atomic { buffer[WORKER]?a, v -> memory[a] = v; a = 0; v = 0 }
    od
}

inline barrier()
{
#if !defined(FENCES) && !defined(MISTAKE_NO_BARRIER)
    all_flushed /* memory runs until then */
#else
    skip
#endif
}

/* Exchanges `parking` from what was seen; what it is, if that fails. */
inline exchange(mine, from, to)
{
    atomic {
        mine ->
        if
        :: memory[PARKING] == from ->
            memory[PARKING] = to;
            from = to
        :: else -> from = memory[PARKING]
        fi
    }
}

/* Of one that has nothing in a buffer, or waits for it. */
inline wake(mine)
{
    seen = memory[PARKING];
#ifndef MISTAKE_CALLED_FIRST
    do
    :: seen % STATES == ASLEEP -> exchange(mine, seen, seen - ASLEEP + CALLED)
    :: else -> break
    od;
#endif
    if
    :: seen % STATES != AWAKE ->
        sleeping = false;
        exchange(mine, seen, seen - seen % STATES + AWAKE)
    :: else
    fi;
    seen = 0
}

/* ---- producers ---- */

inline list()
{
    if
    :: memory[LISTED(me)] -> skip
    :: else ->
#ifndef MISTAKE_LISTED_LATE
        put(LISTED(me), 1);
#endif
        atomic {
            flushed ->
            queue[pushed] = me;
            place = pushed;
            pushed++
        };
        put(LINK(place), 1);
        flushed;
        place = 0
#ifdef MISTAKE_LISTED_LATE
        ; put(LISTED(me), 1)
#endif
    fi
}

/* A full barrier. */
inline fence()
{
#if defined(FENCES) && !defined(MISTAKE_NO_FENCE)
    flushed
#else
    skip
#endif
}

inline say()
{
#ifdef MISTAKE_LIST_FIRST
    list();
#endif
    put(USED(me), n + 1);
    fence();
#ifndef MISTAKE_LIST_FIRST
    list()
#endif
}

/* No memory for a record: the worker is to look at the entries. */
inline overlook()
{
    atomic {
        flushed ->
        memory[OVERLOOKED] = 1
    };
#ifndef MISTAKE_OVERLOOK_SILENT
    if
    :: memory[WAKE_BEFORE] != OPEN -> wake(flushed)
    :: else
    fi
#endif
}

inline ask()
{
    if
    :: near[me * ADDS + n] && memory[WAKE_BEFORE] != OPEN -> wake(flushed)
    :: else
    fi
}

inline withdraw()
{
#ifdef MISTAKE_NO_LOOK
    skip
#else
    if
    :: memory[STOPPING] ->
        atomic {
            flushed ->
            if
#ifdef MISTAKE_WITHDRAW_BLINDLY
            :: true ->
                assert(memory[ENTRY(me, n)] == PENDING);
#else
            :: memory[ENTRY(me, n)] == PENDING ->
#endif
                memory[ENTRY(me, n)] = REFUSED
            :: else
            fi
        }
    :: else
    fi
#endif
}

proctype producer(byte me)
{
    byte n, place, seen;
    do
    :: n < (me == 0 -> ADDS : 1) && !memory[STOPPING] ->
        if
        :: near[me * ADDS + n] = true
        :: true
        fi;
        put(ENTRY(me, n), PENDING);
#ifdef MISTAKE_ASK_FIRST
        ask();
#endif
#ifdef OVERLOOK
        if
        :: say()
        :: n == ADDS - 1 -> overlook()
        fi;
#else
        say();
#endif
#ifndef MISTAKE_ASK_FIRST
        ask();
#endif
        withdraw();
        n++
    :: else -> break
    od;
#ifdef COMPACTION
    if
    :: true
    :: atomic {
        flushed && !memory[CLAIMED(me)] ->
        memory[CLAIMED(me)] = 1
    };
        if
        :: put(CLAIMED(me), 0)
        :: read[me] = n; /* all records are dropped */
            put(CLAIMED(me), 0);
            overlook()
        fi
    fi;
#endif
    atomic {
        flushed ->
        calls--;
        n = 0
    }
}

/* ---- others ---- */

#ifdef STOP
proctype stopper()
{
    byte s, n, seen;
#if defined(MISTAKE_STOP_RELAXED)
    atomic {
        calls++;
        run late(STOPPING)
    };
#elif !defined(MISTAKE_STOP_LATE)
    memory[STOPPING] = 1;
#endif
    wake(true);
#ifdef MISTAKE_STOP_LATE
    memory[STOPPING] = 1;
#endif
    joined;
#ifndef MISTAKE_STOP_NO_BARRIER
    barrier();
#endif
    do
    :: s < PRODUCERS ->
        n = 0;
        do
        :: n < ADDS ->
            atomic {
                if
                :: memory[ENTRY(s, n)] == PENDING -> memory[ENTRY(s, n)] = ENDED
                :: else
                fi;
                n++
            }
        :: else -> break
        od;
        s++
    :: else -> break
    od;
    calls--
}
#endif

#ifdef ASK
proctype asker()
{
    byte seen;
#if defined(MISTAKE_REQUEST_RELAXED)
    atomic {
        calls++;
        run late(REQUEST)
    };
#elif !defined(MISTAKE_REQUEST_LATE)
    memory[REQUEST] = 1;
#endif
    wake(true);
#ifdef MISTAKE_REQUEST_LATE
    memory[REQUEST] = 1;
#endif
    do
    :: atomic { memory[REQUEST] == 2 -> break }
    od;
    calls--
}
#endif

/* ---- the worker ---- */

inline look_at(s, m)
{
    atomic {
        flushed ->
        if
        :: near[s * ADDS + m] && memory[ENTRY(s, m)] == PENDING -> memory[ENTRY(s, m)] = RUN
        :: else
        fi
    }
}

inline read_stream(s)
{
    if
    :: memory[USED(s)] == read[s] -> skip
    :: else ->
        atomic {
            flushed ->
            was = memory[CLAIMED(s)];
            memory[CLAIMED(s)] = 1
        };
        if
        :: was ->
            was = 0;
            again = true
        :: else ->
            atomic {
                m = read[s];
                read[s] = memory[USED(s)]
            };
            do
            :: m < read[s] ->
                look_at(s, m);
                m++
            :: else ->
                m = 0;
                break
            od;
            put(CLAIMED(s), 0)
        fi
    fi
}

inline gather()
{
    stalled = false;
    do
    :: atomic {
        if
        :: popped == pushed -> break
        :: popped < pushed && !memory[LINK(popped)] ->
#ifdef MISTAKE_STALL_IGNORED
            break
#else
            stalled = true;
            break
#endif
        :: else ->
            assert(!on_list[queue[popped]]);
            on_list[queue[popped]] = true;
            queue[popped] = 0;
            popped++
        fi
    }
    od
}

inline read_all()
{
    gather();
    atomic {
#ifdef MISTAKE_AGAIN_FORGOTTEN
        all = stalled;
#else
        all = stalled || again;
#endif
        again = false;
        stalled = false;
        i = 0
    };
    do
    :: i < PRODUCERS && (all || on_list[i]) ->
        read_stream(i);
        i++
    :: i < PRODUCERS && !(all || on_list[i]) -> i++
    :: else -> break
    od;
    all = false;
    i = 0;
    if
    :: memory[OVERLOOKED] ->
        set(OVERLOOKED, 0);
        do
        :: i < PRODUCERS ->
            m = 0;
            do
            :: m < ADDS ->
                look_at(i, m);
                m++
            :: else -> break
            od;
            i++
        :: else -> break
        od;
        m = 0;
        i = 0
    :: else
    fi
}

/* hwt_gate_begin() */
inline begin()
{
    number = (number + 1) % SLEEPS;
    put(WAKE_BEFORE, OPEN);
#ifndef MISTAKE_ASLEEP_LATE
    put(PARKING, number * STATES + ASLEEP);
#endif
    flushed
}

/* hwt_gate_open() */
inline awake()
{
    put(WAKE_BEFORE, OPEN);
    atomic {
        flushed ->
        memory[PARKING] = number * STATES + AWAKE
    }
}

inline dismiss()
{
    do
    :: i < PRODUCERS ->
        if
        :: on_list[i] ->
            on_list[i] = false;
            dismissed[i] = true;
            put(LISTED(i), 0)
        :: else
        fi;
        i++
    :: else ->
        i = 0;
        break
    od
}

inline read_dismissed()
{
    do
    :: i < PRODUCERS ->
#ifndef MISTAKE_DISMISSED_FORGOTTEN
        if
        :: dismissed[i] -> read_stream(i)
        :: else
        fi;
#endif
        dismissed[i] = false;
        i++
    :: else ->
        i = 0;
        break
    od
}

/* hwt_gate_barrier(): of its own, and of all. */
inline barriers()
{
#ifndef MISTAKE_NO_OWN_BARRIER
    flushed;
#endif
    barrier()
}

inline close_for_long()
{
#ifdef MISTAKE_BARRIER_FIRST
    barriers();
#endif
    put(WAKE_BEFORE, FAR);
    dismiss();
#ifndef MISTAKE_BARRIER_FIRST
    barriers();
#endif
#ifndef MISTAKE_NOT_AGAIN
    read_dismissed();
    read_all();
#endif
#ifdef MISTAKE_ASLEEP_LATE
    put(PARKING, number * STATES + ASLEEP);
    flushed;
#endif
    long_sleep = !again
}

inline park()
{
    begin();
    read_all();
    if
    :: again -> long_sleep = false
    :: else -> close_for_long()
    fi
}

inline sleep()
{
    atomic {
        sleeping = memory[PARKING] % STATES == ASLEEP && long_sleep;
        long_sleep = false
    };
    if
    :: !sleeping
    :: atomic {
        sleeping && calls == 0 && all_flushed ->
        i = 0;
        do
        :: i < PRODUCERS ->
            m = 0;
            do
            :: m < ADDS ->
                assert(!(near[i * ADDS + m] && memory[ENTRY(i, m)] == PENDING));
                m++
            :: else -> break
            od;
            i++
        :: else -> break
        od;
        i = 0;
        m = 0;
        joined = true
    }
    fi
}

proctype worker()
{
    byte i, m, number, me = WORKER;
    bool stalled, all;
    bit was;
    do
    :: joined || memory[STOPPING] -> break
    :: else ->
        read_all();
        if
        :: memory[REQUEST] == 1 -> set(REQUEST, 2)
        :: else
        fi;
#ifdef MISTAKE_STOP_EARLY_LOOK
        stalled = memory[STOPPING];
#endif
        park();
        if
#if defined(MISTAKE_STOP_EARLY_LOOK)
        :: stalled -> stalled = false
#elif !defined(MISTAKE_STOP_UNSEEN)
        :: memory[STOPPING] -> skip
#endif
        :: else ->
            if
#ifndef MISTAKE_REQUEST_UNSEEN
            :: memory[REQUEST] == 1 -> skip
#endif
            :: else -> sleep()
            fi
        fi;
        awake()
    od;
    atomic {
        flushed ->
        joined = true
    }
}

/* After stop: each timeout that was accepted has run or was ended. */
proctype check()
{
    byte s, n;
    atomic {
        calls == 0 && joined && all_flushed ->
        do
        :: s < PRODUCERS && memory[STOPPING] ->
            n = 0;
            do
            :: n < ADDS ->
                assert(memory[ENTRY(s, n)] != PENDING);
                n++
            :: else -> break
            od;
            s++
        :: else -> break
        od
    }
}

init
{
    atomic {
        run flush();
        run producer(0);
#if PRODUCERS > 1
        run producer(1);
#endif
#ifdef STOP
        calls++;
        run stopper();
#endif
#ifdef ASK
        calls++;
        run asker();
#endif
        run check();
        run worker()
    }
}
