/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The watermark of a shard of hwt-relay: two replicas read a stream, one of them owns the shard and
 * sends, the other drops by the watermark. With CANCEL, the first message may be cancelled; with ANEW,
 * the stream is deleted and made anew behind it.
 *
 *     here      there, in hwt/relay/
 *     reader    relay_ingest_step(); a message is on the disk at first (its put has returned), and
 *               can be taken only when it is loaded (with LOADS; else at once)
 *     claim     claim(), begin_to_own(), catch_up() in lease.c
 *     say       take() in flights.c, make_watermark() and renew() in lease.c; here a reader may put
 *               between its steps
 *     send      relay_take_step(), relay_send_step(), and done() in flights.c
 *     drop      relay_drop_step() in drop.c, with a point for each put
 *     lease     2: holds; 1: its last quarter, in which nothing may be sent; 0: over. The check and the
 *               send are one step, since a quarter is between them and the end
 *     clock     counts leases. A cancel is in time if it is there two of them before the due time, whoever reads it and
 *               when
 *     is_near   relay_is_near() in agree.c: it has read what the stream had within the last lease. In the worst case that
 *               is what the stream had when the lease before this one began
 *
 * Verified: what a watermark covers has ended, so no replica drops what was not sent or cancelled, as long
 * as the stream has it;
 * no put displaces another message; what was cancelled in time is not sent.
 */

#define REPLICAS 2
#ifndef MESSAGES
#define MESSAGES 2
#endif
#define NONE 255
#ifdef CANCEL
#define DUE 2 /* of all messages; the clock goes up to it */
#else
#define DUE 1
#endif

#define bit(m) (1 << (m))
#define is_in(set, m) ((set >> (m)) & 1)

/* The stream. Number 0 is a put that may be cancelled; a cancel of it may be number 1. */
byte incarnation, length, count;
byte of_incarnation[MESSAGES], of_position[MESSAGES];
byte cancel = NONE;
byte clock;
byte end_now, end_before; /* of the stream, at the last step of the clock, and at the one before */
byte ended; /* sets of messages */
bool cancelled;

/* The entry. */
byte owner = NONE, lease;
byte mark_incarnation, mark_position, mark_due;

/* The replicas. */
byte at_incarnation[REPLICAS], at_position[REPLICAS];
byte stored[REPLICAS];
#ifdef LOADS
byte loaded[REPLICAS]; /* the part that a take could return now */
#define is_loaded(r, m) is_in(loaded[r], m)
#else
#define is_loaded(r, m) true
#endif
bool owns[REPLICAS];

#ifdef MISTAKE_ANY_INCARNATION
#define covers(m) (of_position[m] <= mark_position && DUE <= mark_due)
#else
#define covers(m)                                                                                  \
    (of_incarnation[m] == mark_incarnation && of_position[m] <= mark_position &&                   \
     DUE <= mark_due)
#endif

#define has_ended(m) (is_in(ended, m) || ((m) == 0 && cancelled))
#define has_read(r) (at_incarnation[r] == incarnation && at_position[r] == length)
#define is_near(r) (at_incarnation[r] == incarnation && at_position[r] >= end_before)

inline append()
{
    count++;
    length++;
    of_incarnation[count - 1] = incarnation;
    of_position[count - 1] = length
}

proctype producer()
{
    do
    :: atomic {
        count < MESSAGES ->
        append()
    }
#ifdef CANCEL
    :: atomic {
        count == 1 && clock == 0 ->
        append();
        cancel = count - 1;
        cancelled = true
    }
#endif
#ifdef ANEW
    :: atomic {
        count == 1 && incarnation == 0 ->
        incarnation = 1;
        length = 0;
        end_now = 0;
        end_before = 0
    }
#endif
    :: atomic {
        clock < DUE ->
        clock++;
        end_before = end_now;
        end_now = length
    }
    :: atomic {
        lease > 0 ->
        lease--
    }
    :: count == MESSAGES && clock == DUE -> break
    od
}

/* The message behind a replica's place. */
inline find_next(r)
{
    m = 0;
    do
    :: of_incarnation[m] == at_incarnation[r] && of_position[m] == at_position[r] + 1 -> break
    :: else -> m++
    od
}

inline put(r)
{
    if
    :: m == cancel ->
        stored[r] = stored[r] & ~bit(0)
    :: m != cancel && covers(m) ->
        assert(has_ended(m))
    :: m != cancel && !covers(m) ->
#ifdef MISTAKE_POSITION_IDENTITY
        n = 0;
        do
        :: n < m ->
            if
            :: is_in(stored[r], n) && of_position[n] == of_position[m] ->
                assert(has_ended(n));
                stored[r] = stored[r] & ~bit(n)
            :: else
            fi;
            n++
        :: else -> break
        od;
        n = 0;
#endif
        stored[r] = stored[r] | bit(m)
    fi;
    at_position[r]++
}

