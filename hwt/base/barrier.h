/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BARRIER_H
#define HWT_BARRIER_H

/* Barriers of liburcu, because ThreadSanitizer knows no fences, and gcc warns of them. */

#include <urcu/arch.h>

/*
 * A fork() may come at any time, on another processor, and the child destroys the timer as it
 * finds it. If the child has a store that comes after this, it also has all stores that came before,
 * even if processors take note of a fork without being interrupted (ARM).
 */
static inline void hwt_a_fork_may_come(void)
{
    cmm_wmb();
}

/* The same as atomic_thread_fence(memory_order_seq_cst). */
static inline void hwt_full_barrier(void)
{
    cmm_mb();
}

#endif
