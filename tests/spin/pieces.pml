/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chunks of a timer: two producers take them, the worker gives them back, and empties the slabs
 * whose chunks have all come back. The stacks themselves are those of pool.pml: here a push and a
 * pop are one step.
 *
 *     here          there
 *     take          hwt_pieces_take() of a chunk, cut_fresh() and begin_slab() in hwt/base/pieces.c
 *     give          hwt_pieces_give(); put_piece(), get_piece() and empty_slab()
 *     collect       hwt_pieces_collect()
 *     FRESH, UNUSED the stacks `fresh` and `empty` of slabs; their order does not matter
 *     stack         of chunks, of which STOCK are enough
 *     partial       slabs with chunks that are free at their heads: the worker's
 *
 * Verified: no chunk is had by two, none is cut off beyond the end of its slab, a slab is emptied
 * when all its chunks are back, and then by the worker alone; in the end nothing is lost.
 */

#define SLABS 2
#define SIZE 2 /* chunks of a slab */
#define CHUNKS (SLABS * SIZE)
#define STOCK 1
#ifndef ROUNDS
#define ROUNDS 3
#endif
#define NONE 255

/* Where a chunk is. */
#define UNCUT 0
#define STACK 1
#define HAD 2
#define HEAD 3

byte place[CHUNKS];
byte cut[SLABS], free[SLABS];
bool on[2 * SLABS]; /* a list */
#define FRESH 0
#define UNUSED SLABS
byte on_stack;
chan read = [CHUNKS] of { byte }; /* chunks that the worker has read, and is to give back */
byte producers = 2;

inline pop_chunk(c)
{
    atomic {
        if
        :: place[0] == STACK -> c = 0
        :: place[1] == STACK -> c = 1
        :: place[2] == STACK -> c = 2
        :: place[3] == STACK -> c = 3
        :: else -> c = NONE
        fi;
        if
        :: c != NONE ->
            place[c] = HAD;
            on_stack--
        :: else
        fi
    }
}

inline push_chunk(c)
{
    atomic {
        assert(place[c] == HAD);
        place[c] = STACK;
        on_stack++
    }
}

/* One of the slabs that are on the list, and off it. */
inline pop_slab(list, s)
{
    atomic {
        if
        :: on[list] -> s = 0
        :: on[list + 1] -> s = 1
        :: else -> s = NONE
        fi;
        if
        :: s != NONE -> on[list + s] = false
        :: else
        fi
    }
}

inline push_slab(list, s)
{
    atomic {
        assert(!on[FRESH + s] && !on[UNUSED + s]);
        on[list + s] = true
    }
}

inline take(c)
{
    pop_chunk(c);
    if
    :: c != NONE
    :: else ->
        pop_slab(FRESH, s);
        if
        :: s == NONE ->
            pop_slab(UNUSED, s);
            if
            :: s != NONE ->
                cut[s] = 0;
                free[s] = 0
            :: else
            fi
        :: else
        fi;
        if
        :: s == NONE /* no memory */
        :: else ->
#ifdef MISTAKE_PUT_BACK_EARLY
            push_slab(FRESH, s);
#endif
            assert(cut[s] < SIZE);
            c = s * SIZE + cut[s];
            atomic {
                assert(place[c] == UNCUT);
                place[c] = HAD
            };
            cut[s] = cut[s] + 1;
#ifndef MISTAKE_PUT_BACK_EARLY
#ifndef MISTAKE_PUT_BACK_ALWAYS
            if
            :: cut[s] < SIZE -> push_slab(FRESH, s)
            :: else
            fi
#else
            push_slab(FRESH, s)
#endif
#endif
        fi;
        s = 0
    fi
}

proctype producer()
{
    byte c, s, rounds;
    do
    :: rounds < ROUNDS ->
        rounds++;
        take(c);
        if
        :: c == NONE
        :: else ->
            if
            :: read!c /* it was full of records */
            :: push_chunk(c) /* a compaction has left it */
            fi
        fi;
        c = 0
    :: else -> break
    od;
    producers--
}

/* ---- the worker ---- */

inline put_piece(c)
{
    s = c / SIZE;
    place[c] = HEAD;
    free[s]++;
    if
#ifdef MISTAKE_EMPTY_EARLY
    :: free[s] == cut[s] ->
#else
    :: free[s] == SIZE ->
#endif
        atomic {
            assert(place[s * SIZE] == HEAD && place[s * SIZE + 1] == HEAD);
            place[s * SIZE] = UNCUT;
            place[s * SIZE + 1] = UNCUT
        };
        free[s] = 0;
#ifndef MISTAKE_CUT_KEPT
        cut[s] = 0;
#endif
        push_slab(FRESH, s)
    :: else
    fi;
    s = 0
}

/* One of those that are free at a head. */
inline get_piece(c)
{
    if
    :: place[0] == HEAD -> c = 0
    :: place[1] == HEAD -> c = 1
    :: place[2] == HEAD -> c = 2
    :: place[3] == HEAD -> c = 3
    :: else -> c = NONE
    fi;
    if
    :: c != NONE ->
        free[c / SIZE]--;
        place[c] = HAD
    :: else
    fi
}

inline give(c)
{
    if
    :: on_stack >= STOCK -> put_piece(c)
    :: else ->
        push_chunk(c);
        get_piece(c);
        if
        :: c != NONE -> push_chunk(c)
        :: else
        fi
    fi
}

proctype worker()
{
    byte c, s;
    do
    :: read?c -> give(c); c = 0
    :: on_stack > 2 * STOCK ->
        pop_chunk(c);
        if
        :: c != NONE -> put_piece(c)
        :: else
        fi;
        c = 0
    :: atomic { producers == 0 && empty(read) -> break }
    od;
    for (s : 0 .. SLABS - 1) {
        assert(on[FRESH + s] || on[UNUSED + s] || cut[s] == SIZE)
    }
    for (c : 0 .. CHUNKS - 1) {
        assert(place[c] == STACK || place[c] == HEAD || (place[c] == UNCUT && (on[FRESH + c / SIZE] || on[UNUSED + c / SIZE])))
    }
}

init
{
    atomic {
        on[UNUSED] = true;
        on[UNUSED + 1] = true;
        run producer();
        run producer();
        run worker()
    }
}