proctype reader(byte r)
{
    byte m, n;
    do
    :: atomic {
        at_incarnation[r] == incarnation && at_position[r] < length ->
        find_next(r);
        put(r);
        m = 0
    }
    :: atomic {
        at_incarnation[r] != incarnation ->
        at_incarnation[r] = incarnation;
        at_position[r] = 0
    }
#ifdef LOADS
    :: atomic {
        (stored[r] & ~loaded[r]) != 0 ->
        loaded[r] = stored[r]
    }
#endif
    :: count == MESSAGES && has_read(r) && stored[r] == 0 -> break
    od
}

/* The earliest due time of what is not done, or of that part which a take could return. */
inline look(r)
{
    n = 0;
    t = clock;
    do
    :: n < MESSAGES ->
        if
#ifdef MISTAKE_TAKE_FEWER
        :: is_in(stored[r], n) && is_loaded(r, n) && DUE - 1 < t ->
#else
        :: is_in(stored[r], n) && DUE - 1 < t ->
#endif
            t = DUE - 1
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0
}

inline read_place(r)
{
    p_incarnation = at_incarnation[r];
    p = at_position[r]
}

inline say(r)
{
#ifdef MISTAKE_PLACE_LATE
    atomic { look(r) };
    atomic { read_place(r) };
#else
    atomic { read_place(r) };
    atomic { look(r) };
#endif
    atomic {
        if
        :: owner == r ->
            mark_incarnation = p_incarnation;
            mark_position = p;
            mark_due = t;
            lease = 2
        :: else ->
            owns[r] = false
        fi;
        p = 0;
        p_incarnation = 0;
        t = 0
    }
}

inline claim(r)
{
    atomic {
        if
        :: owner == r || lease == 0 ->
            owner = r;
            lease = 2
        :: else
        fi
    };
    atomic {
        p_incarnation = incarnation;
        p = length
    };
    do
    :: atomic {
        owner == r && at_incarnation[r] == p_incarnation && at_position[r] >= p ->
        owns[r] = true;
        break
    }
    :: owner != r || incarnation != p_incarnation -> break
    od;
    atomic {
        p = 0;
        p_incarnation = 0
    }
}

#ifdef MISTAKE_NOT_READ
#define may_send(r) (owns[r] && owner == r && lease == 2)
#else
#define may_send(r) (owns[r] && owner == r && lease == 2 && is_near(r))
#endif

inline send(r)
{
    atomic {
        n = 0;
        do
        :: n < MESSAGES && is_in(stored[r], n) && is_loaded(r, n) && DUE <= clock &&
            !is_in(ended, n) && may_send(r) ->
            assert(!(n == 0 && cancelled));
            ended = ended | bit(n);
            break
        :: n < MESSAGES -> n++
        :: n == MESSAGES -> break
        od
    };
    atomic {
        if
        :: n < MESSAGES -> stored[r] = stored[r] & ~bit(n)
        :: else
        fi;
        n = 0
    }
}

/* What was put up to the last place that the watermark covers: of this incarnation up to P, and
 * whatever was there before. */
#ifdef MISTAKE_ANY_INCARNATION
#define is_dropped(r, m) (of_position[m] <= mark_position)
#else
#define is_dropped(r, m)                                                                           \
    (at_incarnation[r] == mark_incarnation &&                                                      \
     (of_incarnation[m] < mark_incarnation || of_position[m] <= mark_position))
#endif

inline drop(r)
{
    atomic {
        n = 0;
        do
        :: n < MESSAGES ->
            if
            :: is_in(stored[r], n) && DUE <= mark_due && is_dropped(r, n) ->
                assert(has_ended(n) || of_incarnation[n] != incarnation);
                stored[r] = stored[r] & ~bit(n)
            :: else
            fi;
            n++
        :: else -> break
        od;
        n = 0
    }
}

/* A replica may stand still for ever, so any of its steps may be the last. */
proctype relay(byte r)
{
    byte n, p, p_incarnation, t;
end:
    do
    :: !owns[r] && (owner == r || lease == 0) -> claim(r)
    :: owns[r] -> say(r)
    :: owns[r] -> send(r)
    :: !owns[r] -> drop(r)
    od
}

init
{
    atomic {
        run producer();
        run reader(0);
        run reader(1);
        run relay(0);
        run relay(1)
    }
}
