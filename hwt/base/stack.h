/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STACK_H
#define HWT_STACK_H

/*
 * A stack of free things, which all threads share: batches of entries, slabs, chunks. A push and a
 * pop are lock-free.
 *
 * A thing is on the stack by a link, a word in it that has the address of the link below, or 0. The
 * stack is a word of two halves, which are exchanged together: the address of the first link; and a
 * tag and how much there is, because a thing may count for more than one.
 *
 * A pop reads the second half, the first one, and then what the first thing says: its link and how
 * much it counts for. These may be read while another thread has the thing already, and then they
 * are anything. But each pop changes the tag. So an exchange that succeeds comes after no other pop,
 * and no push: the thing was on top all the time, and nobody's but the stack's. (The tag has 32
 * bits: a thread would have to sleep between the two through a multiple of 2^32 pops.)
 *
 * So whoever owns a thing may write its link and what it counts for only by atomic stores, and its
 * memory stays mapped while the stack is used; if it is given back to the system, it reads as 0.
 *
 * The exchange is seq_cst: a push publishes the thing, and a pop acquires it.
 */

#include "hwt/base/word.h"

typedef _Atomic uint64_t hwt_link;

/* Pushes a thing that counts for n. */
void hwt_stack_push(struct hwt_word *stack, hwt_link *link, uint32_t n);

/* NULL: there is none. count_of() reads from a thing for how much it counts; NULL: each for 1. */
hwt_link *hwt_stack_pop(struct hwt_word *stack, uint32_t (*count_of)(const hwt_link *link));

/* How much there is. */
static inline uint32_t hwt_stack_count(const struct hwt_word *stack)
{
    /* Relaxed: a number. */
    return (uint32_t)atomic_load_explicit(&stack->second, memory_order_relaxed);
}

/* The link below, of a thing that is the caller's. */
static inline hwt_link *hwt_link_next(const hwt_link *link)
{
    return (hwt_link *)(uintptr_t)atomic_load_explicit(link, memory_order_relaxed);
}

#endif
