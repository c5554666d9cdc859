/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BARRIER_H
#define HWT_BARRIER_H

/* Barriers of liburcu, because ThreadSanitizer knows no fences, and gcc warns of them. */

#include <urcu/arch.h>

/* The same as atomic_thread_fence(memory_order_seq_cst). */
static inline void hwt_full_barrier(void)
{
    cmm_mb();
}

#endif
