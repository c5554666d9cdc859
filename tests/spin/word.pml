/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The state word and its deadline: two threads with a handle, the worker, the executor (with
 * -DEXECUTOR), and stop (with -DSTOP). The entry serves a second timeout when it is free: whoever
 * has it then begins it.
 *
 *     here                  there
 *     add, withdraw         hwt_entry_begin(), withdraw() in hwt/timer/arm.c
 *     cancel, cancel_sync   cancel_slow() with finish_cancel(), hwt_timeout_cancel_sync() in cancel.c
 *     move, rearm           move_slow(), rearm()
 *     run_task, finish      hwt_task_run(), finish() in hwt/worker/task.c
 *     tell, take_up         hwt_task_tell(), take_up()
 *     file_for, look        hwt_worker_file_at() in hwt/worker/worker.h, look() in pass.c
 *     throw away            hwt_wheel_prune_and_peek(), hwt_wheel_sweep() in hwt/wheel/wheel.c, by
 *                           hwt_worker_wanted() in file.c
 *     end_one, visit        end_one(), visit() in hwt/timer/stop.c
 *
 * Records are a set here: they come in any order, and those that say the same are one. Of the
 * wheel's hints there is the one that counts; see places.pml for the others.
 *
 * Verified: one end for each timeout; with -DTELLS, `cancelled` once for each that was cancelled; no
 * run begins before the deadline, nor after a cancel has returned; no old handle changes a newer
 * timeout; who is refused has not run, and stop ends what is accepted; after cancel_sync the task
 * does not run, nor is visited; and whenever nothing is under way, a pending timeout has a hint that
 * counts, no later than its deadline.
 */

#ifndef TIME_MAX
#define TIME_MAX 1
#endif
#ifndef REARMS
#define REARMS 0
#endif
#ifndef OPS
#define OPS 1
#endif
#ifdef TELLS
#define TELLS_IT true
#else
#define TELLS_IT false
#endif

#define PENDING 1
#define RUNNING 2
#define EXPIRED 3
#define UNTOLD 4
#define CANCELLED 5
#define VISITED 6
#define RAN 8
#define REARMED 16
#define BARRED 32
#define WAITED 64
#define HANDED 128
#define SHIFT 8

#define phase(s) ((s) & 7)
#define with_phase(s, p) (((s) & ~7) | (p))
#define generation(s) ((s) >> SHIFT)
#ifdef MISTAKE_ANY_GENERATION
#define same(s, g) true
#else
#define same(s, g) (generation(s) == (g))
#endif
#define queued(s, g) (phase(s) == PENDING && same(s, g))
#define runs(s, g) (same(s, g) && (phase(s) == RUNNING || phase(s) == VISITED))
#define rearmed(s) (phase(s) == RUNNING && ((s) & REARMED) && !((s) & BARRED))

short state;
byte deadline;

/* Records: a bit for each deadline, and what is to be told. */
byte records[3];
bool untolds[3];

byte now, calls;
bool accepted, stopping, joined;
byte submitted;
byte rearms = REARMS;

/* What the properties need to know; [g] is of that generation. */
byte ends[3], told[3], in_call;
bool was_run[3], over[3], cancelled_it[3];

/* The worker's: the tick + 1 for which the id is filed, 0: it is not; and whether the hint of that
 * is still there. */
byte place_at, place_generation;
bool hint;

/* of the state alone; the result is in `won` */
#define exchange(from, to) \
    atomic { \
        won = (state == (from)); \
        if \
        :: won -> state = to \
        :: else \
        fi

#define exchange_both(from, at, to, next) \
    atomic { \
        won = (state == (from) && deadline == (at)); \
        if \
        :: won -> \
            state = to; \
            deadline = next \
        :: else \
        fi

inline say(g, d)
{
    records[g] = records[g] | (1 << (d))
}

inline ends_now(g)
{
    ends[g]++;
    assert(ends[g] == 1)
}

inline choose(d)
{
    if
    :: d = 0
    :: d = TIME_MAX
    fi
}

/* ---- adding ---- */

inline withdraw(g)
{
#ifdef STOP
#ifdef MISTAKE_NO_LOOK
    skip
#else
    if
    :: stopping ->
#ifdef MISTAKE_WITHDRAW_ANY
        s = state;
#else
        s = (g << SHIFT) | PENDING;
#endif
        exchange(s, with_phase(s, CANCELLED));
            if
            :: won ->
                assert(!was_run[g]);
                ends_now(g)
            :: else
            fi
        }
    :: else
    fi
#endif
#else
    skip
#endif
}

/* The entry is free, and mine: once it serves another timeout. */
inline reuse()
{
    if
    :: generation(state) == 1 && !stopping ->
        choose(deadline);
        d = deadline;
        state = (2 << SHIFT) | PENDING;
        say(2, d);
        withdraw(2)
    :: else
    fi
}

/* ---- running ---- */

inline tell(g)
{
    s = state;
    if
    :: generation(s) == g && phase(s) == UNTOLD ->
        exchange(s, with_phase(s, CANCELLED));
            if
            :: won && TELLS_IT ->
                told[g]++;
                assert(told[g] == 1)
            :: else
            fi
        };
        if
        :: won -> reuse()
        :: else
        fi
    :: else
    fi
}

