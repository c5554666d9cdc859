/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A stream: its producer appends, and compacts what is not read; the worker reads; chunks come from
 * the pieces, and go there when they were read or are left over. A record may become out of date at any time.
 *
 *     here               there
 *     append             hwt_stream_append() in hwt/inbox/stream.h
 *     take_chunk, grow   take_chunk(), hwt_stream_grow() in hwt/inbox/stream.c
 *     compact            compact() with pack() and cut()
 *     keep               keep_chunk()
 *     give_back          hwt_pieces_give(), hwt_pieces_give_chunk()
 *     worker             read_stream() in hwt/worker/drain.c, hwt_stream_peek()
 *
 * Verified: the records that are not out of date are all read, in their order, or `rescan_needed` says
 * that they were dropped; none is read that was not published, and none twice; a chunk is in the
 * stream, spare or free, and never two of them.
 */

#ifndef RECORDS
#define RECORDS 6
#endif
#define SIZE 2   /* of a chunk */
#define CHUNKS 4
#define NONE 0   /* chunks are 1 to CHUNKS */

byte next_of[CHUNKS + 1], used[CHUNKS + 1];
byte record[(CHUNKS + 1) * SIZE];
#define at_of(c, i) record[(c) * SIZE + (i)]

bool claimed, rescan_needed, produced;
byte head = 1, read;                 /* who has claimed it */
byte chunks = 1, chunks_read;
bool taken[CHUNKS + 1]; /* from the pieces */

/* What the properties need to know. */
bool dead[RECORDS + 1], seen[RECORDS + 1];
byte published, last_read;

inline make_chunk(c)
{
    atomic {
        c = 1;
        do
        :: c <= CHUNKS && taken[c] -> c++
        :: c <= CHUNKS && !taken[c] ->
            taken[c] = true;
            next_of[c] = NONE;
            used[c] = 0;
            break
        :: c > CHUNKS ->
            c = NONE; /* no memory */
            break
        od
    }
}

/* It goes to the pieces, from which any stream may take it at once. */
inline give_back(c)
{
    atomic {
        taken[c] = false;
        at_of(c, 0) = 0;
        at_of(c, 1) = 0;
        next_of[c] = 0;
        used[c] = 0
    }
}

inline keep(c)
{
    if
    :: give_back(c)
    :: next_of[c] = own_spare;
        own_spare = c
    fi
}

/* ---- the producer ---- */

inline take_chunk()
{
    chunk = own_spare;
    if
    :: chunk == NONE -> make_chunk(chunk)
    :: else ->
        own_spare = next_of[chunk];
#ifndef MISTAKE_NEXT_KEPT
        next_of[chunk] = NONE;
#endif
#ifndef MISTAKE_USED_KEPT
        used[chunk] = 0
#endif
    fi
}

inline pack()
{
    kept = 0;
    to = head;
    to_at = read;
    to_chunks = 1;
    from = head;
    i = read;
    do
    :: from != NONE ->
        do
        :: i < used[from] ->
            atomic {
                if
                :: dead[at_of(from, i)] -> i++
#ifdef MISTAKE_ANY_DROPPED
                :: i++
#endif
                :: else ->
                    if
                    :: to_at == SIZE ->
                        to = next_of[to];
                        to_at = 0;
                        to_chunks++
                    :: else
                    fi;
                    at_of(to, to_at) = at_of(from, i);
                    to_at++;
                    i++;
                    kept++
                fi
            }
        :: else -> break
        od;
        from = next_of[from];
        i = 0
    :: else -> break
    od
}

inline cut()
{
    from = next_of[to];
#ifndef MISTAKE_NOT_CUT
    next_of[to] = NONE;
#endif
    do
    :: from != NONE ->
        i = next_of[from];
        keep(from);
        from = i
    :: else -> break
    od;
    i = 0;
    tail = to;
    at = to_at;
    chunks = chunks_read + to_chunks;
#ifndef MISTAKE_OLD_USED
    used[to] = to_at
#endif
}

