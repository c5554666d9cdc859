/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The pending queue of a shared lane, with its two consumers, link by link.
 *
 *     here        there
 *     enqueue     cds_wfcq_enqueue() in liburcu's wfcqueue.h, by hwt_mpsc_push()
 *     dequeue     __cds_wfcq_dequeue_nonblocking(), by hwt_mpsc_pop()
 *     move_all    __cds_wfcq_splice_nonblocking(), by hwt_mpsc_splice()
 *     splice      hwt_lane_splice_pending() in hwt/lane.c
 *     salvage     hwt_lane_salvage()
 *     is_empty    hwt_lane_is_empty()
 *     adder       new_timeout() in hwt/timer.c, with gather() in hwt/pool.c; cancels what it added
 *     drain       drain_lane() in hwt/worker.c, end_lane() in hwt/end.c
 *     worker      hwt_worker_main(), whose tasks add one timeout and re-arm others; and then stop()
 *                 with hwt_worker_abandon()
 *
 * Verified: nothing that was accepted is lost or met twice; a link that is in use is not used;
 * the worker meets what one thread added in the order in which it did; only what was cancelled is
 * salvaged; the lane is not empty for the worker while something that it added is queued; stop does
 * not wait once all adders have returned.
 */

#define ENTRIES 3
#ifndef WORKER_ADDS
#define WORKER_ADDS 0
#endif

/* Nodes: the entries, and the heads of the queues. */
#define PENDING 3
#define PASSED 4
#define DRAINED 5
#define NIL 6
#define STALLED 7

#define NEW 0
#define QUEUED 1
#define CANCELLED 2
#define ENDED 3

byte next[6] = NIL;
byte tails[3];
byte state[ENTRIES];
bool consuming, stopping;

/* What the properties need to know. */
bool queued[ENTRIES]; /* pushed, and not met since */
bool pooled[ENTRIES];
byte adder_of[ENTRIES], number_of[ENTRIES]; /* it is the adder's n-th */
byte met[3];                                /* of each adder, the last that was met */
byte adding = 2;                            /* adders that have not returned */

#define WORKER 2 /* an adder, too */
#define tail_of(q) tails[(q)-PENDING]
#define empty_queue(q) (next[q] == NIL && tail_of(q) == q)

inline enqueue(q, n)
{
    next[n] = NIL;
    atomic {
        old = tail_of(q);
        tail_of(q) = n
    };
    atomic {
        next[old] = n;
        old = 0
    }
}

/* `node`: the oldest; NIL: none; STALLED: a thread is half-way through a push. */
inline dequeue(q)
{
    node = next[q];
    if
    :: node != NIL
    :: node == NIL ->
        if
        :: tail_of(q) == q
        :: else -> node = (next[q] == NIL -> STALLED : next[q])
        fi
    fi;
    if
    :: node < PENDING ->
        after = next[node];
        if
        :: after == NIL ->
            next[q] = NIL;
            if
            :: atomic { tail_of(q) == node -> tail_of(q) = q }
            :: else ->
                after = next[node];
                if
                :: after == NIL ->
                    atomic {
                        next[q] = node;
                        node = STALLED
                    }
                :: else -> next[q] = after
                fi
            fi
        :: else -> next[q] = after
        fi
    :: else
    fi;
    after = 0
}

inline begin_consuming(began)
{
    atomic {
#ifdef MISTAKE_TWO_CONSUMERS
        began = true;
#else
        began = !consuming;
#endif
        consuming = true
    }
}

/* All that is in a queue to DRAINED. `moved`: false: a thread is half-way through a push. */
inline move_all(q)
{
    moved = true;
    if
    :: empty_queue(q)
    :: else ->
        atomic {
            first = next[q];
            next[q] = NIL
        };
        if
        :: first == NIL -> moved = (tail_of(q) == q)
        :: else ->
            atomic {
                last = tail_of(q);
                tail_of(q) = q
            };
            atomic {
                old = tail_of(DRAINED);
                tail_of(DRAINED) = last
            };
            next[old] = first
        fi
    fi;
    atomic {
        first = 0;
        last = 0;
        old = 0
    }
}

/* `moved`: false: also where somebody else consumes. */
inline splice()
{
    begin_consuming(moved);
    if
    :: moved ->
#ifdef MISTAKE_PASSED_LAST
        move_all(PENDING);
        move_all(PASSED);
#else
        move_all(PASSED);
        move_all(PENDING);
#endif
        consuming = false
    :: else
    fi
}

/* `moved`: it is empty. */
inline is_empty()
{
#ifndef MISTAKE_EMPTY_UNGUARDED
    begin_consuming(moved);
    if
    :: moved ->
#endif
        moved = empty_queue(PENDING);
        moved = moved && empty_queue(PASSED);
        moved = moved && empty_queue(DRAINED);
#ifndef MISTAKE_EMPTY_UNGUARDED
        consuming = false
    :: else
    fi
#endif
}