/* In its own task. */
inline rearm()
{
    choose(d);
    do
    :: s & BARRED -> break
    :: else ->
        at = deadline;
        exchange_both(s, at, s | REARMED, d)
        };
        if
        :: won -> break
        :: else -> s = state
        fi
    od
}

/* RUNNING to what comes after; `again` tells. */
inline finish()
{
    do
    :: s = state;
        at = deadline;
        atomic {
            if
            :: !(s & REARMED) -> next = with_phase(s, EXPIRED)
#ifndef MISTAKE_BARRED_IGNORED
            :: (s & REARMED) && (s & BARRED) -> next = with_phase(s, CANCELLED)
            :: (s & REARMED) && !(s & BARRED) -> next = with_phase(s, PENDING)
#else
            :: s & REARMED -> next = with_phase(s, PENDING)
#endif
            fi;
            next = next & ~(REARMED | BARRED | WAITED);
            again = (phase(next) == PENDING)
        };
        atomic {
#ifdef MISTAKE_FINISH_SPLIT
            won = (state == s);
#else
            won = (state == s && (!again || deadline == at));
#endif
            assert(!won || !again || deadline == at);
            if
            :: won ->
                state = next;
                in_call = 0;
                if
                :: phase(next) == EXPIRED -> ends_now(generation(s))
                :: phase(next) == CANCELLED && TELLS_IT ->
                    told[generation(s)]++;
                    assert(told[generation(s)] == 1)
                :: else
                fi;
                break
            :: else
            fi
        }
    od;
    d = at;
    if
    :: !again -> reuse()
    :: else
    fi
}

/* `ran` and `again` tell. */
inline run_task()
{
    atomic {
#ifdef MISTAKE_FIRE_SPLIT
        ran = (state == s);
#else
        ran = (state == s && deadline == at);
#endif
        if
        :: ran ->
            assert(deadline <= now && !over[generation(s)] && in_call == 0);
            in_call = generation(s);
            was_run[generation(s)] = true;
#ifdef MISTAKE_RAN_FORGOTTEN
            state = with_phase(s & ~HANDED, RUNNING);
#else
            state = with_phase(s & ~HANDED, RUNNING) | RAN;
#endif
            s = state
        :: else
        fi
    };
    again = false;
    if
    :: ran ->
        if
        :: rearms > 0 ->
            rearms--;
            rearm()
        :: true
        fi;
        finish()
    :: else
    fi
}

inline run_again()
{
#ifdef MISTAKE_REARM_SILENT
    skip
#else
    say(generation(s), d)
#endif
}

/* ---- the executor ---- */

inline take_up()
{
    do
    :: s = state;
        at = deadline;
        if
        :: phase(s) == UNTOLD -> tell(generation(s)); break
        :: phase(s) != UNTOLD && (phase(s) != PENDING || !(s & HANDED)) -> break
        :: phase(s) == PENDING && (s & HANDED) && at > now ->
#ifdef MISTAKE_HANDED_SPLIT
            exchange(s, s & ~HANDED);
                assert(!won || deadline == at)
            };
#else
            exchange_both(s, at, s & ~HANDED, at);
                assert(!won || deadline == at) /* the worker may sleep: it is told the true one */
            };
#endif
            if
            :: won -> say(generation(s), at); break
            :: else
            fi
        :: phase(s) == PENDING && (s & HANDED) && at <= now ->
            run_task();
            if
            :: again -> run_again()
            :: else
            fi;
            if
            :: ran -> break
            :: else
            fi
        fi
    od
}

proctype executor()
{
    short s, next;
    byte at, d;
    bool won, ran, again;
end:
    do
    :: submitted > 0 ->
        take_up();
        atomic {
            submitted--;
            s = 0;
            next = 0;
            at = 0;
            d = 0;
            won = false;
            ran = false;
            again = false
        }
    od
}

/* ---- the worker ---- */

