/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The place of one entry, and its hints in the wheel: what the worker makes of records that come from
 * two threads, by their own streams, in any order, while the entry serves one timeout after the other.
 * A cancel tells the worker nothing. A compaction may leave out what is out of date. Generations in
 * records, places and hints wrap; those of the entry do not. Its slab may be trimmed and used again.
 *
 *     here             there
 *     add              accept_timeout() with renew() in hwt/timer/arm.c
 *     cancel, move     the exchange in move.c; then, of a move to earlier, the record
 *     file_for, note   hwt_worker_file_at() in hwt/worker/worker.h, hwt_worker_outdate() in file.c
 *     file             hwt_wheel_file_at() in hwt/wheel/wheel.c
 *     counts, stays    counts(), keep() there, with hwt_worker_wanted() in file.c
 *     take, look       take_from() there, look() in hwt/worker/pass.c
 *     throw away       hwt_wheel_prune_and_peek(), hwt_wheel_sweep()
 *     leave out        hwt_pending_stays() in hwt/inbox/lane.c
 *     trim             trim() in pass.c, carve() in hwt/pool/pool.c
 *
 * What threads do to the state at the same time is in word.pml: here an exchange is a step. Between
 * two renewals the worker has found each stream empty once, and swept all buckets, and no thread is
 * held between its exchange and its record for so long: for 2^28 uses of one entry, there.
 *
 * Verified: whenever nothing is under way and no record unread, a sweep would leave one hint of a
 * pending timeout, for its deadline or before, and none of what is not pending; what stays before is
 * of the pending timeout, and what runs is taken by a hint of its own, not before its
 * deadline.
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
#ifndef TRIMS
#define TRIMS 0
#endif

/* How much greater another entry's generation may be, of the same slab. */
#ifdef MISTAKE_FLOOR_FAR
#define APART (WRAP / 2 + 1)
#else
#define APART 1
#endif
#define LAST (LIVES + APART)

#define wrapped(g) ((g) % WRAP)
#define since_floor(g) (((g) + LAST * WRAP - floor) % WRAP)
#define newer_by(its) ((its + WRAP - place_generation) % WRAP)

/* The entry. */
byte generation, deadline;
bool pending, given; /* there is a handle */
byte owner = 1;      /* of the free entry: a thread; 0: nobody, or a record */
byte floor, trims = TRIMS;
byte most = LIVES;

/* The generation as it is; the worker makes use of what is left of it in a record only. */
chan pendings[2] = [DEPTH] of { byte, byte }; /* generation, deadline */
chan renewals[2] = [DEPTH] of { byte };       /* generation */

/* The worker's: the tick + 1 for which it is filed, 0: nowhere. */
byte place_at, place_generation;

/* A hint for each tick, of each generation: what it says of that, + 1. The same one twice is one. */
#define HINTS (2 * (LAST + 1))
#define hint_at(tick, g) hints[(tick) * (LAST + 1) + (g)]
byte hints[HINTS];
byte hints_count;
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
    bool renews;
end:
    do
    :: atomic {
        owner == me && generation < most ->
        generation++;
        owner = 0;
        under_way++;
        g = generation;
        if
#ifndef MISTAKE_NO_RENEWAL
        :: generation % RENEWAL == 0 -> renews = true
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
        :: renews -> renewals[me - 1]!g
        :: else ->
            pendings[me - 1]!g, deadline;
            given = pending
        fi;
        atomic {
            g = 0;
            renews = false;
            under_way--;
            idle = idle || under_way == 0
        }
    :: atomic {
        pending && given ->
        pending = false;
        given = false;
        owner = me
    }
    :: atomic {
        pending && given && deadline == 1 ->
        deadline = 0;
        g = generation;
        under_way++
    };
        pendings[me - 1]!g, 0;
        atomic {
            g = 0;
            under_way--;
            idle = idle || under_way == 0
        }
    :: atomic { pending && given && deadline == 0 -> deadline = 1 }
    :: owner == me -> owner = 3 - me /* by the pool */
    od
}

/* ---- the wheel ---- */

inline file(tick, g)
{
    place_at = tick + 1;
    hints_count = hints_count + (hint_at(tick, g) == 0);
    hint_at(tick, g) = place_generation + 1
}

#ifdef MISTAKE_HINT_BELIEVED
#define counts(h) (place_at == h / (LAST + 1) + 1)
#elif defined MISTAKE_WHERE_IGNORED
#define counts(h) (place_generation + 1 == hints[h])
#else
#define counts(h) (place_at == h / (LAST + 1) + 1 && place_generation + 1 == hints[h])
#endif

#ifdef MISTAKE_WANTS_NOT_ASKED
#define wants(h) true
#elif defined MISTAKE_ANY_WANTED
#define wants(h) pending
#else
#define wants(h) (pending && since_floor(wrapped(generation)) + 1 == hints[h])
#endif

#define stays(h) (counts(h) && wants(h))

