/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stack that all threads share. See stack.h. */

#include "hwt/base/stack.h"

#include <stddef.h>

#include "hwt/base/sched_point.h"

#define TAG ((uint64_t)1 << 32)

void hwt_stack_push(struct hwt_word *stack, hwt_link *link, uint32_t n)
{
    uint64_t top, second;
    do {
        /* Relaxed, both: the exchange compares them. */
        second = atomic_load_explicit(&stack->second, memory_order_relaxed);
        top = atomic_load_explicit(&stack->first, memory_order_relaxed);
        /* Release: the link is the deadline of an entry in use. Who reads it by an old handle sees
         * then that its timeout is over. */
        atomic_store_explicit(link, top, memory_order_release);
        HWT_SCHED_POINT(STACK_PUSH);
    } while (!hwt_word_exchange(stack, top, second, (uintptr_t)link, second + n));
}

hwt_link *hwt_stack_pop(struct hwt_word *stack, uint32_t (*count_of)(const hwt_link *link))
{
    uint64_t top, below, second;
    uint32_t n;
    do {
        /* Acquire: what is read below is no older than this tag, and so is what the first thing says. */
        second = atomic_load_explicit(&stack->second, memory_order_acquire);
        top = atomic_load_explicit(&stack->first, memory_order_relaxed);
        const hwt_link *link = (hwt_link *)(uintptr_t)top;
        if (!link)
            return NULL;
        below = atomic_load_explicit(link, memory_order_relaxed);
        n = count_of ? count_of(link) : 1;
        HWT_SCHED_POINT(STACK_POP);
    } while (!hwt_word_exchange(stack, top, second, below, second + TAG - n));
    return (hwt_link *)(uintptr_t)top;
}