inline file_for(g, t)
{
    atomic {
        if
        :: g > place_generation ||
           (g == place_generation && place_at != 0 && t + 1 < place_at) ->
            place_at = t + 1;
            hint = true;
            place_generation = g
        :: g == place_generation && place_at == 0 && phase(state) == PENDING &&
           !(state & HANDED) && generation(state) == g ->
            place_at = deadline + 1;
            hint = true
        :: else
        fi
    }
}

inline look()
{
    do
    :: s = state;
        at = deadline;
        if
        :: phase(s) != PENDING || (s & HANDED) || generation(s) != place_generation -> break
        :: else ->
            if
            :: at > now ->
                file_for(generation(s), at);
                break
            :: else ->
#ifdef EXECUTOR
                exchange_both(s, at, s | HANDED, at);
                    if
                    :: won -> submitted++
                    :: else
                    fi
                };
                ran = won;
#else
                run_task();
                if
                :: again -> run_again()
                :: else
                fi;
#endif
                if
                :: ran -> break
                :: else
                fi
            fi
        fi
    od
}

#ifdef MISTAKE_RAN_UNWANTED
#define wants (phase(state) == PENDING && generation(state) == place_generation && !(state & RAN))
#else
#define wants (phase(state) == PENDING && generation(state) == place_generation)
#endif

#define nothing_said (records[1] == 0 && records[2] == 0 && !untolds[1] && !untolds[2])

inline read_record(g, t)
{
    records[g] = records[g] & ~(1 << t);
    file_for(g, t)
}

proctype worker()
{
    short s, next;
    byte at, d, g;
    bool won, ran, again;
    do
    :: stopping -> break
    :: !stopping ->
        if
        :: atomic { records[1] & 1 -> read_record(1, 0) }
        :: atomic { records[1] & (1 << TIME_MAX) -> read_record(1, TIME_MAX) }
        :: atomic { records[2] & 1 -> read_record(2, 0) }
        :: atomic { records[2] & (1 << TIME_MAX) -> read_record(2, TIME_MAX) }
        :: atomic { untolds[1] -> untolds[1] = false; g = 1 }
        :: atomic { untolds[2] -> untolds[2] = false; g = 2 }
        :: atomic {
            hint && place_at - 1 <= now ->
            hint = false;
#ifndef MISTAKE_PLACE_KEPT
            place_at = 0
#endif
        };
            look()
        /* The place still says that it is filed. */
        :: atomic { hint && !wants -> hint = false }
        :: atomic {
            accepted && calls == 0 && submitted == 0 && nothing_said &&
            (!hint || place_at - 1 > now) ->
            assert(phase(state) != UNTOLD && phase(state) != RUNNING && !(state & HANDED));
            assert(phase(state) != PENDING ||
                   (hint && place_at - 1 <= deadline && place_generation == generation(state)))
        };
            if
            :: now == TIME_MAX && !stopping -> break
            :: now < TIME_MAX -> now++
            :: stopping -> break
            fi
        :: stopping -> break
        fi;
        if
        :: g > 0 ->
#ifdef EXECUTOR
            submitted++;
#else
            tell(g);
#endif
            g = 0
        :: else
        fi;
        atomic {
            s = 0;
            next = 0;
            at = 0;
            d = 0;
            won = false;
            ran = false;
            again = false
        }
    od;
    joined = true
}

/* ---- clients ---- */

/* `yes` tells. */
inline cancel(g)
{
    yes = false;
    do
    :: s = state;
        if
        :: queued(s, g) ->
#ifdef MISTAKE_HANDED_FREED
            untold = TELLS_IT && !(s & HANDED);
#else
            untold = TELLS_IT || (s & HANDED);
#endif
            exchange(s, with_phase(s, (untold -> UNTOLD : CANCELLED)));
                if
                :: won ->
                    assert(generation(s) == g);
                    ends_now(g);
                    cancelled_it[g] = true;
                    yes = true
                :: else
                fi
            };
            if
            :: won ->
                if
                :: s & HANDED
                :: !(s & HANDED) && untold -> untolds[g] = true
                :: !untold
                fi;
                if
                :: !untold -> reuse()
                :: else
                fi;
                break
            :: else
            fi
        :: !queued(s, g) && (!same(s, g) || phase(s) != RUNNING || (s & BARRED)) -> break
#ifdef MISTAKE_NOT_BARRED
        :: same(s, g) && phase(s) == RUNNING && !(s & BARRED) && !(s & REARMED) -> break
        :: same(s, g) && phase(s) == RUNNING && !(s & BARRED) && (s & REARMED) ->
#else
        :: same(s, g) && phase(s) == RUNNING && !(s & BARRED) ->
#endif
            exchange(s, s | BARRED);
                if
                :: won && (s & REARMED) ->
                    ends_now(g);
                    cancelled_it[g] = true;
                    yes = true
                :: else
                fi
            };
            if
            :: won -> break
            :: else
            fi
        fi
    od;
    over[g] = true;
    untold = false
}

