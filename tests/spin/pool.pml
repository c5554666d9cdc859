/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A stack of free batches, of empty slabs or of chunks: two threads take and give back.
 *
 *     here          there
 *     take          hwt_stack_pop() in hwt/base/stack.c; also of two at a time, as nobody does there
 *     give          hwt_stack_push()
 *     index         the link of one to the next: the deadline of a batch's first entry
 *     user          who takes batches: while they are a thread's, that word is anything
 *
 * Verified: a batch is never given to two, and never lost; an id is looked up only if it was the
 * next of a batch on the stack.
 */

#define ENTRIES 3
#define NONE 3 /* HWT_ID_NONE */
#define WILD 4 /* no id at all: a deadline */
#ifndef ROUNDS
#define ROUNDS 3
#endif

/* The head: in one word there. */
byte free_id, free_tag;
byte index[ENTRIES];

bool taken[ENTRIES]; /* what the properties need to know */
byte using = 2;

#define is_head (free_id == head && free_tag == tag)

/* batch[0] to batch[n - 1] */
inline take(max)
{
    atomic {
        head = free_id;
        tag = free_tag
    };
    do
    :: atomic {
        rest = head;
        n = 0;
        unchanged = true
    };
        do
        :: n < max && rest != NONE && unchanged ->
            atomic {
                assert(rest < ENTRIES);
                batch[n] = rest;
                rest = index[rest]
            };
            atomic {
#ifndef MISTAKE_NEXT_BELIEVED
                unchanged = is_head;
#endif
                n++
            }
        :: else -> break
        od;
        if
        :: n == 0 -> break
        :: n > 0 && !unchanged ->
            atomic {
                head = free_id;
                tag = free_tag
            }
        :: n > 0 && unchanged ->
            atomic {
                if
                :: is_head ->
                    free_id = rest;
#ifndef MISTAKE_NO_TAG
                    free_tag++;
#endif
                    assert(!taken[batch[0]]);
                    taken[batch[0]] = true;
                    if
                    :: n > 1 ->
                        assert(!taken[batch[1]]);
                        taken[batch[1]] = true
                    :: else
                    fi;
                    break
                :: else ->
                    head = free_id;
                    tag = free_tag
                fi
            }
        fi
    od;
    atomic {
        head = 0;
        tag = 0;
        rest = 0;
        unchanged = false
    }
}

inline give(first, last)
{
    atomic {
        head = free_id;
        tag = free_tag
    };
    do
    :: index[last] = head;
        atomic {
            if
            :: is_head ->
                free_id = first;
                taken[first] = false;
                taken[last] = false;
                break
            :: else ->
                head = free_id;
                tag = free_tag
            fi
        }
    od;
    head = 0;
    tag = 0
}

inline use(e)
{
    if
    :: index[e] = 0
    :: index[e] = 1
    :: index[e] = 2
    :: index[e] = NONE
    :: index[e] = WILD
    fi
}

proctype user(byte max)
{
    byte head, tag, rest, n, rounds;
    byte batch[2];
    bool unchanged;
    do
    :: rounds < ROUNDS ->
        rounds++;
        take(max);
        if
        :: n == 1 ->
            use(batch[0]);
            give(batch[0], batch[0])
        :: n == 2 ->
            use(batch[0]);
            use(batch[1]);
            if
            :: give(batch[0], batch[0]);
                give(batch[1], batch[1])
            :: index[batch[1]] = batch[0];
                give(batch[1], batch[0])
            fi
        :: else
        fi;
        atomic {
            batch[0] = 0;
            batch[1] = 0;
            n = 0
        }
    :: else -> break
    od;
    using--
}

proctype count()
{
    byte n, id;
    atomic {
        using == 0 ->
        id = free_id;
        do
        :: id != NONE ->
            assert(!taken[id] && n < ENTRIES);
            n++;
            id = index[id]
        :: else -> break
        od;
        assert(n == ENTRIES)
    }
}

init
{
    atomic {
        index[0] = 1;
        index[1] = 2;
        index[2] = NONE;
        run user(2);
        run user(2);
        run count()
    }
}
