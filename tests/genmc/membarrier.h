/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef MEMBARRIER_H
#define MEMBARRIER_H

/*
 * membarrier(2), as far as C11 can say it: while the caller is in it, each other thread passes a
 * full barrier somewhere between two of its own instructions. -DAT=n says where. With -DFENCES it is
 * what the library does where there is none. Without either nobody passes a barrier.
 */

#include <stdatomic.h>

void __VERIFIER_assume(int holds);

static _Atomic unsigned membarrier_begun, membarrier_passed;

static void interrupted(int at)
{
#ifdef AT
    if (at != AT)
        return;
    __VERIFIER_assume(atomic_load_explicit(&membarrier_begun, memory_order_acquire));
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&membarrier_passed, 1, memory_order_release);
#else
    (void)at;
#endif
}

static void all_pass_a_barrier(struct hwt_gate *gate)
{
    (void)gate;
#if defined(FENCES)
    hwt_gate_barrier(gate);
#elif defined(AT)
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&membarrier_begun, 1, memory_order_release);
    __VERIFIER_assume(atomic_load_explicit(&membarrier_passed, memory_order_acquire));
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