inline cancel_sync(g)
{
    cancel(g);
    do
    :: s = state;
        if
#ifdef MISTAKE_VISIT_UNWAITED
        :: !same(s, g) || phase(s) != RUNNING -> break
        :: same(s, g) && phase(s) == RUNNING ->
#else
        :: !runs(s, g) -> break
        :: runs(s, g) ->
#endif
#ifdef MISTAKE_NOT_WAITED
            break
#else
            exchange(s, s | WAITED)
            };
            if
            :: won || (s & WAITED) ->
                !runs(state, g);
                break
            :: else
            fi
#endif
        fi
    od;
    assert(in_call != g)
}

inline move(g)
{
    choose(d);
    do
    :: s = state;
        at = deadline;
        if
        :: !same(s, g) || !(phase(s) == PENDING || rearmed(s)) -> break
        :: same(s, g) && (phase(s) == PENDING || rearmed(s)) ->
#ifdef MISTAKE_MOVE_SPLIT
            won = (state == s);
            if
            :: won -> deadline = d
            :: else
            fi;
#else
            exchange_both(s, at, s, d)
            };
#endif
            if
            :: won ->
                assert(generation(s) == g);
#ifndef MISTAKE_MOVE_SILENT
                if
                :: d < at && phase(s) == PENDING -> say(g, d)
                :: else
                fi;
#endif
                break
            :: else
            fi
        fi
    od
}

proctype client()
{
    short s;
    byte at, d, ops;
    bool won, untold, yes;
    accepted;
    do
    :: ops < OPS ->
        ops++;
        if
        :: move(1)
#ifdef SYNC
        :: cancel_sync(1)
#else
        :: cancel(1)
#endif
        fi;
        atomic {
            s = 0;
            at = 0;
            d = 0;
            won = false;
            yes = false
        }
    :: else -> break
    od;
    calls--
}

/* The first timeout; nobody has a handle until it is accepted. */
proctype adder()
{
    short s;
    byte d;
    bool won;
    choose(deadline);
    d = deadline;
    state = (1 << SHIFT) | PENDING;
    say(1, d);
    withdraw(1);
    atomic {
        accepted = true;
        calls--
    }
}

/* ---- stop ---- */

#ifdef STOP
inline visit()
{
    do
    :: s = state;
        atomic {
            won = (state == s);
            if
            :: won ->
                state = with_phase(s & ~WAITED, CANCELLED);
                in_call = 0;
                break
            :: else
            fi
        }
    od
}

inline end_one()
{
    do
    :: s = state;
        if
        :: phase(s) != PENDING -> break
        :: else ->
            if
            :: next = VISITED
            :: next = CANCELLED
            fi;
            exchange(s, with_phase(s, next));
                if
                :: won ->
                    ends_now(generation(s));
                    if
                    :: next == VISITED ->
                        assert(in_call == 0);
                        in_call = generation(s)
                    :: next == CANCELLED && TELLS_IT ->
                        cancelled_it[generation(s)] = true;
                        told[generation(s)]++;
                        assert(told[generation(s)] == 1)
                    :: else
                    fi
                :: else
                fi
            };
            if
            :: won && next == VISITED ->
                visit();
                break
            :: won && next != VISITED -> break
            :: else
            fi
        fi
    od;
#ifndef MISTAKE_UNTOLD_FORGOTTEN
    s = state;
    if
    :: phase(s) == UNTOLD -> tell(generation(s))
    :: else
    fi
#endif
}

proctype stop()
{
    short s, next;
    byte d;
    bool won;
    stopping = true;
#ifndef MISTAKE_WORKER_FORGOTTEN
    joined;
#endif
#ifndef MISTAKE_EXECUTOR_FORGOTTEN
    submitted == 0;
#endif
    end_one();
    calls--
}
#endif

proctype check()
{
    byte g = 1;
    atomic {
        calls == 0 && joined && submitted == 0 ->
        do
        :: g <= generation(state) ->
            /* What was begun has one end, or is pending where the worker ended by itself. */
            assert(ends[g] == 1 || (ends[g] == 0 && !stopping && phase(state) == PENDING &&
                                    g == generation(state)));
            assert(!TELLS_IT || !cancelled_it[g] || told[g] == 1);
            assert(cancelled_it[g] || told[g] == 0);
            g++
        :: else -> break
        od
    }
}

init
{
    atomic {
        calls = 3;
        run adder();
        run client();
        run client();
#ifdef EXECUTOR
        run executor();
#endif
#ifdef STOP
        calls++;
        run stop();
#endif
        run check();
        run worker()
    }
}
