/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The place of one entry in the wheel: what the worker makes of records that come from two threads,
 * by four streams, in any order, while the entry serves one timeout after the other. A compaction
 * may leave out what is out of date. Generations in records wrap; those of the entry do not.
 *
 *     here             there
 *     add              new_timeout() with renew() in hwt/core/timer.c
 *     cancel, move     the exchange in timeout.c, then the record
 *     file_for, reap   hwt_worker_file_for() in hwt/core/file.c, read_cancelled() in read.c
 *     look             look() in hwt/core/worker.c, of what was taken from its bucket
 *     leave out        hwt_pending_stays(), hwt_cancelled_stays() in hwt/core/lane.c
 *
 * What threads do to the state at the same time is in word.pml: here an exchange is a step. Between
 * two renewals the worker has found each stream empty once, and no thread is held between its
 * exchange and its record for so long: for 2^28 uses of one entry, there.
 *
 * Verified: whenever nothing is under way and no record unread, a pending timeout is filed for its
 * deadline or before, under its own generation; and no place is filled for one that is not.
 */

#ifndef LIVES
#define LIVES 4 /* generations */
#endif
#ifndef DEPTH
#define DEPTH 3 /* records in a stream */
#endif
#ifndef WRAP
#define WRAP 16
#endif
#ifndef RENEWAL
#define RENEWAL 4
#endif

#define RENEW 1

#define wrapped(g) ((g) % WRAP)
#define newer_by(g) ((g + WRAP - place_generation) % WRAP)

/* The entry. */
byte generation, deadline;
bool pending, given; /* there is a handle */
byte owner = 1;      /* of the free entry: a thread; 0: nobody, or a record */

chan pendings[2] = [DEPTH] of { byte, byte };   /* generation, deadline */
chan cancelleds[2] = [DEPTH] of { byte, byte }; /* generation, RENEW */

/* The worker's: the tick + 1 for which it is filed. */
byte place_at, place_generation;
byte under_way;

/* Since the last renewal was read, these streams were empty, and nobody was between the two. */
bool emptied[4] = true, idle = true;

inline free_it()
{
    if
    :: owner = 1
    :: owner = 2
    fi
}

/* ---- threads ---- */

proctype thread(byte me)
{
    byte g;
end:
    do
    :: atomic {
        owner == me && generation < LIVES ->
        generation++;
        owner = 0;
        under_way++;
        if
#ifndef MISTAKE_NO_RENEWAL
        :: generation % RENEWAL == 0 -> g = RENEW
#endif
        :: else ->
            if
            :: deadline = 0
            :: deadline = 1
            fi;
            pending = true
        fi
    };
        if
        :: g == RENEW -> cancelleds[me - 1]!wrapped(generation), RENEW
        :: else ->
            pendings[me - 1]!wrapped(generation), deadline;
            given = pending
        fi;
        atomic {
            g = 0;
            under_way--;
            idle = idle || under_way == 0
        }
    :: atomic {
        pending && given ->
        pending = false;
        given = false;
        g = generation;
        under_way++
    };
        cancelleds[me - 1]!wrapped(g), 0;
        owner = me;
        atomic {
            g = 0;
            under_way--;
            idle = idle || under_way == 0
        }
    :: atomic {
        pending && given && deadline == 1 ->
        deadline = 0;
        g = generation;
        under_way++
    };
        pendings[me - 1]!wrapped(g), 0;
        atomic {
            g = 0;
            under_way--;
            idle = idle || under_way == 0
        }
    :: owner == me -> owner = 3 - me /* by the pool */
    od
}

/* ---- the worker ---- */

#define all_emptied (emptied[0] && emptied[1] && emptied[2] && emptied[3] && idle)

inline file_for(g, tick)
{
    if
#ifndef MISTAKE_ANY_ORDER
    :: newer_by(g) >= WRAP / 2 /* older */
#endif
    :: newer_by(g) == 0 && place_at != 0 ->
#ifdef MISTAKE_LATER_WINS
        place_at = tick + 1
#else
        if
        :: tick + 1 < place_at -> place_at = tick + 1
        :: else
        fi
#endif
    :: newer_by(g) == 0 && place_at == 0 ->
        if
#ifndef MISTAKE_RECORD_BELIEVED
        :: !pending || wrapped(generation) != g
        :: else -> place_at = deadline + 1
#else
        :: true -> place_at = tick + 1
#endif
        fi
    :: else ->
        place_at = tick + 1;
        place_generation = g
    fi
}

inline reap(g)
{
    if
#ifdef MISTAKE_REAP_ANY
    :: true ->
#else
    :: newer_by(g) < WRAP / 2 ->
#endif
        place_at = 0;
#ifndef MISTAKE_NOT_NOTED
        place_generation = g
#endif
    :: else
    fi
}

#ifdef MISTAKE_EARLIER_LEFT_OUT
#define pending_stays (pending && wrapped(generation) == g && d == deadline && d > 0)
#else
#define pending_stays (pending && wrapped(generation) == g && d <= deadline)
#endif

inline read_pending(i)
{
    pendings[i]?g, d;
    if
    :: file_for(g, d)
    :: !pending_stays -> skip
    fi
}

inline read_cancelled(i)
{
    cancelleds[i]?g, d;
    if
    :: reap(g);
        if
        :: d == RENEW ->
            free_it();
            emptied[0] = (len(pendings[0]) == 0);
            emptied[1] = (len(pendings[1]) == 0);
            emptied[2] = (len(cancelleds[0]) == 0);
            emptied[3] = (len(cancelleds[1]) == 0);
            idle = (under_way == 0)
        :: else
        fi
    :: d != RENEW && wrapped(generation) != g -> skip
    fi
}

proctype worker()
{
    byte g, d;
end:
    do
    :: atomic {
        len(pendings[0]) > 0 ->
        read_pending(0);
        g = 0;
        d = 0;
        emptied[0] = emptied[0] || len(pendings[0]) == 0
    }
    :: atomic {
        len(pendings[1]) > 0 ->
        read_pending(1);
        g = 0;
        d = 0;
        emptied[1] = emptied[1] || len(pendings[1]) == 0
    }
    :: atomic {
        len(cancelleds[0]) > 0 && (!cancelleds[0]?[_, RENEW] || all_emptied) ->
        read_cancelled(0);
        g = 0;
        d = 0;
        emptied[2] = emptied[2] || len(cancelleds[0]) == 0
    }
    :: atomic {
        len(cancelleds[1]) > 0 && (!cancelleds[1]?[_, RENEW] || all_emptied) ->
        read_cancelled(1);
        g = 0;
        d = 0;
        emptied[3] = emptied[3] || len(cancelleds[1]) == 0
    }
    /* Its tick comes. */
    :: atomic {
        place_at > 0 ->
        d = place_at - 1;
        place_at = 0;
        if
        :: !pending || wrapped(generation) != place_generation
        :: else ->
            if
            :: deadline > d -> file_for(wrapped(generation), deadline)
            :: else ->
                pending = false;
                given = false;
                free_it()
            fi
        fi;
        d = 0
    }
    :: atomic {
        under_way == 0 && len(pendings[0]) + len(pendings[1]) + len(cancelleds[0]) +
                          len(cancelleds[1]) == 0 ->
        assert(!pending || (place_at > 0 && place_at - 1 <= deadline &&
                            place_generation == wrapped(generation)));
        assert(pending || place_at == 0)
    }
    od
}

init
{
    atomic {
        run thread(1);
        run thread(2);
        run worker()
    }
}
