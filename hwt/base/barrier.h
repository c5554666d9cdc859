/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BARRIER_H
#define HWT_BARRIER_H

/* Barriers of liburcu's, for ThreadSanitizer knows no fences, and gcc says so. */

#include <urcu/arch.h>

/*
 * A fork() may come at any time, on another processor, and the child destroys the timer as it
 * finds it. What is stored after this is not in the child without what was stored before, also
 * where processors take note of a fork without being interrupted (ARM).
 */
static inline void hwt_a_fork_may_come(void)
{
    cmm_wmb();
}

/* What atomic_thread_fence(memory_order_seq_cst) is. */
static inline void hwt_full_barrier(void)
{
    cmm_mb();
}

#endif