inline compact()
{
#ifdef MISTAKE_NOT_CLAIMED
    was = false;
#else
    atomic {
        was = claimed;
        claimed = true
    };
#endif
    if
    :: was
    :: else ->
        pack();
        if
        :: skip
        :: kept > 1 ->
            to = head;
            to_at = read;
            to_chunks = 1;
            all = false
        fi;
#ifdef MISTAKE_RELEASE_EARLY
        claimed = false;
        cut();
#else
        cut();
        claimed = false;
#endif
        if
        :: !all ->
#ifndef MISTAKE_DROPPED_SILENTLY
            rescan_needed = true
#endif
        :: else
        fi;
        atomic {
            kept = 0;
            to = 0;
            to_at = 0;
            to_chunks = 0;
            from = 0
        }
    fi;
    was = false
}

inline grow()
{
    all = true;
    if
    :: chunks - chunks_read >= 2 -> compact()
    :: else
    fi;
    if
    :: !all -> skip /* the record is not appended either: the entries say it */
    :: all && at == SIZE ->
        take_chunk();
        if
        :: chunk == NONE ->
            all = false;
            rescan_needed = true
        :: else ->
            next_of[tail] = chunk;
            tail = chunk;
            at = 0;
            chunks++;
            chunk = NONE
        fi
    :: else
    fi
}

inline append()
{
#ifdef MISTAKE_USED_FIRST
    used[tail] = at + 1;
    at_of(tail, at) = n;
    published = n;
    at++
#else
    at_of(tail, at) = n;
    at++;
    atomic {
        used[tail] = at;
        published = n
    }
#endif
}

proctype producer()
{
    byte n, tail = 1, at, chunk, own_spare, to, to_at, to_chunks, from, i, kept;
    bool was, all = true;
    do
    :: n < RECORDS ->
        n++;
        if
        :: at == SIZE -> grow()
        :: else
        fi;
        if
        :: all -> append()
        :: else -> all = true
        fi
    :: else -> break
    od;
    produced = true
}

/* One record of the first ones is out of date some time, and one of the last ones. */
proctype canceller()
{
    if
    :: dead[2] = true
    :: dead[3] = true
    fi;
    if
    :: dead[4] = true
    :: dead[5] = true
    :: skip
    fi
}

/* ---- the worker ---- */

inline peek()
{
    n = 0;
    if
    :: read == SIZE ->
        next = next_of[head];
        if
        :: next != NONE ->
            was = head;
            head = next;
            read = 0;
            chunks_read++;
            give_back(was)
        :: else
        fi
    :: else
    fi;
    if
    :: read < SIZE -> n = used[head] - read
    :: else
    fi;
    next = 0;
    was = 0
}

proctype worker()
{
    byte n, i, next, was;
    bool last, had;
    do
    :: atomic {
        last = produced;
        had = claimed;
#ifndef MISTAKE_WORKER_UNCLAIMED
        claimed = true
#endif
    };
        if
#ifdef MISTAKE_WORKER_UNCLAIMED
        :: false
#else
        :: had -> skip
#endif
        :: else ->
            peek();
            do
            :: n > 0 ->
                i = 0;
                do
                :: i < n ->
                    atomic {
                        assert(taken[head] && at_of(head, read + i) > 0);
                        assert(at_of(head, read + i) <= published);
                        assert(at_of(head, read + i) > last_read);
                        last_read = at_of(head, read + i);
                        seen[last_read] = true;
                        i++
                    }
                :: else -> break
                od;
#ifdef MISTAKE_READ_FORGOTTEN
                read = read + (n > 1 -> n - 1 : n);
#else
                read = read + n;
#endif
                peek()
            :: else -> break
            od;
            i = 0;
            claimed = false;
            if
            :: last -> break
            :: else
            fi
        fi
    od;
    n = 1;
    do
    :: n <= RECORDS ->
        assert(seen[n] || dead[n] || rescan_needed);
        n++
    :: else -> break
    od
}

init
{
    atomic {
        taken[1] = true;
        run producer();
        run canceller();
        run worker()
    }
}