/* `got`: an entry, or NIL. */
inline salvage()
{
    got = NIL;
    begin_consuming(began);
    if
    :: began ->
        do
        :: patience > 0 ->
            dequeue(PENDING);
            if
            :: node >= PENDING -> break
            :: else
            fi;
            if
#ifdef MISTAKE_SALVAGE_ANY
            :: true ->
#else
            :: state[node] == CANCELLED ->
#endif
                got = node;
                break
            :: else
            fi;
#if defined(MISTAKE_BACK_TO_PENDING)
            enqueue(PENDING, node);
#elif defined(MISTAKE_EARLY_END)
            consuming = false;
            enqueue(PASSED, node);
#else
            enqueue(PASSED, node);
#endif
            patience--
        :: patience == 0 -> break
        od;
        consuming = false
    :: else
    fi
}

inline meet(e)
{
    assert(queued[e]);
    queued[e] = false;
    next[e] = NIL
}

proctype adder(byte me, adds, patience_for)
{
    byte node, after, old, got, patience;
    bool began;
    do
    :: adds > 0 ->
        patience = patience_for;
        salvage();
        atomic {
            patience = 0;
            node = 0;
            began = false;
            if
            :: got < NIL ->
                meet(got);
                assert(state[got] == CANCELLED)
            :: got == NIL && pooled[0] -> got = 0
            :: got == NIL && pooled[1] -> got = 1
            :: got == NIL && pooled[2] -> got = 2
            :: else
            fi;
            adds--;
            if
            :: got < NIL ->
                pooled[got] = false;
                queued[got] = true;
                state[got] = QUEUED;
                adder_of[got] = me;
                number_of[got] = 3 - adds
            :: else
            fi
        };
        if
        :: got < NIL ->
            enqueue(PENDING, got);
            if
            :: stopping -> /* hwt_timeout_withdraw() */
                if
                :: atomic { state[got] == QUEUED -> state[got] = NEW }
                :: else
                fi
            :: else
            fi;
            if
            :: true
            :: atomic { state[got] == QUEUED -> state[got] = CANCELLED }
            fi
        :: else
        fi;
        got = 0
    :: atomic {
        adds == 0 ->
        adding--;
        break
    }
    od
}

/* `node`: as dequeue() left it. */
inline drain()
{
    do
    :: true ->
        dequeue(DRAINED);
        if
        :: node >= PENDING -> break
        :: else
        fi;
        atomic {
            meet(node);
            if
            :: state[node] == QUEUED ->
                assert(number_of[node] > met[adder_of[node]]);
                met[adder_of[node]] = number_of[node];
                state[node] = ENDED
            :: else ->
                pooled[node] = !stopping;
                state[node] = NEW
            fi;
            number_of[node] = 0;
            adder_of[node] = 0
        }
    od
}

inline not_of_worker(e)
{
    assert(!queued[e] || adder_of[e] != WORKER)
}

proctype worker()
{
    byte node, after, old, first, last;
    bool moved, alone, adds = WORKER_ADDS;
    do
    :: true ->
        splice();
        drain();
        node = 0
    :: adds ->
        atomic {
            adds = false;
            if
            :: pooled[0] -> node = 0
            :: pooled[1] -> node = 1
            :: pooled[2] -> node = 2
            :: else -> node = NIL
            fi;
            if
            :: node < NIL ->
                pooled[node] = false;
                queued[node] = true;
                state[node] = QUEUED;
                adder_of[node] = WORKER;
                number_of[node] = 1
            :: else
            fi
        };
        if
        :: node < NIL -> enqueue(PENDING, node)
        :: else
        fi;
        node = 0
    :: WORKER_ADDS && !adds ->
        is_empty();
        atomic {
            if
            :: moved ->
                not_of_worker(0);
                not_of_worker(1);
                not_of_worker(2)
            :: else
            fi;
            moved = false
        }
    :: atomic { stopping = true; break }
    od;
    do
    :: true ->
        alone = (adding == 0);
        splice();
        drain();
#ifdef MISTAKE_GAP_IGNORED
        break;
#endif
        if
        :: moved && node == NIL -> break
        :: else -> assert(!alone)
        fi
    od;
    atomic {
        adding == 0 ->
        assert(!queued[0] || state[0] == NEW);
        assert(!queued[1] || state[1] == NEW);
        assert(!queued[2] || state[2] == NEW)
    }
}

init
{
    atomic {
        tail_of(PENDING) = PENDING;
        tail_of(PASSED) = PASSED;
        tail_of(DRAINED) = DRAINED;
        pooled[0] = true;
        pooled[1] = true;
        pooled[2] = true;
        run adder(0, 2 - WORKER_ADDS, 1);
        run adder(1, 1, 2);
        run worker()
    }
}