/* Any hint; its number is `h`. */
inline choose_hint()
{
    do
    :: k < hints_count - 1 -> k++
    :: break
    od;
    do
    :: hints[h] == 0 -> h++
    :: hints[h] != 0 && k > 0 ->
        k--;
        h++
    :: hints[h] != 0 && k == 0 -> break
    od
}

inline remove_hint()
{
    hints[h] = 0;
    hints_count--
}

inline remove_all()
{
    h = 0;
    do
    :: h < HINTS ->
        hints[h] = 0;
        h++
    :: else -> break
    od;
    hints_count = 0
}

/* ---- the worker ---- */

#define all_emptied (emptied[0] && emptied[1] && emptied[2] && emptied[3] && idle)

inline file_for(g, tick)
{
    its = since_floor(wrapped(g));
    if
#ifndef MISTAKE_ANY_ORDER
    :: newer_by(its) >= WRAP / 2 /* older */
#endif
    :: newer_by(its) == 0 && place_at != 0 ->
#ifdef MISTAKE_LATER_WINS
        file(tick, g)
#else
        if
        :: tick + 1 < place_at -> file(tick, g)
        :: else
        fi
#endif
    :: newer_by(its) == 0 && place_at == 0 ->
        if
        :: pending && wrapped(generation) == wrapped(g) -> file(deadline, g)
        :: else
        fi
    :: else ->
        place_generation = its;
        file(tick, g)
    fi;
    its = 0
}

inline note(g)
{
    its = since_floor(wrapped(g));
    if
#ifndef MISTAKE_NOT_NOTED
    :: newer_by(its) > 0 && newer_by(its) < WRAP / 2 ->
        place_generation = its;
        place_at = 0
#endif
    :: else
    fi;
    its = 0
}

#ifdef MISTAKE_EARLIER_LEFT_OUT
#define pending_stays (pending && wrapped(generation) == wrapped(g) && d == deadline && d > 0)
#else
#define pending_stays (pending && wrapped(generation) == wrapped(g) && d <= deadline)
#endif

inline read_pending(i)
{
    pendings[i]?g, d;
    if
    :: file_for(g, d)
    :: !pending_stays -> skip
    fi;
    emptied[i] = emptied[i] || len(pendings[i]) == 0;
    g = 0;
    d = 0
}

inline read_renewal(i)
{
    renewals[i]?g;
    note(g);
    remove_all();
    free_it();
    emptied[0] = (len(pendings[0]) == 0);
    emptied[1] = (len(pendings[1]) == 0);
    emptied[2] = (len(renewals[0]) == 0);
    emptied[3] = (len(renewals[1]) == 0);
    idle = (under_way == 0);
    g = 0;
    h = 0
}

/* `d` is the tick, `g` the hint's true generation. */
inline look()
{
    if
#ifndef MISTAKE_TAKEN_BELIEVED
    :: !pending || since_floor(generation) != place_generation
    :: pending && since_floor(generation) == place_generation && deadline > d ->
#ifdef MISTAKE_NOT_FILED_AGAIN
        skip
#else
        file_for(generation, deadline)
#endif
#endif
    :: else ->
        assert(pending && deadline <= d && g == generation);
        pending = false;
        given = false;
        free_it()
    fi
}

proctype worker()
{
    byte g, d, h, k, its;
end:
    do
    :: atomic { len(pendings[0]) > 0 -> read_pending(0) }
    :: atomic { len(pendings[1]) > 0 -> read_pending(1) }
    :: atomic { len(renewals[0]) > 0 && all_emptied -> read_renewal(0) }
    :: atomic { len(renewals[1]) > 0 && all_emptied -> read_renewal(1) }
    /* The tick of a hint comes, or it is met before that. */
    :: atomic {
        hints_count > 0 ->
        choose_hint();
        d = h / (LAST + 1);
        g = h % (LAST + 1);
        if
        :: counts(h) ->
            remove_hint();
            place_at = 0;
            look()
        :: stays(h) ->
            assert(pending && g == generation)
#ifdef MISTAKE_SWEPT_WANTED
            ; remove_hint()
#endif
        :: !stays(h) -> remove_hint()
        fi;
        g = 0;
        d = 0;
        h = 0
    }
    :: atomic {
        owner != 0 && trims > 0 ->
        trims--;
#ifndef MISTAKE_TRIM_UNSWEPT
        remove_all();
#endif
        if
        :: true
        :: generation = generation + APART;
            most = most + APART
        fi;
        floor = generation;
        place_generation = 0;
        place_at = 0;
        h = 0
    }
    :: atomic {
        under_way == 0 &&
        len(pendings[0]) + len(pendings[1]) + len(renewals[0]) + len(renewals[1]) == 0 ->
        do
        :: h < HINTS ->
            k = k + (hints[h] != 0 && stays(h));
            assert(hints[h] == 0 || !stays(h) || h / (LAST + 1) <= deadline);
            h++
        :: else -> break
        od;
        assert(k == pending);
        h = 0;
        k = 0
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
